"""Telemetry at rest: immutable sealed segments, one sealed manifest for each node.

Rules: a position in a vault is never reused; a reader verifies each segment by the manifest that lists it. Read
`documents.py`, `entries.py`, `keys.py`, `reading.py`, `merging.py`; then `landing.py` (a collector's plan),
`landed_records.py` (what it lands) and `erasing.py`.
"""
