"""What the ingest reads of vaults: keys and manifests, offsets, which segments come next, and which are tried again.

Read `vaults.py` and `offsets.py` first. `planning.py` makes tasks of them for both engines.
"""
