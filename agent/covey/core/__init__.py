"""What a device decides: bytes and `now` in, events and bytes out. No socket, file, clock, thread or randomness.

Rules: whatever is durable goes through one interface, `records/`; a machine changes its memory for what a transaction
decides only after the commit (`link/after_commit.py`); hostile bytes give a value or a `RemoteError`.

Read `node.py` first, which holds the machines; then the way in (`receiving/`) and the way out (`membership/actions.py`,
`routing/collectors.py`, and `link/`).

    records     what is read and written of the durable state: interfaces alone
    wire        bytes: CBOR, messages, envelopes, sequences, topics, export files
    link        one author and one recipient: queues, windows, what was received, link keys, incarnations
    group       documents: manifests, trust, the resolver of rivals; pure functions
    membership  this device's groups: joining, changing, voting, rotating keys
    history     what a group's members say: operations, their rules, catching up
    pairing     the ceremony that lets a stranger in
    telemetry   batches of readings
    presence    who is there, by beats and wills
    vault       segments and manifests at rest
    routing     boards behind gateways, and the collectors that telemetry goes to
    receiving   what is done with each kind of message
    orders      who may order what; settings, actions: what is ordered
    content     files of any size
    mailbox     members that keep envelopes for devices that sleep
    checkpoints what may be forgotten of a history
"""
