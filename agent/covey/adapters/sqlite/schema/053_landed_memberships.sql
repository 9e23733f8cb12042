-- Which manifest (kind 0) and which profile (kind 1) of each group a collector has put into its landing last, by hash.
-- What is lost of this is landed again, and a reader knows it.
CREATE TABLE landed_memberships (
    group_id        BLOB    NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind IN (0, 1)),
    hash            BLOB    NOT NULL,
    PRIMARY KEY (group_id, kind)
) STRICT, WITHOUT ROWID;
