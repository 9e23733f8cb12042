"""The command line: parses arguments, calls `covey.app`, and prints.

Read `main.py` first, which lists every command, then `grammar.py`, which parses a command line, then the module of
one command in `commands/`. `output/` holds what several commands print. `completions.py` and `manual.py` draw
completion scripts and the manual page from the parsers.
"""
