-- Manifests form a graph: each is found by its hash. This replaces a table of before the first release.

DROP TABLE group_manifest;

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

-- Removed devices that still have to be told.
CREATE TABLE farewell (
    signing_public  BLOB    PRIMARY KEY,
    noise_public    BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
