-- Queues outlive incarnations, and what a disk has changed is noticed.
-- A queue counts its messages on through all incarnations of the device: `outbox.link_seq` and `peer.next_link_seq` are
-- places in the queue. On the wire an incarnation begins at 1 again: its `base` is the place before its first.

ALTER TABLE peer ADD COLUMN base INTEGER NOT NULL DEFAULT 0;        -- of the present incarnation
ALTER TABLE peer ADD COLUMN anew INTEGER NOT NULL DEFAULT 0;        -- places up to it are signed anew when they are sent
ALTER TABLE peer ADD COLUMN doubted_at INTEGER NOT NULL DEFAULT 0;  -- when it last showed that this state is a copy


CREATE TABLE earlier (
    peer            INTEGER NOT NULL REFERENCES peer (id),
    incarnation     BLOB    NOT NULL,
    base            INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    anew            INTEGER NOT NULL,
    PRIMARY KEY (peer, incarnation)
) STRICT, WITHOUT ROWID;

-- What a damaged disk lost, until a signed record of it is queued.
CREATE TABLE untold_loss (
    recipient       BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    first           INTEGER NOT NULL,
    last            INTEGER NOT NULL,
    PRIMARY KEY (recipient, incarnation, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE salvage (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    salvaged_at     INTEGER NOT NULL,
    report          TEXT    NOT NULL                -- JSON
) STRICT;

ALTER TABLE outbox ADD COLUMN digest BLOB;
ALTER TABLE inbox ADD COLUMN digest BLOB;
ALTER TABLE received ADD COLUMN digest BLOB;
ALTER TABLE quarantine ADD COLUMN recipient BLOB;                   -- of a message of our own that was set aside
ALTER TABLE device ADD COLUMN mark BLOB;                            -- the same as beside the file, unless one was restored
