-- The tables of a new file. Not written by hand: python -m tests.newest_schema

CREATE TABLE device (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation     BLOB    NOT NULL,               -- drawn when this file was new
    next_seq        INTEGER NOT NULL DEFAULT 1,
    queued_messages INTEGER NOT NULL DEFAULT 0,     -- totals of the outbox, so that nobody has to scan it
    queued_bytes    INTEGER NOT NULL DEFAULT 0,
    landing_bytes   INTEGER NOT NULL DEFAULT 0,
    manifest_floor  INTEGER NOT NULL DEFAULT 0,     -- highest vault manifest published
    inbox_bytes     INTEGER NOT NULL DEFAULT 0
, control_bytes INTEGER NOT NULL DEFAULT 0, data_bytes INTEGER NOT NULL DEFAULT 0, telemetry_bytes INTEGER NOT NULL DEFAULT 0, mark BLOB, next_number INTEGER NOT NULL DEFAULT 1, aged INTEGER NOT NULL DEFAULT 0, presence_floor INTEGER NOT NULL DEFAULT 0, commits INTEGER NOT NULL DEFAULT 0, lineage BLOB, next_arrival INTEGER NOT NULL DEFAULT 1, history_bytes INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE peer (
    id              INTEGER PRIMARY KEY,
    signing_public  BLOB    NOT NULL UNIQUE,
    next_place   INTEGER NOT NULL DEFAULT 1,
    queued_messages INTEGER NOT NULL DEFAULT 0,
    acknowledged    INTEGER NOT NULL DEFAULT 0
, base INTEGER NOT NULL DEFAULT 0, anew INTEGER NOT NULL DEFAULT 0, doubted_at INTEGER NOT NULL DEFAULT 0, told_place INTEGER NOT NULL DEFAULT 0, holds_batches INTEGER NOT NULL DEFAULT 1) STRICT;

CREATE TABLE received (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    upto            INTEGER NOT NULL,
    ranges          TEXT    NOT NULL, digest BLOB,               -- JSON [[first, last], ...]
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE landing (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    link_seq        INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    message         BLOB    NOT NULL
, recipient BLOB, digest BLOB, place INTEGER) STRICT;

CREATE INDEX landing_by_link ON landing (author, incarnation, link_seq);

CREATE TABLE landing_plan (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    number          INTEGER NOT NULL,
    incarnation     BLOB    NOT NULL,
    last_id         INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    nonce           BLOB    NOT NULL
) STRICT;

CREATE TABLE invite (
    secret_hash     BLOB    PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    capabilities    TEXT    NOT NULL,               -- JSON [name, ...]
    used_by         BLOB
, bound_to BLOB, prepared_for TEXT, request BLOB) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    code            TEXT    NOT NULL,
    stored_at       INTEGER NOT NULL,
    message         BLOB    NOT NULL
, recipient BLOB) STRICT;

CREATE TABLE counter (
    name            TEXT    PRIMARY KEY,
    value           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE condition (
    name            TEXT    PRIMARY KEY,
    value           TEXT    NOT NULL,
    changed_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE group_manifest (
    group_id        BLOB    NOT NULL,
    version         INTEGER NOT NULL,
    hash            BLOB    NOT NULL,
    state           INTEGER NOT NULL,               -- 0: open, 1: follows something unknown, 2: settled
    raw             BLOB    NOT NULL,
    stored_at       INTEGER NOT NULL,
    PRIMARY KEY (group_id, version, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE epoch_secret (
    group_id        BLOB    NOT NULL,
    epoch_id        BLOB    NOT NULL,
    secret          BLOB    NOT NULL,
    stored_at       INTEGER NOT NULL,
    PRIMARY KEY (group_id, epoch_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE farewell (
    signing_public  BLOB    PRIMARY KEY,
    noise_public    BLOB    NOT NULL
, until INTEGER, aged INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE TABLE revocation (
    group_id        BLOB    PRIMARY KEY,
    raw             BLOB    NOT NULL,
    aged        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE vote (
    group_id        BLOB    NOT NULL,
    raw             BLOB    NOT NULL,
    PRIMARY KEY (group_id, raw)
) STRICT, WITHOUT ROWID;

CREATE TABLE carrier (
    device          BLOB    PRIMARY KEY,
    carrier         BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE board (
    port            TEXT    PRIMARY KEY,
    signing_public  BLOB    NOT NULL,
    noise_public    BLOB    NOT NULL,
    software        TEXT    NOT NULL,
    enrolled        INTEGER NOT NULL,               -- 1: the board says that it has been told a collector
    up              INTEGER NOT NULL,
    changed_at      INTEGER NOT NULL,
    statistics      TEXT    NOT NULL,               -- JSON {name: number}
    restart         INTEGER NOT NULL DEFAULT 0      -- 1: a person asks for a restart
, trouble TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;

CREATE TABLE heard (
    device          BLOB    PRIMARY KEY,
    heard_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE earlier (
    peer            INTEGER NOT NULL REFERENCES peer (id),
    incarnation     BLOB    NOT NULL,
    base            INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    anew            INTEGER NOT NULL,
    PRIMARY KEY (peer, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE salvage (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    salvaged_at     INTEGER NOT NULL,
    report          TEXT    NOT NULL                -- JSON
) STRICT;

CREATE TABLE pairing (
    secret_hash     BLOB    PRIMARY KEY,            -- of the invite that an accepted joiner gets
    number          INTEGER NOT NULL,               -- of the rendezvous
    code            TEXT,                           -- null: there are no words, the invite's URI alone
    secret          BLOB,                           -- the invite's, until the end
    expires_at      INTEGER NOT NULL,
    accepts         INTEGER,                        -- 0 or 1, once it is decided
    joiner          BLOB,                           -- who has proved to know the secret
    label           TEXT    NOT NULL DEFAULT '',
    verifier        TEXT    NOT NULL DEFAULT '[]',  -- JSON [place in the list of words, ...]
    lacks_account   INTEGER NOT NULL DEFAULT 0,     -- the joiner has none at the relay
    minted          INTEGER NOT NULL DEFAULT 0,     -- it was given one, and has not joined yet
    ended           TEXT                            -- how
, operators BLOB NOT NULL DEFAULT x'', prepared INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE TABLE group_request (
    group_id        BLOB    NOT NULL,
    inviter_signing BLOB    NOT NULL,
    inviter_noise   BLOB    NOT NULL,
    secret          BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    received_at     INTEGER NOT NULL, preview BLOB,
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;

CREATE TABLE link_key (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tag             BLOB    NOT NULL UNIQUE,
    author          BLOB    NOT NULL,
    noise_public    BLOB    NOT NULL,               -- of ours, that it came sealed for
    sealed          BLOB    NOT NULL,               -- under that one
    taken_at        INTEGER NOT NULL
) STRICT;

CREATE INDEX link_key_of ON link_key (author, id);

CREATE TABLE outbox (
    id              INTEGER PRIMARY KEY,            -- peer << 40 | place in its queue
    peer            INTEGER NOT NULL GENERATED ALWAYS AS (id >> 40) VIRTUAL,
    place        INTEGER NOT NULL GENERATED ALWAYS AS (id & 0xffffffffff) VIRTUAL,
    seq             INTEGER NOT NULL,
    class           INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    queued_at       INTEGER NOT NULL,
    number          INTEGER,                        -- of a telemetry batch
    expires         INTEGER,                        -- at this age of the state
    digest          BLOB,
    message         BLOB    NOT NULL
) STRICT;

CREATE INDEX outbox_by_expiry ON outbox (expires) WHERE expires IS NOT NULL;

CREATE TABLE untold_loss (
    peer            INTEGER NOT NULL REFERENCES peer (id),
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    reason          INTEGER NOT NULL,
    number          INTEGER,                        -- of the first; the others' follow. Null: none, or nobody knows
    PRIMARY KEY (peer, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    incarnation     BLOB,
    link_seq        INTEGER,
    seq             INTEGER NOT NULL,
    sent_at         INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    digest          BLOB,
    body            BLOB    NOT NULL
) STRICT;

CREATE TABLE attendance (
    device           BLOB    PRIMARY KEY,
    counter          INTEGER NOT NULL,
    state            INTEGER NOT NULL,              -- 0 here, 1 going, 2 gone
    interval_seconds INTEGER NOT NULL,
    connections      TEXT    NOT NULL,              -- those that were up: counters of their wills, spaces between
    since            INTEGER NOT NULL,
    heard_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE silent_collector (
    device          BLOB    PRIMARY KEY,
    since           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE ahead (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    message         BLOB    NOT NULL
) STRICT;

CREATE TABLE declined_group (
    group_id        BLOB    PRIMARY KEY,
    declined_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operation (
    arrival          INTEGER PRIMARY KEY,
    group_id         BLOB    NOT NULL,
    hash             BLOB    NOT NULL,
    height           INTEGER NOT NULL,
    author           BLOB    NOT NULL,
    incarnation      BLOB    NOT NULL,
    number           INTEGER NOT NULL,
    manifest_version INTEGER NOT NULL,
    kind             INTEGER NOT NULL,
    stored_at        INTEGER NOT NULL,
    raw              BLOB    NOT NULL
, late INTEGER NOT NULL DEFAULT 0, frontier INTEGER, node INTEGER NOT NULL DEFAULT 0, subject BLOB) STRICT;

CREATE UNIQUE INDEX operation_by_hash ON operation (hash, group_id);

CREATE INDEX operation_by_height ON operation (group_id, height, hash);

CREATE INDEX operation_by_log ON operation (group_id, author, incarnation, number);

CREATE INDEX operation_by_kind ON operation (group_id, kind, height, hash);

CREATE TABLE operation_log (
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    last            INTEGER NOT NULL,
    length          INTEGER NOT NULL,
    PRIMARY KEY (group_id, author, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE operation_head (
    group_id        BLOB    NOT NULL,
    hash            BLOB    NOT NULL,
    PRIMARY KEY (group_id, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE announcement (
    group_id        BLOB    NOT NULL,
    member          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    number          INTEGER NOT NULL,
    place           INTEGER NOT NULL,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;

CREATE TABLE "pending_join" (
    group_id        BLOB    NOT NULL,
    inviter_signing BLOB    NOT NULL,
    inviter_noise   BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    label           TEXT,                           -- of who lets itself in; null: there is an invite
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_control ON outbox (id) WHERE class = 0;

CREATE TABLE peer_heads (
    device          BLOB    PRIMARY KEY,
    said            BLOB    NOT NULL,
    report          BLOB,
    since           INTEGER NOT NULL,
    heard_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
    id      INTEGER PRIMARY KEY,
    key     TEXT    NOT NULL UNIQUE,
    digest  BLOB    NOT NULL,
    result  INTEGER NOT NULL
) STRICT;

CREATE TABLE imprint (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    block           INTEGER NOT NULL,               -- of link sequences: the number / 64
    entries         BLOB    NOT NULL,               -- seq, 5 bytes, 0: none; imprint, 4 bytes
    PRIMARY KEY (author, incarnation, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE rolled_back (
    incarnation     BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE resumed (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    ranges          TEXT    NOT NULL,               -- JSON: [[first, last], ...], ascending
    digest          BLOB    NOT NULL,
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE ordered_setting (
    key             TEXT    PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    state           INTEGER NOT NULL,
    held            TEXT,
    former          TEXT,
    code            TEXT    NOT NULL,
    why             TEXT    NOT NULL,
    tries           INTEGER NOT NULL,
    own             TEXT,
    changed_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE reported_setting (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    seq             INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

CREATE INDEX operation_late ON operation (group_id, hash) WHERE late;

CREATE INDEX group_manifest_hash ON group_manifest (group_id, hash);

CREATE INDEX group_manifest_state ON group_manifest (group_id, state);

CREATE TABLE order_result (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    received_at     INTEGER NOT NULL,
    judged          INTEGER NOT NULL,
    output_bytes    INTEGER NOT NULL,
    output_kept     INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    UNIQUE (group_id, operation, device)
) STRICT;

CREATE INDEX order_result_of_device ON order_result (group_id, device);

CREATE TABLE order_output (
    id              INTEGER PRIMARY KEY,
    output          BLOB    NOT NULL
) STRICT;

CREATE INDEX operation_not_indexed ON operation (arrival) WHERE frontier IS NULL;

CREATE INDEX operation_node ON operation (group_id, height, hash) WHERE node;

CREATE TABLE order_frontier (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    nodes           BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX order_frontier_by_nodes ON order_frontier (group_id, nodes);

CREATE TABLE event (
    arrival         INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL,
    group_id        BLOB    NOT NULL,               -- empty where it is of no group
    at              INTEGER NOT NULL,
    about           TEXT    NOT NULL                -- JSON
) STRICT;

CREATE TABLE command_once (
    once            BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE obeyed_group (
    group_id        BLOB    PRIMARY KEY,
    operation       BLOB    NOT NULL,
    height          INTEGER NOT NULL,
    incarnation     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_history ON outbox (id) WHERE class = 3;

CREATE TABLE landed_orders (
    group_id        BLOB    PRIMARY KEY,
    arrival         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE invited_operator (
    group_id        BLOB    NOT NULL,
    operator        BLOB    NOT NULL,
    inviter         BLOB    NOT NULL,
    pinned_at       INTEGER NOT NULL,
    PRIMARY KEY (group_id, operator)
) STRICT, WITHOUT ROWID;

CREATE TABLE catching_up (
    group_id        BLOB    NOT NULL,
    member          BLOB    NOT NULL,
    taken           INTEGER NOT NULL,
    waiting         INTEGER NOT NULL,
    more            INTEGER NOT NULL,               -- whether the member has said that there is more
    heard_at        INTEGER NOT NULL, held INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;

CREATE TABLE forgotten_log (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    last            INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX forgotten_log_by_author ON forgotten_log (group_id, author, incarnation);

CREATE TABLE forgotten_manifest (
    id              INTEGER PRIMARY KEY,
    hash            BLOB    NOT NULL UNIQUE
) STRICT;

CREATE TABLE forgotten_operation (
    arrival          INTEGER PRIMARY KEY,
    hash             BLOB    NOT NULL UNIQUE,
    log              INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    height           INTEGER NOT NULL,
    manifest         INTEGER NOT NULL,
    manifest_version INTEGER NOT NULL,
    kind             INTEGER NOT NULL,
    late             INTEGER NOT NULL,
    length           INTEGER NOT NULL,
    frontier         INTEGER,
    node             INTEGER NOT NULL,
    parents          BLOB    NOT NULL
, target BLOB NOT NULL DEFAULT x'') STRICT;

CREATE INDEX forgotten_node ON forgotten_operation (height, hash) WHERE node;

CREATE INDEX forgotten_not_indexed ON forgotten_operation (arrival) WHERE frontier IS NULL;

CREATE TABLE personal_group (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    group_id        BLOB    NOT NULL
) STRICT;

CREATE TABLE own_group_obeyed (
    group_id        BLOB    PRIMARY KEY,
    operation       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE own_group_invited (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE sent_report (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    recipient       BLOB    NOT NULL,
    subject         BLOB    NOT NULL,
    digest          BLOB    NOT NULL,
    place           INTEGER NOT NULL,
    UNIQUE (recipient, group_id, subject)
) STRICT;

CREATE INDEX sent_report_place ON sent_report (recipient, place);

CREATE TABLE content (
    hash            BLOB    PRIMARY KEY,
    index_hash      BLOB    NOT NULL,
    sealed_size     INTEGER NOT NULL,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,                       -- who offers it
    state           INTEGER NOT NULL,                       -- 0 asked for, 1 here, 2 given otherwise than offered
    pinned          INTEGER NOT NULL DEFAULT 0,             -- whether it stays when room is short
    used_at         INTEGER NOT NULL                        -- when it was asked for, or used last
, lacks BLOB) STRICT, WITHOUT ROWID;

CREATE TABLE content_holder (
    hash            BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (hash, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE "command" (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    group_id        BLOB    NOT NULL,
    once            BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    action          TEXT    NOT NULL,
    arguments       TEXT,
    secrets         BLOB,                           -- [sealed, what they are bound to]
    deadline        INTEGER,
    state           INTEGER NOT NULL,
    taken_at        INTEGER NOT NULL,
    synchronised    INTEGER NOT NULL,
    started_at      INTEGER,
    boot_id         BLOB,
    tries           INTEGER NOT NULL,
    body            BLOB,
    reported        INTEGER NOT NULL DEFAULT 0
, in_waves INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE INDEX command_unreported ON command (state, place) WHERE NOT reported;

CREATE TABLE installation (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    action          TEXT    NOT NULL,
    file            TEXT    NOT NULL,
    phase           INTEGER NOT NULL,
    boot_id         BLOB    NOT NULL,
    since           INTEGER NOT NULL,
    tries           INTEGER NOT NULL,
    code            TEXT    NOT NULL,
    why             TEXT    NOT NULL,
    output          BLOB    NOT NULL,
    before          TEXT                            -- the version of before
) STRICT;

CREATE TABLE own_device_incarnation (
    device          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    PRIMARY KEY (device, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE own_group_owed (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE own_group_asked (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_inbox (
    id          INTEGER PRIMARY KEY,
    device      BLOB    NOT NULL UNIQUE,
    next_cursor INTEGER NOT NULL,
    blobs       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL
) STRICT;

CREATE TABLE mailbox_sender (
    id          INTEGER PRIMARY KEY,
    device      BLOB    NOT NULL UNIQUE
) STRICT;

CREATE TABLE mailbox_share (
    inbox       INTEGER NOT NULL,
    sender      INTEGER NOT NULL,
    blobs       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    PRIMARY KEY (inbox, sender)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_blob (
    id          INTEGER PRIMARY KEY,                -- inbox << 40 | cursor
    blob_id     BLOB    NOT NULL,
    sender      INTEGER NOT NULL,
    expires     INTEGER NOT NULL,                   -- by the age of this state, in microseconds of running
    stored_at   INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    payload     BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX mailbox_blob_id ON mailbox_blob (blob_id, sender, id >> 40);

CREATE INDEX mailbox_blob_expires ON mailbox_blob (expires);

CREATE TABLE mailbox_hook (
    device      BLOB    NOT NULL,
    kind        INTEGER NOT NULL,
    target      TEXT    NOT NULL,
    PRIMARY KEY (device, kind, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_position (
    mailbox     BLOB    PRIMARY KEY,
    relay_id    TEXT    NOT NULL,
    cursor      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_pushed (
    recipient   BLOB    NOT NULL,
    mailbox     BLOB    NOT NULL,
    upto        INTEGER NOT NULL,                   -- a place of the recipient's queue
    pushed_at   INTEGER NOT NULL,
    PRIMARY KEY (recipient, mailbox)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_hand_over (
    recipient   BLOB    PRIMARY KEY,
    upto        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sensor_position (
    name     TEXT PRIMARY KEY,
    position BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE landed_memberships (
    group_id        BLOB    NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind IN (0, 1)),
    hash            BLOB    NOT NULL,
    PRIMARY KEY (group_id, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE graph_offer (
    group_id        BLOB    NOT NULL PRIMARY KEY,
    since_given     INTEGER,                        -- since it was given operations last, in microseconds of running;
                                                    -- null: it was given some since the last offer
    whole           INTEGER NOT NULL                -- in all
) STRICT, WITHOUT ROWID;

CREATE TABLE setting_gone_back (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    code            TEXT    NOT NULL
) STRICT;
