"""A seeded world in virtual time around the production core, store, roles and runtime.

`python -m tests.sim SEED` replays one seed and tells what happened.
"""
