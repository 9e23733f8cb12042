-- Operators that an invite named. `operators` of a pairing: those that its joiner is shown, one signing key after the
-- other.
ALTER TABLE pairing ADD COLUMN operators BLOB NOT NULL DEFAULT x'';

-- Those that a person has accepted with a group's invite, and whose invite that was.
CREATE TABLE invited_operator (
    group_id        BLOB    NOT NULL,
    operator        BLOB    NOT NULL,
    inviter         BLOB    NOT NULL,
    pinned_at       INTEGER NOT NULL,
    PRIMARY KEY (group_id, operator)
) STRICT, WITHOUT ROWID;
