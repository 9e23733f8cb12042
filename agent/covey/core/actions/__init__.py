"""Actions: what a device's owner lets operators have it do, by names and checked arguments, never by a shell.

Read `definition.py` (what one is, and how arguments become a command line), `given.py` and `execution.py` (the numbered
rules of what is done, and how often), `secrets.py` (arguments that only some can read), `results.py` and `reporting.py`
(what is reported of it, and to whom), then `received.py`: what others keep. What is installed on trial:
`installation.py` and `installing.py`.
"""
