"""Operators' orders and their results, as sections of the report: in SQL, over the tables of `orders`.

1. An order is shown if it, or a report of it, arrived in the window. The newest come first, 20 of each section: members
   can report on anything, as often as they like.
2. Of a setting a device's newest report counts: `heard` is when it reported first, `done` when it did last.
3. A row in `orders` means that its author signed it, not that it counts for any device.
4. For reports without their order only the order's id is known.
"""

from __future__ import annotations

COLUMNS = {
    "orders": "author VARCHAR, operation VARCHAR, kind VARCHAR, subject VARCHAR, value VARCHAR, secret BOOLEAN, "
    "selector VARCHAR, ordered_at TIMESTAMPTZ, received_at TIMESTAMPTZ",
    "commands": "author VARCHAR, operation VARCHAR, state VARCHAR, exit INTEGER, code VARCHAR, why VARCHAR, "
    "taken_at TIMESTAMPTZ, ended_at TIMESTAMPTZ, received_at TIMESTAMPTZ",
    "settings": "author VARCHAR, operation VARCHAR, key VARCHAR, state VARCHAR, code VARCHAR, why VARCHAR, "
    "reported_at TIMESTAMPTZ, received_at TIMESTAMPTZ",
}
"""What is read of each table."""

VIEWS = (
    """CREATE VIEW ordered AS
       SELECT author, operation, kind, left(selector, 520) AS selector, ordered_at, received_at,
              concat_ws(' ', subject, CASE WHEN secret THEN '(secret)' ELSE left(nullif(value, '{}'), 80) END) AS what
       FROM orders""",
    """CREATE VIEW told AS
       SELECT operation, author, CASE WHEN state = 'done' AND exit <> 0 THEN 'failed' ELSE state END AS state,
              CASE WHEN code = '' AND exit <> 0 THEN 'exit ' || exit ELSE code END AS code, why,
              taken_at AS heard, ended_at AS done, received_at
       FROM commands
       UNION ALL
       SELECT operation, author, arg_max(state, reported_at), arg_max(code, reported_at), arg_max(why, reported_at),
              min(reported_at), max(reported_at), max(received_at)
       FROM settings GROUP BY operation, author, key""",
)
"""What the sections read: orders in words, and the last that each device said of each."""

SECTIONS = {
    "orders": """
        WITH states AS (
            SELECT operation, state, count(DISTINCT author) AS devices, min(heard) AS heard, max(done) AS done,
                   max(received_at) AS received_at
            FROM told GROUP BY operation, state),
        results AS (
            SELECT operation, string_agg(devices || ' ' || state, ', ' ORDER BY devices DESC, state) AS result,
                   min(heard) AS heard, max(done) AS done, max(received_at) AS received_at
            FROM states GROUP BY operation)
        SELECT author, coalesce(kind, 'not here yet') AS kind, coalesce(what, left(operation, 8)) AS what, selector,
               epoch_us(ordered_at) AS ordered_us, epoch_us(heard) AS reported_us, epoch_us(done) AS done_us, result
        FROM ordered FULL JOIN results USING (operation)
        WHERE epoch_us(greatest(ordered.received_at, results.received_at)) >= $since
              AND (starts_with(author, $author) OR result IS NOT NULL)
        ORDER BY greatest(ordered.received_at, results.received_at) DESC, operation LIMIT 20""",
    "undone_orders": """
        SELECT told.author, coalesce(what, left(operation, 8)) AS what, state, code, left(why, 80) AS why,
               epoch_us(heard) AS reported_us, epoch_us(done) AS done_us
        FROM told LEFT JOIN ordered USING (operation)
        WHERE state NOT IN ('done', 'applied') AND epoch_us(told.received_at) >= $since
        ORDER BY told.received_at DESC, told.author LIMIT 20""",
}
"""Each order with how far it is; and where it was not, or not well, done."""
