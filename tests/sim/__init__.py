"""A seeded world in virtual time around the production core, store, roles and runtime.

`./dev sim SEED` replays one seed and tells what happened.
"""
