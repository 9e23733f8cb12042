-- Whether anything in a queue may be telemetry of this device, which another collector could get. 0: nothing is.
ALTER TABLE peer ADD COLUMN holds_batches INTEGER NOT NULL DEFAULT 1;
