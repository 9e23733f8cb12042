-- An earlier Covey goes on with it.
-- What operators have this device install on trial, while it is under way: it outlives the group of its command, for the
-- device has to fall back all the same. Times are of the monotonic clock of a boot.
CREATE TABLE installation (
    place           INTEGER PRIMARY KEY,
    operation       BLOB    NOT NULL UNIQUE,
    group_id        BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    action          TEXT    NOT NULL,
    file            TEXT    NOT NULL,
    phase           INTEGER NOT NULL,
    boot_id         BLOB    NOT NULL,
    since           INTEGER NOT NULL,
    tries           INTEGER NOT NULL,
    code            TEXT    NOT NULL,
    why             TEXT    NOT NULL,
    output          BLOB    NOT NULL,
    before          TEXT                            -- the version of before
) STRICT;
