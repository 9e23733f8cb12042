-- What each device has last said of the groups that it shares with this one: a digest, and what it is made of where the
-- device has told that.

CREATE TABLE peer_heads (
    device          BLOB    PRIMARY KEY,
    said            BLOB    NOT NULL,
    report          BLOB,
    since           INTEGER NOT NULL,
    heard_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
