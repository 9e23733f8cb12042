"""Files of any size for the members of a group, sealed once, past the queues (docs/protocol/content.md, "Content").

Read `progress.py` (what is here of a file, and how each part of it is verified), `fetch.py` (whom it is asked of),
`secrets.py` (what files open by from before this device came), `exchange.py` (asking for all that, and giving it),
`nearer.py` (places that are nearer than members at a relay, and when members are asked all the same).
"""
