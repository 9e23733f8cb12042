-- Groups that a person has declined: invitations to them are kept out of sight.

CREATE TABLE declined_group (
    group_id        BLOB    PRIMARY KEY,
    declined_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
