"""A person's own devices: a private group of theirs, and what follows from its history.

Read `state.py` (what the history comes to), then `own_devices.py` (what a device does about it).
"""
