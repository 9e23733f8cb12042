"""Settings that operators give devices through their groups' histories, and what devices report of them.

Rules: a device accepts a value only if its owner's configuration permits it; it reverts by itself a value with which it
cannot work; the result of every order is reported to those that gave it.

Read `states.py` (possible results and their report), then `obedience.py` (what a device does).
"""
