-- Orders of settings that have gone back by themselves here, and what stood against each: none is tried once more.
CREATE TABLE setting_gone_back (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    code            TEXT    NOT NULL
) STRICT;
INSERT INTO setting_gone_back (operation, code) SELECT operation, code FROM ordered_setting WHERE state = 5;
