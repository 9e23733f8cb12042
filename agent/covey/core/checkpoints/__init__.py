"""Checkpoints: the state of a group's history, signed by a majority of its admins.

Rules: a state is computed only from the operations that its checkpoint follows, so all devices with these operations
compute the same bytes. No device signs a state that it did not compute itself.

Read `state.py` (what a checkpoint contains), then `checkpoints.py` (which checkpoints count).
"""
