-- What devices have last told of their own presence, and how far this device's own counter may have come.

CREATE TABLE attendance (
    device           BLOB    PRIMARY KEY,
    counter          INTEGER NOT NULL,
    state            INTEGER NOT NULL,              -- 0 here, 1 going, 2 gone
    interval_seconds INTEGER NOT NULL,
    connections      TEXT    NOT NULL,              -- those that were up: counters of their wills, spaces between
    since            INTEGER NOT NULL,
    heard_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE device ADD COLUMN presence_floor INTEGER NOT NULL DEFAULT 0;
