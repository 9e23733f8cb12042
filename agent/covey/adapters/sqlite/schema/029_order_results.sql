-- What devices report of commands, the first of each; an output is a row of its own, which may go before the result.
CREATE TABLE order_result (
    id              INTEGER PRIMARY KEY,
    group_id        BLOB    NOT NULL,
    operation       BLOB    NOT NULL,
    device          BLOB    NOT NULL,
    received_at     INTEGER NOT NULL,
    judged          INTEGER NOT NULL,
    output_bytes    INTEGER NOT NULL,
    output_kept     INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    UNIQUE (group_id, operation, device)
) STRICT;

CREATE INDEX order_result_of_device ON order_result (group_id, device);

CREATE TABLE order_output (
    id              INTEGER PRIMARY KEY,
    output          BLOB    NOT NULL
) STRICT;
