"""What a node does with envelopes that arrive.

Read `receiver.py` first: it opens an envelope, checks that its author may speak, and hands each new message to the
handler of its type. The handlers are in `handlers.py`, a class for each subject, and in `landing.py`. They return
a value of `outcome.py`, which the receiver applies. `acknowledgements.py` frees messages that recipients hold;
`export.py` lets people carry envelopes by hand where no relay does.
"""
