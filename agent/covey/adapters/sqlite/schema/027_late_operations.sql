-- Operations that came when this device already knew that their author is no member any more.
ALTER TABLE operation ADD COLUMN late INTEGER NOT NULL DEFAULT 0;
CREATE INDEX operation_late ON operation (group_id, hash) WHERE late;
