"""Read vaults for the ingest: keys, manifests, offsets, next segments and retries.

Read `vaults.py` and `offsets.py` first. `planning.py` makes tasks of them for both engines.
"""
