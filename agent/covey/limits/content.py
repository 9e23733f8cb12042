"""How large content may be, in what portions it travels, and how much of it one device does for others."""

from __future__ import annotations

from covey.limits.units import MIB

MAXIMUM_CONTENT_BYTES = 100 * MIB
"""Of one file, before it is sealed (002.33, F-017)."""

CHUNK_BYTES = 64 * 1024
"""What is verified, and kept, at once: a power cut has at most one fetched twice."""

MAXIMUM_FILE_NAME_BYTES = 255
"""The longest name that file systems take."""

CONTENT_PULL_BYTES = 8 * CHUNK_BYTES
"""What is asked for at once: half a megabyte in flight keeps a link busy, and is all that a holder has to remember."""

CONTENT_PULL_US = 20_000_000
"""How long a holder may say nothing before another one is asked."""

FETCH_REST_US = 300_000_000
"""The longest rest before those are asked anew who did not have it, did not answer, or gave something else; the first
one is as long as `CONTENT_PULL_US`."""

HOLDERS_TRIED = 8
"""Members that are asked one after the other before a fetch rests; later it goes on with others."""

FETCHES_AT_ONCE = 2
"""Files that are fetched at the same time; others wait."""

PARTS_AT_ONCE = 8
"""Parts that a turn of the agent gives to a relay, after all else that waits: what is measured comes first."""

SERVED_MEMBERS = 64
"""Members that are served at the same time; one more asks again later."""

PARTS_PER_SECOND = 64
"""Parts that one member is given in a second: 4 MiB, more than a broker's way carries."""

PARTS_SAVED = 128
"""What a member that asked for nothing can save up of these."""

CONTENT_EXPIRY_S = 30
"""How long a relay keeps what is asked for and given: then it is asked for again."""

MAXIMUM_HOLDERS = 1_024
"""Members of which it is remembered that they have a file: as many as a group has."""

CONTENT_FREE_BYTES = 64 * MIB
"""What stays free of the disk: a file that would take it is refused, and the outbox has its room."""
