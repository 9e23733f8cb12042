"""Devices behind others: boards, and the gateways that carry for them.

Read `forwarding.py` (the numbered rules), then `routes.py` (where an envelope goes).
"""
