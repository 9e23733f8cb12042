-- From whom a history is being fetched: what it has brought since it began, and what of that waits for something else.
CREATE TABLE catching_up (
    group_id        BLOB    NOT NULL,
    member          BLOB    NOT NULL,
    taken           INTEGER NOT NULL,
    waiting         INTEGER NOT NULL,
    more            INTEGER NOT NULL,               -- whether the member has said that there is more
    heard_at        INTEGER NOT NULL,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;
