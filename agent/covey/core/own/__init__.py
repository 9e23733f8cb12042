"""A person's own devices: a private group of theirs, and the effects of its history.

Read `state.py` (the state that the history results in), then `own_devices.py` (what a device does about it).
"""
