"""Files of any size for the members of a group, sealed once, outside the queues (docs/protocol/content.md, "Content").

Read `progress.py` (what is here of a file, and how each part is verified), `fetch.py` (which members are asked),
`secrets.py` (secrets for files from before this device joined), `exchange.py` (requesting and giving), `nearer.py`
(sources nearer than members at a relay, and when members are asked in spite of them).
"""
