"""Messages to members that are online; no device stores them.

Read `messages.py` (the rules, and both sides of them) and `state.py` (what a message says, and what is remembered).
"""
