"""Actions: what a device's owner lets operators have it do, by names and checked arguments, never by a shell.

Read `results.py`: what has become of a command, and how a device reports it; then `received.py`: what others keep.
"""
