"""A group's history: signed operations that follow one another, kept verbatim by every member.

Rules: an operation is judged by what it names, never by when it arrived, so devices with the same operations and
manifests reach the same result. A history is never loaded whole.

Read `operation.py` (the document), `bodies.py` and `orders.py` (its content), `acceptance.py` (the numbered rules),
then `history.py` (how operations are written and accepted), `messages.py` and `exchange.py` (how they are sent,
requested and delivered), and `heads.py` (how groups and histories are compared with others').
"""
