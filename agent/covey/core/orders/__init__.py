"""Orders: what operators have devices set and do, and whose word counts (docs/protocol/history.md, "Orders").

Rules: every member takes every order into its history, so that all hold the same; each device judges by itself, from
what its owner has pinned, whether one counts. No capability and no manifest makes anybody an operator.

Read `selector.py` (whom an order is for), `nodes.py` (what is kept of orders), then `authority.py` (whose word counts);
`sealing.py` is how a part of an order comes to be read by some only, and
`reports.py` decides to whom it is reported what became of them, and when again.
"""
