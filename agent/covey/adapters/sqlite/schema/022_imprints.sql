-- By which message each of the newest numbers of a link has come: blocks of 64, of 9 bytes each.
CREATE TABLE imprint (
    author          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    block           INTEGER NOT NULL,               -- of link sequences: the number / 64
    entries         BLOB    NOT NULL,               -- seq, 5 bytes, 0: none; imprint, 4 bytes
    PRIMARY KEY (author, incarnation, block)
) STRICT, WITHOUT ROWID;

-- Incarnations of this device that ended because another life of it has used their numbers.
CREATE TABLE rolled_back (
    incarnation     BLOB    PRIMARY KEY
) STRICT, WITHOUT ROWID;
