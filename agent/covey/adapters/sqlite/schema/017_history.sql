-- What groups say: operations, how far each author's log has come, which operations none follows, and how much of this
-- device's own log each member has been sent.

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
) STRICT;
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
