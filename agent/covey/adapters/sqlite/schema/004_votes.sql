-- Votes of other admins, and of this device, that have not decided yet.

CREATE TABLE vote (
    group_id        BLOB    NOT NULL,
    raw             BLOB    NOT NULL,
    PRIMARY KEY (group_id, raw)
) STRICT, WITHOUT ROWID;
