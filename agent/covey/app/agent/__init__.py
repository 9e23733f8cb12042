"""The daemon: `daemon.py` runs the agent until a signal ends it, `roles.py` chooses its roles from the configuration.

`machine_service.py` acts for root on the machine's own state, `completion_words.py` completes words in a shell.
"""
