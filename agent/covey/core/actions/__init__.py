"""Actions: what a device's owner lets operators run on it, by names and checked arguments, never by a shell.

Read `definition.py` (what an action is, and how arguments become a command line), `given.py` and `execution.py` (the
numbered rules: which commands run, and how often), `secrets.py` (arguments that only some devices can read),
`results.py` and `reporting.py` (what is reported, and to whom), then `received.py`: reports of other devices.
Installation on trial: `installation.py` and `installing.py`.
"""
