"""What members say to those who are there now, and nobody keeps.

Read `messages.py` (the rules, and both sides of them) and `state.py` (what a message says, and what is remembered).
"""
