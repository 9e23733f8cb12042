-- Sealed files of groups: asked for, or here whole. The bytes lie beside the database (adapters/content_files.py).
CREATE TABLE content (
    hash            BLOB    PRIMARY KEY,
    index_hash      BLOB    NOT NULL,
    sealed_size     INTEGER NOT NULL,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,                       -- who offers it
    state           INTEGER NOT NULL,                       -- 0 asked for, 1 here, 2 given otherwise than offered
    pinned          INTEGER NOT NULL DEFAULT 0,             -- whether it stays when room is short
    used_at         INTEGER NOT NULL                        -- when it was asked for, or used last
) STRICT, WITHOUT ROWID;

-- Members that have said they hold a file that is here.
CREATE TABLE content_holder (
    hash            BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (hash, device)
) STRICT, WITHOUT ROWID;
