"""Orders: what operators have devices set and do, and which orders count (docs/protocol/history.md, "Orders").

Every member stores every order in its history, so all hold the same. Each device judges by itself, from its owner's
pins, whether an order counts. No capability and no manifest makes a device an operator.

Read `selector.py` (the targets of an order), `nodes.py` (what is stored of orders), then `authority.py` (which orders
count), `replaced.py` (settings replaced by their authors), `target.py` (orders whose body was deleted) and
`attempts.py` (orders without authority). `sealing.py` hides parts of an order from all but some devices. Releases:
`roll_out.py` (wave after wave), `release_standing.py` (pause, abort, resume), `plans.py` (one plan in several groups).
`reports.py` decides who receives the results, and when to send them again.
"""
