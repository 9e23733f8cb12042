-- One device's durable state.
-- Times are microseconds since 1970 by the wall clock, keys and ids raw bytes. An *age* is microseconds that agents have
-- run on this state (`device.age`): a jump of the wall clock makes nothing expire early. What is *wrapped* opens with the
-- device's storage key (adapters/keys/storage_key.py).

-- The device ----------------------------------------------------------------------------------------------------------

-- Totals are stored so that no command has to scan the outbox, the inbox or the landing.
CREATE TABLE device (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation       BLOB    NOT NULL,
    next_seq          INTEGER NOT NULL DEFAULT 1,
    next_batch        INTEGER NOT NULL DEFAULT 1,     -- number of the next telemetry batch
    next_arrival      INTEGER NOT NULL DEFAULT 1,     -- shared by operations and events; never reused
    presence_floor    INTEGER NOT NULL DEFAULT 0,     -- counters of its own presence below this may have been used
    manifest_floor    INTEGER NOT NULL DEFAULT 0,     -- highest vault manifest published
    age               INTEGER NOT NULL DEFAULT 0,
    queued_messages   INTEGER NOT NULL DEFAULT 0,
    queued_bytes      INTEGER NOT NULL DEFAULT 0,
    control_bytes     INTEGER NOT NULL DEFAULT 0,
    data_bytes        INTEGER NOT NULL DEFAULT 0,
    telemetry_bytes   INTEGER NOT NULL DEFAULT 0,
    history_bytes     INTEGER NOT NULL DEFAULT 0,
    alarm_bytes       INTEGER NOT NULL DEFAULT 0,
    inbox_bytes       INTEGER NOT NULL DEFAULT 0,
    landing_bytes     INTEGER NOT NULL DEFAULT 0,
    copy_mark         BLOB,                           -- adapters/sqlite/file/copy_mark.py
    commits           INTEGER NOT NULL DEFAULT 0,     -- adapters/sqlite/file/high_water.py
    lineage           BLOB                            -- of the file next to the database that also counts commits
) STRICT;

CREATE TABLE counter (
    name              TEXT    PRIMARY KEY,
    value             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The running agent's last observations, for `covey status`.
CREATE TABLE condition (
    name              TEXT    PRIMARY KEY,
    value             TEXT    NOT NULL,
    changed_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far a sensor that can seek has read its source, committed with the readings in the outbox.
CREATE TABLE sensor_position (
    name              TEXT    PRIMARY KEY,
    position          BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE salvage (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    salvaged_at       INTEGER NOT NULL,
    report            TEXT    NOT NULL                -- JSON
) STRICT;

-- Requests to the local API that carried a key: a retry queues nothing more.
CREATE TABLE idempotency (
    id                INTEGER PRIMARY KEY,
    key               TEXT    NOT NULL UNIQUE,
    digest            BLOB    NOT NULL,
    result            INTEGER NOT NULL
) STRICT;

-- Events that are not operations, bounded; operations are numbered by their own rows.
CREATE TABLE event (
    arrival           INTEGER PRIMARY KEY,
    kind              TEXT    NOT NULL,
    group_id          BLOB    NOT NULL,               -- empty: of no group
    at                INTEGER NOT NULL,
    about             TEXT    NOT NULL                -- JSON
) STRICT;

-- Sending -------------------------------------------------------------------------------------------------------------

-- A queue counts its messages on through all incarnations: `next_place` and `outbox.place` are places in the queue.
-- On the wire each incarnation begins at 1: `base` is the place before its first.
CREATE TABLE peer (
    id                INTEGER PRIMARY KEY,
    signing_public    BLOB    NOT NULL UNIQUE,
    next_place        INTEGER NOT NULL DEFAULT 1,
    base              INTEGER NOT NULL DEFAULT 0,
    queued_messages   INTEGER NOT NULL DEFAULT 0,
    acknowledged      INTEGER NOT NULL DEFAULT 0,
    reported_place    INTEGER NOT NULL DEFAULT 0,     -- of the last loss record that was queued
    replaced_at       INTEGER NOT NULL DEFAULT 0,     -- when its acknowledgement last made this device change incarnation
    holds_batches     INTEGER NOT NULL DEFAULT 1      -- 0: no telemetry in the queue that another collector could get
) STRICT;

-- Clustered by recipient and place: appended at a queue's end and freed at its beginning, whole pages at a time.
CREATE TABLE outbox (
    id                INTEGER PRIMARY KEY,            -- peer << 40 | place
    peer              INTEGER NOT NULL GENERATED ALWAYS AS (id >> 40) VIRTUAL,
    place             INTEGER NOT NULL GENERATED ALWAYS AS (id & 0xffffffffff) VIRTUAL,
    seq               INTEGER NOT NULL,
    class             INTEGER NOT NULL,
    size              INTEGER NOT NULL,
    queued_at         INTEGER NOT NULL,
    number            INTEGER,                        -- of a telemetry batch, or the first one of a summary
    numbers           TEXT,                           -- JSON: ranges of the batches that a summary replaces
    window            INTEGER,                        -- what may be thinned: a summary's width, 0 for a batch
    whole             INTEGER NOT NULL DEFAULT 0,     -- 1: neither thinned nor dropped
    expires           INTEGER,                        -- at this age
    digest            BLOB    NOT NULL,
    message           BLOB    NOT NULL
) STRICT;
CREATE INDEX outbox_by_expiry ON outbox (expires) WHERE expires IS NOT NULL;
CREATE INDEX outbox_control ON outbox (id) WHERE class = 0;  -- found behind any number of other messages
CREATE INDEX outbox_history ON outbox (id) WHERE class = 3;
CREATE INDEX outbox_alarm ON outbox (id) WHERE class = 4;

-- Ended incarnations in which messages still wait.
CREATE TABLE incarnation_span (
    peer              INTEGER NOT NULL REFERENCES peer (id),
    incarnation       BLOB    NOT NULL,
    base              INTEGER NOT NULL,
    last              INTEGER NOT NULL,
    PRIMARY KEY (peer, incarnation)
) STRICT, WITHOUT ROWID;

-- Incarnations that ended because another copy of this state had used their numbers.
CREATE TABLE rolled_back_incarnation (
    incarnation       BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Places of a queue that will never be sent, until a signed loss record of them is queued.
CREATE TABLE unreported_loss (
    peer              INTEGER NOT NULL REFERENCES peer (id),
    first             INTEGER NOT NULL,
    last              INTEGER NOT NULL,
    reason            INTEGER NOT NULL,
    number            INTEGER,                        -- batch number of `first`; the others' follow. Null: none, or unknown
    numbers           TEXT,                           -- JSON: of a summary, which is one place, those of all its batches
    PRIMARY KEY (peer, first)
) STRICT, WITHOUT ROWID;

-- Telemetry that recipients have acknowledged, in runs of consecutive places and numbers: where one was restored from a
-- backup, its author says what is lost. The newest of each recipient.
CREATE TABLE acknowledged_run (
    peer              INTEGER NOT NULL REFERENCES peer (id),
    first             INTEGER NOT NULL,
    last              INTEGER NOT NULL,
    number            INTEGER NOT NULL,               -- batch number of `first`; the others' follow
    numbers           TEXT,                           -- JSON: of a summary, which is one place, those of all its batches
    PRIMARY KEY (peer, first)
) STRICT, WITHOUT ROWID;

-- The newest telemetry that each recipient has acknowledged, as far as there is room: it goes again to one that lost it.
CREATE TABLE acknowledged_message (
    id                INTEGER PRIMARY KEY,            -- peer << 40 | place
    message           BLOB    NOT NULL
) STRICT;

-- What a recipient's last acknowledgement lacked of what had left the queue.
CREATE TABLE recipient_hole (
    recipient         BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    first             INTEGER NOT NULL,
    last              INTEGER NOT NULL,
    PRIMARY KEY (recipient, incarnation, first)
) STRICT, WITHOUT ROWID;

-- Collectors that do not acknowledge: new telemetry goes to the next collector.
CREATE TABLE silent_collector (
    device            BLOB    PRIMARY KEY,
    since             INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last report of orders that each recipient was sent, by subject: an order's id, or empty for a report of everything.
CREATE TABLE sent_report (
    id                INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    recipient         BLOB    NOT NULL,
    subject           BLOB    NOT NULL,
    digest            BLOB    NOT NULL,
    place             INTEGER NOT NULL,               -- of the message in the recipient's queue; 0: the recipient lacks it
    UNIQUE (recipient, group_id, subject)
) STRICT;
CREATE INDEX sent_report_place ON sent_report (recipient, place);

-- Receiving -----------------------------------------------------------------------------------------------------------

CREATE TABLE received (
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    upto              INTEGER NOT NULL,
    ranges            TEXT    NOT NULL,               -- JSON [[first, last], ...]
    digest            BLOB    NOT NULL,
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;

-- Numbers of a link that only a resumption has closed: a loss record that names them later still counts.
CREATE TABLE resumed (
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    ranges            TEXT    NOT NULL,               -- JSON [[first, last], ...], ascending
    digest            BLOB    NOT NULL,
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;

-- Which message came under each of a link's newest numbers.
CREATE TABLE imprint (
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    block             INTEGER NOT NULL,               -- link sequence / 64
    entries           BLOB    NOT NULL,               -- 64 of 9 bytes: seq, 5 bytes, 0: none; imprint, 4 bytes
    PRIMARY KEY (author, incarnation, block)
) STRICT, WITHOUT ROWID;

-- Keys under which other devices write link envelopes for this one.
CREATE TABLE link_key (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    tag               BLOB    NOT NULL UNIQUE,
    author            BLOB    NOT NULL,
    noise_public      BLOB    NOT NULL,               -- this device's key that it was sealed for
    sealed            BLOB    NOT NULL,
    taken_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX link_key_of ON link_key (author, id);

CREATE TABLE inbox (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    link_seq          INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    sent_at           INTEGER NOT NULL,
    received_at       INTEGER NOT NULL,
    digest            BLOB    NOT NULL,
    body              BLOB    NOT NULL                -- last, so that ordering the inbox reads no bodies
) STRICT;
CREATE INDEX inbox_by_author ON inbox (author);

-- Messages that depend on a group manifest that has not come yet.
CREATE TABLE message_ahead (
    id                INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    message           BLOB    NOT NULL
) STRICT;

CREATE TABLE quarantine (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    code              TEXT    NOT NULL,
    stored_at         INTEGER NOT NULL,
    message           BLOB    NOT NULL,
    recipient         BLOB,                           -- of a message of this device that its recipient refused
    party             BLOB    NOT NULL                -- its recipient, or else its author
) STRICT;

-- The gateway of each board that this device sends to.
CREATE TABLE carrier (
    device            BLOB    PRIMARY KEY,
    carrier           BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Presence ------------------------------------------------------------------------------------------------------------

CREATE TABLE last_seen (
    device            BLOB    PRIMARY KEY,
    seen_at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE peer_presence (
    device            BLOB    PRIMARY KEY,
    counter           INTEGER NOT NULL,
    state             INTEGER NOT NULL,               -- 0 here, 1 leaving, 2 gone
    interval_seconds  INTEGER NOT NULL,
    connections       TEXT    NOT NULL,               -- counters of the wills of those that were up, separated by spaces
    since             INTEGER NOT NULL,
    seen_at           INTEGER NOT NULL,
    cost_today        INTEGER,                        -- bytes, what its link has cost as it told last; null: it has not
    cost_month        INTEGER,
    cost_forecast     INTEGER,                        -- of the month; null: unknown
    budget            INTEGER,                        -- bytes; null: none
    budget_monthly    INTEGER,                        -- 1: of a month, 0: of a day
    cost_at           INTEGER NOT NULL DEFAULT 0      -- when it told that
) STRICT, WITHOUT ROWID;

-- The digest of the groups' heads that each device said last, and the report behind it where the device has sent that.
CREATE TABLE peer_heads (
    device            BLOB    PRIMARY KEY,
    digest            BLOB    NOT NULL,
    report            BLOB,
    since             INTEGER NOT NULL,
    seen_at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The collector -------------------------------------------------------------------------------------------------------

CREATE TABLE landing (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    link_seq          INTEGER NOT NULL,               -- 0: no link brought it
    received_at       INTEGER NOT NULL,
    size              INTEGER NOT NULL,
    message           BLOB    NOT NULL,
    recipient         BLOB,                           -- of a message that this device landed out of its own queue,
    place             INTEGER,                        -- and its place there
    digest            BLOB    NOT NULL
) STRICT;
CREATE INDEX landing_by_link ON landing (author, incarnation, link_seq);

-- The segment that is being written: the same bytes again after a crash.
CREATE TABLE landing_plan (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    number            INTEGER NOT NULL,
    incarnation       BLOB    NOT NULL,
    last_id           INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    nonce             BLOB    NOT NULL
) STRICT;

-- A vault manifest of this node that was whole in the vault, now and then: see app/telemetry/torn_manifest.py.
CREATE TABLE kept_manifest (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    sealed            BLOB    NOT NULL
) STRICT;

-- Over which links the messages of the newest segments came: where the vault is restored alone, their senders hear that
-- they are missing.
CREATE TABLE landed_span (
    number            INTEGER NOT NULL,               -- of the segment
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    first             INTEGER NOT NULL,               -- link sequences
    last              INTEGER NOT NULL,
    PRIMARY KEY (number, author, incarnation, first)
) STRICT, WITHOUT ROWID;

-- The newest list of packages of each device, packed: see core/telemetry/packages.py.
CREATE TABLE inventory (
    author            BLOB    PRIMARY KEY,
    seq               INTEGER NOT NULL,
    received_at       INTEGER NOT NULL,
    content           BLOB    NOT NULL
) STRICT;

-- How far each group's orders have been landed. A lost row lands them again; readers keep one.
CREATE TABLE landed_orders (
    group_id          BLOB    PRIMARY KEY,
    arrival           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last manifest and the last profile of each group that were landed.
CREATE TABLE landed_membership (
    group_id          BLOB    NOT NULL,
    kind              INTEGER NOT NULL CHECK (kind IN (0, 1)),  -- 0 manifest, 1 profile
    hash              BLOB    NOT NULL,
    PRIMARY KEY (group_id, kind)
) STRICT, WITHOUT ROWID;

-- Groups --------------------------------------------------------------------------------------------------------------

CREATE TABLE group_manifest (
    group_id          BLOB    NOT NULL,
    version           INTEGER NOT NULL,
    hash              BLOB    NOT NULL,
    state             INTEGER NOT NULL,               -- 0 open, 1 follows something unknown, 2 settled
    raw               BLOB    NOT NULL,
    stored_at         INTEGER NOT NULL,
    PRIMARY KEY (group_id, version, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX group_manifest_hash ON group_manifest (group_id, hash);
CREATE INDEX group_manifest_state ON group_manifest (group_id, state);

CREATE TABLE epoch_secret (
    group_id          BLOB    NOT NULL,
    epoch_id          BLOB    NOT NULL,
    secret            BLOB    NOT NULL,               -- wrapped
    stored_at         INTEGER NOT NULL,
    PRIMARY KEY (group_id, epoch_id)
) STRICT, WITHOUT ROWID;

-- Votes that have not decided yet, of this device and of others.
CREATE TABLE vote (
    group_id          BLOB    NOT NULL,
    voter             BLOB    NOT NULL,
    raw               BLOB    NOT NULL,
    PRIMARY KEY (group_id, raw)
) STRICT, WITHOUT ROWID;

-- Devices that are in no group here and still get notices (until `expires`: visitors of a public group).
CREATE TABLE departure (
    signing_public    BLOB    PRIMARY KEY,
    noise_public      BLOB    NOT NULL,
    since             INTEGER NOT NULL,               -- this age
    expires           INTEGER                         -- at this age; null: a removed device
) STRICT, WITHOUT ROWID;

-- Groups that are being destroyed: stored before anybody is notified.
CREATE TABLE revocation (
    group_id          BLOB    PRIMARY KEY,
    raw               BLOB    NOT NULL,
    since             INTEGER NOT NULL                -- this age
) STRICT, WITHOUT ROWID;

-- The group of the person's own devices.
CREATE TABLE personal_group (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    group_id          BLOB    NOT NULL
) STRICT;

-- The last operation of the personal group by which a group was left or erased here: each is obeyed once.
CREATE TABLE own_group_obeyed (
    group_id          BLOB    PRIMARY KEY,
    operation         BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Own devices that this one has invited to a group, once for each operation that says that the person holds it.
CREATE TABLE own_group_invited (
    group_id          BLOB    NOT NULL,
    device            BLOB    NOT NULL,
    operation         BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

-- Own devices to invite once more, although the group may list them: they may have lost their state.
CREATE TABLE own_group_owed (
    group_id          BLOB    NOT NULL,
    device            BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE own_device_incarnation (
    device            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    PRIMARY KEY (device, incarnation)
) STRICT, WITHOUT ROWID;

-- Pairing -------------------------------------------------------------------------------------------------------------

CREATE TABLE invite (
    secret_hash       BLOB    PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    expires_at        INTEGER NOT NULL,
    capabilities      TEXT    NOT NULL,               -- JSON [name, ...]
    used_by           BLOB,
    bound_to          BLOB,                           -- the only device that may use it
    prepared_for      TEXT,                           -- label of the device of an invite file
    request           BLOB                            -- of its device, which waits to be let in together with others
) STRICT, WITHOUT ROWID;

-- Devices that others replace: the newcomer with this invite takes over a member's label and series.
CREATE TABLE replacement (
    secret_hash       BLOB    PRIMARY KEY,            -- of the invite
    group_id          BLOB    NOT NULL,
    replaced          BLOB    NOT NULL,
    label             TEXT    NOT NULL,
    device            BLOB                            -- the newcomer, once it has taken over; null: not yet
) STRICT, WITHOUT ROWID;

-- A pairing code of this device: commands write decisions, the agent writes progress.
CREATE TABLE pairing (
    secret_hash       BLOB    PRIMARY KEY,            -- of the invite that an accepted joiner gets
    number            INTEGER NOT NULL,               -- of the rendezvous
    code              BLOB,                           -- wrapped; null: an invite URI without words
    secret            BLOB,                           -- the invite's, wrapped; null at the end
    expires_at        INTEGER NOT NULL,
    accepts           INTEGER,                        -- 0 or 1, once it is decided
    joiner            BLOB,                           -- who has proved to know the secret
    label             TEXT    NOT NULL DEFAULT '',
    verifier          TEXT    NOT NULL DEFAULT '[]',  -- JSON [place in the list of words, ...]
    lacks_account     INTEGER NOT NULL DEFAULT 0,     -- the joiner has none at the relay
    minted            INTEGER NOT NULL DEFAULT 0,     -- it was given one, and has not joined yet
    ended             TEXT,                           -- how
    operators         BLOB    NOT NULL DEFAULT x'',   -- signing keys that the joiner is shown, one after the other
    prepared          INTEGER NOT NULL DEFAULT 0      -- an invite file with its own account, deleted with the invite
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_join (
    group_id          BLOB    NOT NULL,
    inviter_signing   BLOB    NOT NULL,
    inviter_noise     BLOB    NOT NULL,
    expires_at        INTEGER NOT NULL,
    label             TEXT,                           -- of a device that joins a public group; null: there is an invite
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;

-- Invitations by members of shared groups, until a person answers.
CREATE TABLE group_request (
    group_id          BLOB    NOT NULL,
    inviter_signing   BLOB    NOT NULL,
    inviter_noise     BLOB    NOT NULL,
    secret            BLOB    NOT NULL,               -- wrapped
    expires_at        INTEGER NOT NULL,
    received_at       INTEGER NOT NULL,
    preview           BLOB    NOT NULL,               -- CBOR, as its inviter sent it
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;

CREATE TABLE declined_group (
    group_id          BLOB    PRIMARY KEY,
    declined_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Unknown groups that a device has addressed this one in, and devices that ask to be let into groups of this one.
CREATE TABLE group_ask (
    group_id          BLOB    NOT NULL,
    device            BLOB    NOT NULL,               -- the sender that named the group, or the device that asks
    is_wish           INTEGER NOT NULL,               -- 1: it asks to be let in
    seen_at           INTEGER NOT NULL,
    answered_at       INTEGER NOT NULL,               -- when this device asked it for an invite or declined, or 0
    PRIMARY KEY (device, is_wish, group_id)
) STRICT, WITHOUT ROWID;

-- Operators that a person accepted with a group's invite.
CREATE TABLE invited_operator (
    group_id          BLOB    NOT NULL,
    operator          BLOB    NOT NULL,
    inviter           BLOB    NOT NULL,
    pinned_at         INTEGER NOT NULL,
    PRIMARY KEY (group_id, operator)
) STRICT, WITHOUT ROWID;

-- History -------------------------------------------------------------------------------------------------------------

-- `frontier` and `node`: adapters/sqlite/history/order_index.py.
CREATE TABLE operation (
    arrival           INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    hash              BLOB    NOT NULL,
    height            INTEGER NOT NULL,
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    number            INTEGER NOT NULL,
    manifest_version  INTEGER NOT NULL,
    kind              INTEGER NOT NULL,
    stored_at         INTEGER NOT NULL,
    late              INTEGER NOT NULL DEFAULT 0,     -- came when this device knew that its author was removed
    frontier          INTEGER,                        -- row of order_frontier, 0: it follows no order; null: not known yet
    node              INTEGER NOT NULL DEFAULT 0,     -- 1: frontiers may name it; 2: and orders are judged by it
    subject           BLOB,                           -- the key that it sets, or the operation that it approves
    raw               BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX operation_by_hash ON operation (hash, group_id);
CREATE INDEX operation_by_height ON operation (group_id, height, hash);
CREATE INDEX operation_by_log ON operation (group_id, author, incarnation, number);
CREATE INDEX operation_by_kind ON operation (group_id, kind, height, hash);
CREATE INDEX operation_late ON operation (group_id, hash) WHERE late;
CREATE INDEX operation_node ON operation (group_id, height, hash) WHERE node;
CREATE INDEX operation_judged ON operation (group_id, height, hash) WHERE node = 2;
CREATE INDEX operation_not_indexed ON operation (arrival) WHERE frontier IS NULL;

CREATE TABLE operation_log (
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    last              INTEGER NOT NULL,
    length            INTEGER NOT NULL,
    PRIMARY KEY (group_id, author, incarnation)
) STRICT, WITHOUT ROWID;

-- How often this device lost its own operations of a group in an incarnation; each time it starts another log.
CREATE TABLE own_log (
    group_id          BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,               -- of the device
    log               BLOB    NOT NULL,               -- the incarnation that the log names
    awaits_since      INTEGER,                        -- age of this state when the logs before it were lost; null: they came
    PRIMARY KEY (group_id, incarnation)
) STRICT, WITHOUT ROWID;

-- Operations that no other follows.
CREATE TABLE operation_head (
    group_id          BLOB    NOT NULL,
    hash              BLOB    NOT NULL,
    PRIMARY KEY (group_id, hash)
) STRICT, WITHOUT ROWID;

-- How many operations name one as a parent, where that is more than one.
CREATE TABLE operation_named (
    group_id          BLOB    NOT NULL,
    hash              BLOB    NOT NULL,
    times             INTEGER NOT NULL,
    PRIMARY KEY (group_id, hash)
) STRICT, WITHOUT ROWID;

-- Distinct frontiers.
CREATE TABLE order_frontier (
    id                INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    nodes             BLOB    NOT NULL                -- arrivals of operations, ascending, 8 bytes each
) STRICT;
CREATE UNIQUE INDEX order_frontier_by_nodes ON order_frontier (group_id, nodes);

-- How much of this device's own log each member has been sent.
CREATE TABLE announcement (
    group_id          BLOB    NOT NULL,
    member            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    number            INTEGER NOT NULL,
    place             INTEGER NOT NULL,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;

-- Members that a history is being fetched from.
CREATE TABLE catching_up (
    group_id          BLOB    NOT NULL,
    member            BLOB    NOT NULL,
    taken             INTEGER NOT NULL,
    waiting           INTEGER NOT NULL,               -- of these, those that wait for something else
    more              INTEGER NOT NULL,               -- whether the member has said that there is more
    held              INTEGER NOT NULL,               -- operations of the group that were here then
    seen_at           INTEGER NOT NULL,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;

-- How long this device has waited since it was offered the rest of a group's history.
CREATE TABLE graph_offer (
    group_id          BLOB    PRIMARY KEY,
    since_given       INTEGER,                        -- since it was given operations last; null: some since the last offer
    whole             INTEGER NOT NULL                -- in all, microseconds of running
) STRICT, WITHOUT ROWID;

-- Remains of deleted operations: id and place in the graph (adapters/sqlite/history/forgotten.py).
CREATE TABLE forgotten_operation (
    arrival           INTEGER PRIMARY KEY,
    hash              BLOB    NOT NULL UNIQUE,
    log               INTEGER NOT NULL,
    number            INTEGER NOT NULL,
    height            INTEGER NOT NULL,
    manifest          INTEGER NOT NULL,
    manifest_version  INTEGER NOT NULL,
    kind              INTEGER NOT NULL,
    late              INTEGER NOT NULL,
    length            INTEGER NOT NULL,               -- bytes that it had
    frontier          INTEGER,
    node              INTEGER NOT NULL,
    parents           BLOB    NOT NULL,               -- ids, one after the other
    target            BLOB    NOT NULL                -- the order's targets and setting key (core/orders/target.py)
) STRICT;
CREATE INDEX forgotten_by_number ON forgotten_operation (log, number);
CREATE INDEX forgotten_node ON forgotten_operation (height, hash) WHERE node;
CREATE INDEX forgotten_not_indexed ON forgotten_operation (arrival) WHERE frontier IS NULL;

CREATE TABLE forgotten_log (
    id                INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    last              INTEGER NOT NULL                -- highest number that was forgotten
) STRICT;
CREATE UNIQUE INDEX forgotten_log_by_author ON forgotten_log (group_id, author, incarnation);

CREATE TABLE forgotten_manifest (
    id                INTEGER PRIMARY KEY,
    hash              BLOB    NOT NULL UNIQUE
) STRICT;

-- Orders --------------------------------------------------------------------------------------------------------------

-- Settings that operators gave this device. `held`, `previous`: JSON [value, author], wrapped; null: the device's own
-- value.
CREATE TABLE ordered_setting (
    key               TEXT    PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    operation         BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    state             INTEGER NOT NULL,
    held              BLOB,
    previous          BLOB,
    code              TEXT    NOT NULL,
    why               TEXT    NOT NULL,
    tries             INTEGER NOT NULL,
    own               BLOB,                           -- JSON, wrapped, said by the program whose setting it is
    changed_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Orders of settings that were reverted: none is tried once more.
CREATE TABLE reverted_setting (
    place             INTEGER PRIMARY KEY,
    operation         BLOB    NOT NULL UNIQUE,
    code              TEXT    NOT NULL
) STRICT;

-- The last report of each device: the exact body, and the message's number among its author's.
CREATE TABLE reported_setting (
    group_id          BLOB    NOT NULL,
    device            BLOB    NOT NULL,
    incarnation       BLOB    NOT NULL,
    seq               INTEGER NOT NULL,
    received_at       INTEGER NOT NULL,
    body              BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

-- The operation since which this device obeys in a group.
CREATE TABLE obeyed_group (
    group_id          BLOB    PRIMARY KEY,
    operation         BLOB    NOT NULL,
    height            INTEGER NOT NULL,
    incarnation       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Commands for this device. A row is never deleted while its group is there, so that nothing is done twice.
CREATE TABLE command (
    place             INTEGER PRIMARY KEY,
    operation         BLOB    NOT NULL UNIQUE,
    group_id          BLOB    NOT NULL,
    once              BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    action            TEXT    NOT NULL,
    arguments         TEXT,                           -- JSON; deleted when the command is final
    secrets           BLOB,                           -- sealed arguments and their binding; deleted likewise
    deadline          INTEGER,
    state             INTEGER NOT NULL,
    taken_at          INTEGER NOT NULL,
    synchronised      INTEGER NOT NULL,
    started_at        INTEGER,
    boot_id           BLOB,
    tries             INTEGER NOT NULL,
    body              BLOB,                           -- the result once it is final; without its output once reported
    reported          INTEGER NOT NULL DEFAULT 0,
    in_waves          INTEGER NOT NULL                -- a wave of a release, of which every operator gets the result
) STRICT;
CREATE INDEX command_unreported ON command (state, place) WHERE NOT reported;

-- The once-ids of all commands that were ever taken: they outlive the group.
CREATE TABLE command_once (
    once              BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The installation on trial. It outlives its command's group, since the device must still be able to roll back.
CREATE TABLE installation (
    place             INTEGER PRIMARY KEY,
    operation         BLOB    NOT NULL UNIQUE,
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    action            TEXT    NOT NULL,
    file              TEXT    NOT NULL,
    phase             INTEGER NOT NULL,
    boot_id           BLOB    NOT NULL,
    since             INTEGER NOT NULL,               -- by the monotonic clock of that boot
    tries             INTEGER NOT NULL,
    code              TEXT    NOT NULL,
    why               TEXT    NOT NULL,
    output            BLOB    NOT NULL,
    version_before    TEXT
) STRICT;

-- This device's moves to other groups. One that has ended stays: readings for the old group go to the new one.
CREATE TABLE group_move (
    source            BLOB    NOT NULL PRIMARY KEY,
    target            BLOB    NOT NULL,
    operation         BLOB    NOT NULL,
    author            BLOB    NOT NULL,
    phase             INTEGER NOT NULL,
    since             INTEGER NOT NULL,               -- when the phase began, in microseconds since 1970
    asks              INTEGER NOT NULL,
    asked_at          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Ordered moves of devices that this one, as their operator's, removes from the old group when they have moved.
CREATE TABLE move_order (
    operation         BLOB    NOT NULL PRIMARY KEY,
    source            BLOB    NOT NULL,
    target            BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- The first result of each order and device. Its output is a row of its own, which may be deleted before it.
CREATE TABLE order_result (
    id                INTEGER PRIMARY KEY,
    group_id          BLOB    NOT NULL,
    operation         BLOB    NOT NULL,
    device            BLOB    NOT NULL,
    received_at       INTEGER NOT NULL,
    judged            INTEGER NOT NULL,
    output_bytes      INTEGER NOT NULL,
    output_kept       INTEGER NOT NULL,
    body              BLOB    NOT NULL,
    UNIQUE (group_id, operation, device)
) STRICT;
CREATE INDEX order_result_of_device ON order_result (group_id, device);

CREATE TABLE order_output (
    id                INTEGER PRIMARY KEY,
    output            BLOB    NOT NULL
) STRICT;

-- Content -------------------------------------------------------------------------------------------------------------

-- Sealed files of groups; their bytes are next to the database (adapters/content_files.py).
CREATE TABLE content (
    hash              BLOB    PRIMARY KEY,
    index_hash        BLOB    NOT NULL,
    sealed_size       INTEGER NOT NULL,
    group_id          BLOB    NOT NULL,
    author            BLOB    NOT NULL,               -- of the offer
    state             INTEGER NOT NULL,               -- 0 requested, 1 here, 2 does not match its offer, 3 not offered yet
    pinned            INTEGER NOT NULL DEFAULT 0,     -- 1: never evicted
    used_at           INTEGER NOT NULL,               -- when it was asked for, or used last
    lacks             BLOB                            -- the offer whose epoch secret this device lacks
) STRICT, WITHOUT ROWID;

-- Members that have said that they hold a file that is here.
CREATE TABLE content_holder (
    hash              BLOB    NOT NULL,
    device            BLOB    NOT NULL,
    PRIMARY KEY (hash, device)
) STRICT, WITHOUT ROWID;

-- Boards --------------------------------------------------------------------------------------------------------------

CREATE TABLE board (
    port              TEXT    PRIMARY KEY,
    signing_public    BLOB    NOT NULL,
    noise_public      BLOB    NOT NULL,
    software          TEXT    NOT NULL,
    enrolled          INTEGER NOT NULL,               -- 1: the board says that it knows a collector
    up                INTEGER NOT NULL,
    changed_at        INTEGER NOT NULL,
    statistics        TEXT    NOT NULL,               -- JSON {name: number}
    trouble           TEXT    NOT NULL,               -- the last failure that it reported; empty: none since it started
    restart           INTEGER NOT NULL DEFAULT 0      -- 1: a person asks for a restart
) STRICT, WITHOUT ROWID;

-- The mailbox ---------------------------------------------------------------------------------------------------------

CREATE TABLE mailbox_inbox (
    id                INTEGER PRIMARY KEY,
    device            BLOB    NOT NULL UNIQUE,
    next_cursor       INTEGER NOT NULL,
    blobs             INTEGER NOT NULL,
    bytes             INTEGER NOT NULL
) STRICT;

CREATE TABLE mailbox_sender (
    id                INTEGER PRIMARY KEY,
    device            BLOB    NOT NULL UNIQUE,
    bytes             INTEGER NOT NULL                -- of its blobs in all inboxes
) STRICT;

CREATE TABLE mailbox_share (
    inbox             INTEGER NOT NULL,
    sender            INTEGER NOT NULL,
    blobs             INTEGER NOT NULL,
    bytes             INTEGER NOT NULL,
    PRIMARY KEY (inbox, sender)
) STRICT, WITHOUT ROWID;

-- A blob's key joins inbox and cursor, so that an inbox is one range of keys.
CREATE TABLE mailbox_blob (
    id                INTEGER PRIMARY KEY,            -- inbox << 40 | cursor
    blob_id           BLOB    NOT NULL,
    sender            INTEGER NOT NULL,
    expires           INTEGER NOT NULL,               -- at this age
    stored_at         INTEGER NOT NULL,
    size              INTEGER NOT NULL,
    payload           BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX mailbox_blob_id ON mailbox_blob (blob_id, sender, id >> 40);
CREATE INDEX mailbox_blob_expires ON mailbox_blob (expires);

CREATE TABLE mailbox_hook (
    device            BLOB    NOT NULL,
    kind              INTEGER NOT NULL,
    target            TEXT    NOT NULL,
    PRIMARY KEY (device, kind, target)
) STRICT, WITHOUT ROWID;

-- The mailboxes that this device uses: its read position, and the envelopes it has pushed per recipient.
CREATE TABLE mailbox_position (
    mailbox           BLOB    PRIMARY KEY,
    relay_id          TEXT    NOT NULL,
    cursor            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_pushed (
    recipient         BLOB    NOT NULL,
    mailbox           BLOB    NOT NULL,
    upto              INTEGER NOT NULL,               -- place in the recipient's queue
    pushed_at         INTEGER NOT NULL,
    PRIMARY KEY (recipient, mailbox)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_hand_over (
    recipient         BLOB    PRIMARY KEY,
    upto              INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
