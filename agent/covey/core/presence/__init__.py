"""Which devices are online: beats and wills, whose counters only rise.

Read `status.py` (what a peer has reported, and its meaning) and `heartbeat.py` (this device's own beats, and others').
"""
