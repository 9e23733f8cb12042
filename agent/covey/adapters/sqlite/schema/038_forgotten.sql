-- What is left of an operation that was forgotten: its id and its place in the graph (adapters/sqlite/forgotten.py).
-- `last`: the highest number of the log that was forgotten.
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

-- `length`: bytes that it had. `parents`: the ids of what it follows, one after the other. The rest is as in `operation`.
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
) STRICT;
CREATE INDEX forgotten_node ON forgotten_operation (height, hash) WHERE node;
CREATE INDEX forgotten_not_indexed ON forgotten_operation (arrival) WHERE frontier IS NULL;
