-- The keys that other devices write link envelopes for this one under.
CREATE TABLE link_key (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    tag             BLOB    NOT NULL UNIQUE,
    author          BLOB    NOT NULL,
    noise_public    BLOB    NOT NULL,               -- of ours, that it came sealed for
    sealed          BLOB    NOT NULL,               -- under that one
    taken_at        INTEGER NOT NULL
) STRICT;

CREATE INDEX link_key_of ON link_key (author, id);
