-- Groups that are being destroyed: noted before anybody is told.

CREATE TABLE revocation (
    group_id        BLOB    PRIMARY KEY,
    raw             BLOB    NOT NULL,
    noted_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
