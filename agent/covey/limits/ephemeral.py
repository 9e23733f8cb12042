"""Ephemeral messages: how long they live, and how many there are."""

from __future__ import annotations

MAXIMUM_EPHEMERAL_BYTES = 1_024
"""What one says: a word between programs, not a document. For 1,000 members at twice a second that is 3 MB a second."""

EPHEMERAL_US = 60_000_000
"""How far an ephemeral message may lie from its receiver's clock: longer than a relay takes, and two clocks differ that
were ever set; short enough that nobody takes an old word for a new one."""

EPHEMERAL_PER_SECOND = 2
"""Of one author, in all of its groups: faster than anybody types. In the time that one lives, the whole of
`EPHEMERAL_SAVED` comes back: so a receiver may forget an author when its last one has died."""

EPHEMERAL_SAVED = 20
"""What an author may say at once after a silence."""

EPHEMERAL_KEPT = 1_024
"""Messages that programs may still read, in an agent's memory: one of each member of the largest group. Only a flood
fills it, with a megabyte."""
