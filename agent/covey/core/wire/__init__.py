"""The wire formats, without any decisions: strict parsing, exact bytes.

Rules: signed bytes are kept as received; non-canonical bytes are refused. Read `cbor.py`, `message.py`, `envelope.py`;
then `sequences.py` (sets of numbers), `topics.py`, `export.py` and `shapes.py`.
"""
