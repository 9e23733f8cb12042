"""Files of any size for the members of a group, sealed once, past the queues (docs/protocol.md, "Content").

Read `reference.py` (what members are told of a file), `chunks.py` (how each part of it is verified), `exchange.py`
(asking for files, and giving them).
"""
