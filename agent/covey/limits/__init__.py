"""Every bound, by subject, with its unit and its reason. Nothing else in Covey invents a limit of its own.

    message    Messages and envelopes: what is refused before it is parsed, and how deep it may be.
    link       Links: windows, gaps, acknowledgements, retries, incarnations.
    rate       How much received data is processed in a given time.
    storage    What one device stores, and how much of its disk that takes: outbox, inbox, landing, log, quarantine.
    board      Boards: small heaps behind a gateway.
    relay      Relays and presence: how many, how often, and how long a silence means something.
    link_key   Link keys: when one is worth it, and when it ends.
    group      Groups: their manifests, members, votes and departures.
    orders     Orders: operators' statements, and how many a device reads.
    heads      Heads: how often devices compare their groups, and what they do about differences.
    personal   A person's own devices: their announcements.
    pairing    Joining a group: invites, ceremonies, requests.
    key        Keys of a device: retired ones, and what a passphrase costs.
    mailbox    Mailboxes: what one stores, for how long, and how much is sent at once.
    telemetry  Telemetry: batches and their content.
    sensors    Sensors that a configuration names: how many, how much they may say, how long they may take.
    doors      Doors, on this machine alone.
    vault      The vault: segments, manifests, ranges.
    tables     Tables of the ingest.
    history    Operations of groups, and how they travel.
    settings   Settings that operators order, and the reports about them.
    actions    Actions of owners: their definitions, and what one may take.
    content    Files: their size, in what portions they travel, and how much a device does for others.
    ephemeral  Messages that nobody stores: how long they live, and how many there are.
    alerts     Alerts, on this machine alone.
    broker     A broker that Covey serves: what one account may have it hold.
    units      Units of the limits.

`docs/protocol/` lists the ones that a second implementation must share; a test holds the two together.
"""
