-- One device's durable state. Times are microseconds since the Unix epoch; keys and ids are raw bytes.

CREATE TABLE device (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation     BLOB    NOT NULL,               -- drawn when this file was new
    next_seq        INTEGER NOT NULL DEFAULT 1,
    queued_messages INTEGER NOT NULL DEFAULT 0,     -- totals of the outbox, so that nobody has to scan it
    queued_bytes    INTEGER NOT NULL DEFAULT 0,
    landing_bytes   INTEGER NOT NULL DEFAULT 0,
    manifest_floor  INTEGER NOT NULL DEFAULT 0,     -- highest vault manifest published
    inbox_bytes     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE peer (
    id              INTEGER PRIMARY KEY,
    signing_public  BLOB    NOT NULL UNIQUE,
    next_link_seq   INTEGER NOT NULL DEFAULT 1,
    queued_messages INTEGER NOT NULL DEFAULT 0,
    acknowledged    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Clustered by recipient and order: appended at each recipient's end, freed at its beginning.
CREATE TABLE outbox (
    peer            INTEGER NOT NULL REFERENCES peer (id),
    link_seq        INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    class           INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    queued_at       INTEGER NOT NULL,
    message         BLOB    NOT NULL,
    PRIMARY KEY (peer, link_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE received (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    upto            INTEGER NOT NULL,
    ranges          TEXT    NOT NULL,               -- JSON [[first, last], ...]
    PRIMARY KEY (author, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    seq             INTEGER NOT NULL,
    sent_at         INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    body            BLOB    NOT NULL
) STRICT;

-- A collector's messages on their way into the vault.
CREATE TABLE landing (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    link_seq        INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    message         BLOB    NOT NULL
) STRICT;

CREATE INDEX landing_by_link ON landing (author, incarnation, link_seq);

-- A segment that is being written: the same bytes again after a crash.
CREATE TABLE landing_plan (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    number          INTEGER NOT NULL,
    incarnation     BLOB    NOT NULL,
    last_id         INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    nonce           BLOB    NOT NULL
) STRICT;

CREATE TABLE group_manifest (
    group_id        BLOB    NOT NULL,
    version         INTEGER NOT NULL,
    held            INTEGER NOT NULL,               -- 1: came before the one it follows
    raw             BLOB    NOT NULL,
    stored_at       INTEGER NOT NULL,
    PRIMARY KEY (group_id, held, version, raw)
) STRICT, WITHOUT ROWID;

CREATE TABLE invite (
    secret_hash     BLOB    PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    capabilities    TEXT    NOT NULL,               -- JSON [name, ...]
    used_by         BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_join (
    group_id        BLOB    PRIMARY KEY,
    inviter_signing BLOB    NOT NULL,
    inviter_noise   BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    code            TEXT    NOT NULL,
    stored_at       INTEGER NOT NULL,
    message         BLOB    NOT NULL
) STRICT;

CREATE TABLE counter (
    name            TEXT    PRIMARY KEY,
    value           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What the running agent last knew of the world, for `covey status`.
CREATE TABLE condition (
    name            TEXT    PRIMARY KEY,
    value           TEXT    NOT NULL,
    changed_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
