-- Commands that operators gave this device, and what has become of each. `body` is the result once that is final; when it
-- is reported, its output goes. The arguments go when it is final. A row stays for good, so that nothing is done twice.
CREATE TABLE command (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    group_id        BLOB    NOT NULL,
    once            BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    action          TEXT    NOT NULL,
    arguments       TEXT,
    sealed          INTEGER NOT NULL,
    deadline        INTEGER,
    state           INTEGER NOT NULL,
    taken_at        INTEGER NOT NULL,
    synchronised    INTEGER NOT NULL,
    started_at      INTEGER,
    boot_id         BLOB,
    tries           INTEGER NOT NULL,
    body            BLOB,
    reported        INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX command_unreported ON command (state, place) WHERE NOT reported;

-- The once-ids of all commands that were ever taken: they outlive the group.
CREATE TABLE command_once (
    once            BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The operation by which this device began to obey in a group, with the records above.
CREATE TABLE obeyed_group (
    group_id        BLOB    PRIMARY KEY,
    operation       BLOB    NOT NULL,
    height          INTEGER NOT NULL,
    incarnation     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
