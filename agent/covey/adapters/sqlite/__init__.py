"""One device's durable state in one SQLite file.

Rules: WAL with synchronous=FULL; rows that matter carry digests; `schema/` only goes forward (`migrations.py`).
Read `store.py` (opening, and one object for each family of tables), `database.py` (statements, transactions, errors),
`outbox.py` with `losses.py` and `incarnations.py`, then the other tables as needed. A damaged or restored file:
`state_file.py`, `inspection.py`, `salvage.py`, `salvage_source.py`, `salvage_queue.py`, `write_ahead_log.py`.
"""
