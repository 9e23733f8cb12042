-- Settings that operators gave this device, and what has become of each. `held`, `former`: JSON [value, author], or
-- null where the device's own value holds; `own`: JSON, what the program whose setting it is says.
CREATE TABLE ordered_setting (
    key             TEXT    PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    author          BLOB    NOT NULL,
    state           INTEGER NOT NULL,
    held            TEXT,
    former          TEXT,
    code            TEXT    NOT NULL,
    why             TEXT    NOT NULL,
    tries           INTEGER NOT NULL,
    own             TEXT,
    changed_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The report that each member was sent last: its digest, and its place in the member's queue.
CREATE TABLE setting_report_sent (
    group_id        BLOB    NOT NULL,
    member          BLOB    NOT NULL,
    digest          BLOB    NOT NULL,
    place           INTEGER NOT NULL,
    PRIMARY KEY (group_id, member)
) STRICT, WITHOUT ROWID;

-- What each device has last reported: the body as it came, and the message's place among its author's.
CREATE TABLE reported_setting (
    group_id        BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    incarnation     BLOB    NOT NULL,
    seq             INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    PRIMARY KEY (group_id, device)
) STRICT, WITHOUT ROWID;
