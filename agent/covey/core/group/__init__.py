"""Group documents as pure functions, without storage, and without any time except what a document says.

Read `manifest.py`, `policy.py` (who may change what), `trust.py` (the numbered rules of acceptance), `graph.py` (the
accepted manifests), `resolver.py` (concurrent changes), then `messages.py` and `revocation.py`.
"""
