"""Tables of group histories: operations, their index, remains of deleted ones, and downloads.

Read `operations.py` first.
"""
