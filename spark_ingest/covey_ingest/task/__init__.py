"""What a task does, far from the committer: it opens segments, verifies and decodes them, and writes Parquet files.

In order: `tasks.py` (what engines call), `reading.py`, `rows.py`, `decode.py`, `exploding.py`, `writing.py`.
`columns.py` lists the columns of `readings`. Everything here is plain Arrow and knows no engine.
"""
