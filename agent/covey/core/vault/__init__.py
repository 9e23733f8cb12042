"""Telemetry at rest: immutable sealed segments, one sealed manifest for each node.

Rules: a position in a vault is never given twice; a reader proves each segment by the manifest that lists it. Read
`documents.py`, `entries.py`, `keys.py`, `reading.py`, `merging.py`; `landing.py` is what a collector has decided,
`landed_records.py` what it lands, `erasing.py` what goes again.
"""
