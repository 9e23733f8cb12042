"""Batches of readings: packed tightly and numbered by devices, read by collectors.

Read `reading.py`, `batch.py` (writing), `decoding.py` (reading), `senml.py` (what programs hand in); then `doors.py`
(what is sent on to other systems).
"""
