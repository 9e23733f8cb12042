"""What board and gateway have in common, in MicroPython's dialect: no annotations, no dataclasses, few objects.

This file itself stays on the host: boards get a flat folder of modules, which is why each import is tried both ways.

1. Nothing here reads a clock, a port or a random source, except `tweetnacl.randombytes`.
2. Parsing raises only `WireError`, and everything has a bound.
3. Heap counts: constants that begin with `_` and are made by `const` cost none, and a table is one `bytes`.

Read `framing.py` (frames on a line that damages bytes), `link_machine.py` (the link, with its transition table),
`cbor.py`, `messages.py` (messages on the line, and signed messages as in core/wire), `batch.py` (readings), then
`tweetnacl.py`, which finds the fastest of the cryptography modules.
"""
