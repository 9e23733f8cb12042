-- Who carries for a device behind another one.
CREATE TABLE carrier (
    device          BLOB    PRIMARY KEY,
    carrier         BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- What the bridge knows of the boards on this machine's ports.
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
) STRICT, WITHOUT ROWID;
