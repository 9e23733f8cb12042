"""What a group says: signed operations that follow one another, kept verbatim by every member.

Rules: an operation is judged by what it names, never by when it came, so that whoever holds the same operations and
manifests believes the same; nothing of it is held in memory as a whole.

Read `operation.py` (the document), `bodies.py` and `orders.py` (what it says), `acceptance.py` (the numbered
rules), then `history.py` (how operations are written and taken), `messages.py` and `exchange.py` (how they are sent,
asked for and given), and `heads.py` (how groups and histories are compared with others').
"""
