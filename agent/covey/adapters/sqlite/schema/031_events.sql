-- What happens here is numbered in the order in which it is committed: operations as they arrive, by their own rows, and
-- the rest here, bounded. No number is ever given twice.
ALTER TABLE device ADD COLUMN next_arrival INTEGER NOT NULL DEFAULT 1;
UPDATE device SET next_arrival = 1 + (SELECT coalesce(max(arrival), 0) FROM operation);

CREATE TABLE event (
    arrival         INTEGER PRIMARY KEY,
    kind            TEXT    NOT NULL,
    group_id        BLOB    NOT NULL,               -- empty where it is of no group
    at              INTEGER NOT NULL,
    about           TEXT    NOT NULL                -- JSON
) STRICT;
