-- Ceremonies, and invitations to further groups.

ALTER TABLE invite ADD COLUMN bound_to BLOB;        -- the one device that may use it

-- A code that this device has given out. Its owner writes what is decided, the agent what happens.
CREATE TABLE pairing (
    secret_hash     BLOB    PRIMARY KEY,            -- of the invite that an accepted joiner gets
    number          INTEGER NOT NULL,               -- of the rendezvous
    code            TEXT,                           -- null: there are no words, the invite's URI alone
    secret          BLOB,                           -- the invite's, until the end
    expires_at      INTEGER NOT NULL,
    accepts         INTEGER,                        -- 0 or 1, once it is decided
    joiner          BLOB,                           -- who has proved to know the secret
    label           TEXT    NOT NULL DEFAULT '',
    verifier        TEXT    NOT NULL DEFAULT '[]',  -- JSON [place in the list of words, ...]
    lacks_account   INTEGER NOT NULL DEFAULT 0,     -- the joiner has none at the relay
    minted          INTEGER NOT NULL DEFAULT 0,     -- it was given one, and has not joined yet
    ended           TEXT                            -- how
) STRICT, WITHOUT ROWID;

-- What members of shared groups invite this device to, until a person answers.
CREATE TABLE group_request (
    group_id        BLOB    NOT NULL,
    inviter_signing BLOB    NOT NULL,
    inviter_noise   BLOB    NOT NULL,
    secret          BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;
