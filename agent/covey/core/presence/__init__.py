"""Who is there: beats and wills, which only rise in their counters.

Read `status.py` (what a peer has reported, and what that means) and `heartbeat.py` (this device's own, and others').
"""
