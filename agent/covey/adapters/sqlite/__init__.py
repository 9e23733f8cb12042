"""One device's durable state in one SQLite file.

Rules: WAL with synchronous=FULL; rows that matter carry digests; `schema/` only goes forward (`migrations.py`).
Read `store.py` (opening, and one object for each family of tables) and `database.py` (statements, transactions,
errors), then the tables by subject: `link/`, `membership/`, `history/`, `orders/`, and `content.py`, `mailbox.py`,
`boards.py` here. `file/` looks after the file as a whole, also when it is damaged. `door_file.py` and `fleet_table.py`
are databases of their own.
"""
