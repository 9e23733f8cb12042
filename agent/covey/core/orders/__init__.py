"""Orders: what operators have devices set and do, and which orders count (docs/protocol/history.md, "Orders").

Every member stores every order in its history, so all hold the same. Each device judges by itself, from its owner's
pins, whether an order counts. No capability and no manifest makes a device an operator.

Read `selector.py` (the targets of an order), `nodes.py` (what is stored of orders), then `authority.py` (which orders
count). `sealing.py` hides parts of an order from all but some devices; `reports.py` decides who receives the results,
and when to send them again.
"""
