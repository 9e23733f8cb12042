-- Control messages are found behind any number of others.

CREATE INDEX outbox_control ON outbox (id) WHERE class = 0;
