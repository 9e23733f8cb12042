-- Arguments of commands that only this device can read, as they are sealed; they go when the command is final, as open
-- arguments do. The column that was there before them said nothing.
CREATE TABLE command_now (
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
) STRICT;
INSERT INTO command_now
    SELECT place, operation, group_id, once, author, action, arguments, NULL, deadline, state, taken_at,
        synchronised, started_at, boot_id, tries, body, reported FROM command;
DROP TABLE command;
ALTER TABLE command_now RENAME TO command;
CREATE INDEX command_unreported ON command (state, place) WHERE NOT reported;
