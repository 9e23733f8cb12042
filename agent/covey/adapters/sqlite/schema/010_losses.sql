-- The outbox by one number for each row: appended at a queue's end, freed at its beginning, whole pages at a time.
-- What is lost is told in few records, with the numbers of its telemetry.

ALTER TABLE device ADD COLUMN next_number INTEGER NOT NULL DEFAULT 1;   -- of this device's telemetry batches
ALTER TABLE device ADD COLUMN aged INTEGER NOT NULL DEFAULT 0;          -- how long agents have run on this state, in microseconds
ALTER TABLE peer ADD COLUMN told_place INTEGER NOT NULL DEFAULT 0;      -- of the last loss record: while it waits, no other is made

-- With a trigger, SQLite writes each page that it frees.
DROP TRIGGER outbox_grows;
DROP TRIGGER outbox_shrinks;
ALTER TABLE outbox RENAME TO outbox_by_peer;

CREATE TABLE outbox (
    id              INTEGER PRIMARY KEY,            -- peer << 40 | place in its queue
    peer            INTEGER NOT NULL GENERATED ALWAYS AS (id >> 40) VIRTUAL,
    link_seq        INTEGER NOT NULL GENERATED ALWAYS AS (id & 0xffffffffff) VIRTUAL,
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

INSERT INTO outbox (id, seq, class, size, queued_at, digest, message)
    SELECT peer << 40 | link_seq, seq, class, size, queued_at, digest, message FROM outbox_by_peer;

DROP TABLE outbox_by_peer;

-- Places of a queue that will never come, until a signed record of them is queued.
ALTER TABLE untold_loss RENAME TO untold_loss_by_number;

CREATE TABLE untold_loss (
    peer            INTEGER NOT NULL REFERENCES peer (id),
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    reason          INTEGER NOT NULL,
    number          INTEGER,                        -- of the first; the others' follow. Null: none, or nobody knows
    PRIMARY KEY (peer, first)
) STRICT, WITHOUT ROWID;

INSERT INTO untold_loss
    SELECT peer.id, told.first + earlier.base, told.last + earlier.base, 4, NULL
    FROM untold_loss_by_number AS told JOIN peer ON signing_public = recipient
        JOIN earlier ON earlier.peer = peer.id AND earlier.incarnation = told.incarnation;

DROP TABLE untold_loss_by_number;

-- The inbox knows each blob's place in its sender's order, before the body: so that reading it reads no bodies.
ALTER TABLE inbox RENAME TO inbox_without_places;

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

INSERT INTO sqlite_sequence (name, seq) SELECT 'inbox', seq FROM sqlite_sequence WHERE name = 'inbox_without_places';

INSERT INTO inbox (id, group_id, author, seq, sent_at, received_at, digest, body)
    SELECT id, group_id, author, seq, sent_at, received_at, digest, body FROM inbox_without_places;

DROP TABLE inbox_without_places;
