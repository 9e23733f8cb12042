"""A group's history: signed operations that follow one another, kept verbatim by every member.

Rules: an operation is judged by what it names, never by when it arrived, so devices with the same operations and
manifests reach the same result. A history is never loaded whole.

Read first what an operation is: `operation.py` (the document), `kinds.py` (the table of kinds), `body.py` (what every
kind provides), `bodies.py`, `orders.py`, `personal.py`, `files.py`, `releases.py` and `checkpoint.py` (the kinds).
Then which operations count: `acceptance.py` (the numbered rules), `shares.py` (how much one author can make others
keep), `standing.py` (operations of removed members) and `history.py` (write and accept operations). Last, how members
exchange them: `messages.py` and `exchange.py` (send, request, deliver), `asking.py` (whom to ask, and when),
`awaited.py` (logs fetched beyond their authors' shares) and `heads.py` (compare groups and histories).
"""
