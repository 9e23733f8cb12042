"""Groups as documents: pure functions, no records, no time but what a document says.

Read `manifest.py`, `policy.py` (who may change what), `trust.py` (the numbered rules of acceptance), `graph.py` (what
was accepted), `resolver.py` (rival versions), then `messages.py` and `revocation.py`.
"""
