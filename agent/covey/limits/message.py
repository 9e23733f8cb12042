"""Messages and envelopes: what is refused before it is parsed, and how deep it may be."""

from __future__ import annotations

MAXIMUM_MESSAGE_BYTES = 1_000_000
"""A signed message; checked before parsing (002.37). Large content travels by reference instead."""

MESSAGE_OVERHEAD_BYTES = 300
"""What a message adds to its body at most: header, signature, framing. A whole loss record fits as well."""

MAXIMUM_ENVELOPE_BYTES = 1_150_000
"""A message of the largest size after padding (at most 12 %) and sealing; the broker's own bound lies above it."""

MAXIMUM_BLOB_BYTES = 900_000
"""What one `send` carries: leaves room in a message for header, signature and the vault's framing."""

MAXIMUM_CBOR_DEPTH = 8
"""Nesting of any wire structure; the deepest of ours is 5, and a parser's stack is finite."""

MAXIMUM_CBOR_ITEMS = 65_536
"""Items in one wire structure. The fullest of ours, a segment of 20,000 records, has 60,004; a hostile message of
a million tiny items would cost a Pi seconds before anybody knew who wrote it."""

MAXIMUM_SEQUENCE = 2**40 - 1
"""Largest `seq` and link sequence: a device that sends 1,000 messages a second comes there in 35 years. What a peer
claims beyond it is no number that anybody could have given, and no sum of a few of them leaves 63 bits."""

MAXIMUM_COUNTER = 2**63 - 1
"""Largest version or time: what SQLite, Spark and every language can hold as a signed integer."""

MAXIMUM_EXTENSION_BYTES = 1_024
"""The extension map that may end a structure, encoded. A reader that knows none of its keys stores and forwards it
all the same: so what a newer device may add to each of a million messages is bounded."""

MAXIMUM_EXTENSION_KEY = 65_535
"""Largest key of an extension map; those from 61,440 on are for private use."""
