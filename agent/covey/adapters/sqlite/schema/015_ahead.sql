-- Messages of groups that rest on a manifest that has not come yet.

CREATE TABLE ahead (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    message         BLOB    NOT NULL
) STRICT;
