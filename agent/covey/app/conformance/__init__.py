"""Test a foreign device against the protocol: `covey conformance` plays its relay and its peers.

Read `checks.py` first (what is checked, as data), then `session.py` (in which order), `observer.py` (what every message
must be) and `peers.py` (who the device talks to).
"""
