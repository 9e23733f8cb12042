-- An earlier Covey goes on with it.
-- What a mailbox keeps for devices that sleep. An inbox's cursors are counted on for good; a blob's key joins inbox and
-- cursor in one number, so that an inbox is one range of keys.
CREATE TABLE mailbox_inbox (
    id          INTEGER PRIMARY KEY,
    device      BLOB    NOT NULL UNIQUE,
    next_cursor INTEGER NOT NULL,
    blobs       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL
) STRICT;
CREATE TABLE mailbox_sender (
    id          INTEGER PRIMARY KEY,
    device      BLOB    NOT NULL UNIQUE
) STRICT;
CREATE TABLE mailbox_share (
    inbox       INTEGER NOT NULL,
    sender      INTEGER NOT NULL,
    blobs       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,
    PRIMARY KEY (inbox, sender)
) STRICT, WITHOUT ROWID;
CREATE TABLE mailbox_blob (
    id          INTEGER PRIMARY KEY,                -- inbox << 40 | cursor
    blob_id     BLOB    NOT NULL,
    sender      INTEGER NOT NULL,
    expires     INTEGER NOT NULL,                   -- by the age of this state, in microseconds of running
    stored_at   INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    payload     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX mailbox_blob_id ON mailbox_blob (blob_id, sender, id >> 40);
CREATE INDEX mailbox_blob_expires ON mailbox_blob (expires);
CREATE TABLE mailbox_hook (
    device      BLOB    NOT NULL,
    kind        INTEGER NOT NULL,
    target      TEXT    NOT NULL,
    PRIMARY KEY (device, kind, target)
) STRICT, WITHOUT ROWID;
-- What a device knows of the mailboxes that it uses.
CREATE TABLE mailbox_position (
    mailbox     BLOB    PRIMARY KEY,
    relay_id    TEXT    NOT NULL,
    cursor      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE mailbox_pushed (
    recipient   BLOB    NOT NULL,
    mailbox     BLOB    NOT NULL,
    upto        INTEGER NOT NULL,                   -- a place of the recipient's queue
    pushed_at   INTEGER NOT NULL,
    PRIMARY KEY (recipient, mailbox)
) STRICT, WITHOUT ROWID;
CREATE TABLE mailbox_hand_over (
    recipient   BLOB    PRIMARY KEY,
    upto        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
