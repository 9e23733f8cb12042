"""Tables of group histories: operations, the index that orders them, what was forgotten, and what is caught up.

Read `operations.py` first.
"""
