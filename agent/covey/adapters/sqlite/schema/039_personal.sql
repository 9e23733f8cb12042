-- The group of the person's own devices, as named on this device.
CREATE TABLE personal_group (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    group_id        BLOB    NOT NULL
) STRICT;

-- By which operation of its history a group was left or erased here last: each is obeyed once.
CREATE TABLE own_group_obeyed (
    group_id        BLOB    PRIMARY KEY,
    operation       BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- The own devices that this one has invited to a group, each once.
CREATE TABLE own_group_invited (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;
