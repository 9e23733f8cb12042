-- Public groups are joined without an invite: several members are asked, and a visitor has an address for a while.

CREATE TABLE joining (
    group_id        BLOB    NOT NULL,
    inviter_signing BLOB    NOT NULL,
    inviter_noise   BLOB    NOT NULL,
    expires_at      INTEGER NOT NULL,
    label           TEXT,                           -- of who lets itself in; null: there is an invite
    PRIMARY KEY (group_id, inviter_signing)
) STRICT, WITHOUT ROWID;
INSERT INTO joining SELECT group_id, inviter_signing, inviter_noise, expires_at, NULL FROM pending_join;
DROP TABLE pending_join;
ALTER TABLE joining RENAME TO pending_join;

ALTER TABLE farewell ADD COLUMN until INTEGER;      -- when a visitor has none any more; null: a removed device
