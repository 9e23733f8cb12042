"""What a device decides: bytes and `now` in, events and bytes out. No socket, file, clock, thread or randomness.

Rules: all durable state goes through one interface, `records/`. A machine changes its memory for a transaction's
decision only after the commit (`link/after_commit.py`). Hostile bytes give a value or a `RemoteError`.

Read `node.py` first, which holds the machines; then the way in (`receiving/`) and the way out (`membership/actions.py`,
`routing/collectors.py`, and `link/`).

    records     reads and writes of durable state: interfaces only
    wire        bytes: CBOR, messages, envelopes, sequences, topics, export files
    link        one author and one recipient: queues, windows, received sets, link keys, incarnations
    group       documents: manifests, trust, the resolver of rivals; pure functions
    membership  this device's groups: joining, changing, voting, rotating keys
    history     signed operations of a group's members: their rules, catching up
    pairing     the ceremony that admits a stranger
    telemetry   batches of readings
    presence    which devices are online, by beats and wills
    ephemeral   messages to members that are online, which nobody stores
    own         a person's own devices
    vault       segments and manifests at rest
    routing     boards behind gateways, and the collectors that telemetry goes to
    receiving   handlers of each type of message
    orders      permissions of operators, and which orders count
    settings    settings that operators order, and reports about them
    actions     running the actions that commands name
    content     files of any size
    mailbox     members that keep envelopes for devices that sleep
    checkpoints what a device may forget of a history
"""
