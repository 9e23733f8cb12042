-- What groups say is of a class of its own, and found behind any number of other messages.

ALTER TABLE device ADD COLUMN history_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX outbox_history ON outbox (id) WHERE class = 3;
