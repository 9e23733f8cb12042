"""SPIN models of custody, membership and links: exhaustive for three devices, each with mistakes that SPIN must find.

A model is a Promela file in this folder; a mistake is a name that is defined in it. `python -m docs.internals.models`
checks them and needs the Debian packages spin, gcc and libc6-dev.
"""
