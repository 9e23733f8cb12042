-- Collectors that acknowledge nothing: new telemetry goes to the next one.

CREATE TABLE silent_collector (
    device          BLOB    PRIMARY KEY,
    since           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What this device lands of its own, out of its queue for somebody: then link_seq is the place there.
ALTER TABLE landing ADD COLUMN recipient BLOB;

-- A redirected message is not the one that the row's link brought; so the row says itself whether it is whole.
ALTER TABLE landing ADD COLUMN digest BLOB;
