"""Checkpoints: the state of a group's history, signed by a majority of its admins.

Rules: a state is made of the operations that a checkpoint follows and of nothing else, so that everybody who holds
these makes the same bytes; nobody signs a state that it has not made itself.

Read `state.py` (what a checkpoint says), then `checkpoints.py` (whose word makes one count).
"""
