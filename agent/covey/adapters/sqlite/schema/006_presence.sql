-- When a device was last heard, and how much of the outbox is of which class.

CREATE TABLE heard (
    device          BLOB    PRIMARY KEY,
    heard_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Kept by the database itself, in the row that every change of the outbox writes anyway.
ALTER TABLE device ADD COLUMN control_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN data_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN telemetry_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE device SET
    control_bytes = (SELECT coalesce(sum(size), 0) FROM outbox WHERE class = 0),
    data_bytes = (SELECT coalesce(sum(size), 0) FROM outbox WHERE class = 1),
    telemetry_bytes = (SELECT coalesce(sum(size), 0) FROM outbox WHERE class = 2);

CREATE TRIGGER outbox_grows AFTER INSERT ON outbox BEGIN
    UPDATE device SET
        control_bytes = control_bytes + iif(new.class = 0, new.size, 0),
        data_bytes = data_bytes + iif(new.class = 1, new.size, 0),
        telemetry_bytes = telemetry_bytes + iif(new.class = 2, new.size, 0);
END;

CREATE TRIGGER outbox_shrinks AFTER DELETE ON outbox BEGIN
    UPDATE device SET
        control_bytes = control_bytes - iif(old.class = 0, old.size, 0),
        data_bytes = data_bytes - iif(old.class = 1, old.size, 0),
        telemetry_bytes = telemetry_bytes - iif(old.class = 2, old.size, 0);
END;
