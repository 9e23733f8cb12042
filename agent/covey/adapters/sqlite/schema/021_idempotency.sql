-- What requests with a key of their own have queued, so that one that is tried again queues nothing more.

CREATE TABLE idempotency (
    id      INTEGER PRIMARY KEY,
    key     TEXT    NOT NULL UNIQUE,
    digest  BLOB    NOT NULL,
    result  INTEGER NOT NULL
) STRICT;
