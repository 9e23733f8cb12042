"""What a node does with envelopes that have come.

Read `receiver.py` first: it opens an envelope, judges who speaks, and hands each new message to the handler of its
kind. The handlers are in `group_messages.py`, `history_messages.py` and `landing.py`. They return a value of
`outcome.py`, which the receiver carries out. `acknowledgements.py` frees what recipients hold, and `export.py` lets
people carry envelopes by hand where no relay does.
"""
