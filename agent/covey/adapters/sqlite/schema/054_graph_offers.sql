-- Since when this device has been offered what remains of a group's history, and has been given no operations of it.
CREATE TABLE graph_offer (
    group_id        BLOB    NOT NULL PRIMARY KEY,
    since           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
