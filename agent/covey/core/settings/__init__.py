"""Settings that operators give devices by their groups' histories, and what devices report of them.

Rules: a device takes a value only where its owner's configuration lets it; what it cannot live with goes back by
itself; whatever becomes of an order is told to those who gave it.

Read `states.py` (what can become of one, and how that is reported), then `obedience.py` (what a device does).
"""
