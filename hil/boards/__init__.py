"""Real and emulated boards, and what lies between one and its gateway: lines, networks, files.

Read `drivers.py` first: it says how to speak to each kind of board. `runtimes.py` installs the emulated ones.
"""
