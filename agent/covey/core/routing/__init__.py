"""Where envelopes go: to boards through the gateways that carry for them, and telemetry to collectors.

Read `forwarding.py` (the numbered rules), then `routes.py` (where an envelope goes) and `collectors.py`.
"""
