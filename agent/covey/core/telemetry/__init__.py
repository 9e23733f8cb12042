"""Batches of readings: devices pack and number them, collectors read them.

Read `reading.py`, `batch.py` (writing), `decoding.py` (reading), `senml.py` (input from programs); then `doors.py`
(output to other systems).
"""
