"""What goes over the wire, and nothing that decides: strict parsing, exact bytes.

Rules: signed bytes are kept as they came; what is not canonical is refused. Read `cbor.py`, `message.py`,
`envelope.py`; then `sequences.py` (sets of numbers), `topics.py`, `export.py` and `shapes.py`.
"""
