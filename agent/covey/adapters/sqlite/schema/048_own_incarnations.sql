-- An earlier Covey goes on with it.
-- In which incarnations an own device was heard: where another one begins, its state may have been lost.
CREATE TABLE own_device_incarnation (
    device          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    PRIMARY KEY (device, incarnation)
) STRICT, WITHOUT ROWID;

-- The own devices that are to be invited to a group once more, although it may list them.
CREATE TABLE own_group_owed (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;

-- The own devices that this one has invited to a group, each once for each operation that says that it is held.
CREATE TABLE own_group_asked (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;
