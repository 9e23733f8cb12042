"""Keys of a device: retired ones, and what a passphrase costs."""

from __future__ import annotations

from covey.limits.units import MIB

RETIRED_NOISE_KEYS = 4
"""Noise keys of before rotations that are kept at a time: each may have envelopes on the way to it."""

RETIRED_NOISE_KEY_US_MIN = 3_600_000_000
"""How long a retired noise key is kept at least: longer than an invite that was printed before lives."""

RETIRED_NOISE_KEY_US_MAX = 180 * 86_400_000_000
"""How long it is kept at most, even if some members do not know yet: two devices that were apart while both rotated
have no other way to reach each other, and a season in a box is common; a device that is silent for longer is invited
again."""

LOST_KEY_US = 60_000_000
"""How long a group lists a noise key that this device does not hold, before the device tells it the one that it holds:
the key may have been drawn by another process a moment ago."""

LOST_KEY_PAUSE_US = 6 * 3_600_000_000
"""And how long it rests after that: two devices with one identity do not answer each other without end."""

ROTATION_PACE_US = 2 * 3_600_000_000
"""Between two rotations of one group, on average: of 1,000 members each gets twelve manifests of 200 kB a day."""

ARGON2_PASSES = 3
"""Passes of Argon2id for a new passphrase: with the memory below, RFC 9106's second choice, 0.3 s on a Pi 4."""

ARGON2_PASSES_MIN = 2
"""OWASP's floor, with 19 MiB."""

ARGON2_PASSES_MAX = 16
"""A key file that asks for more was made to stop this machine."""

ARGON2_MEMORY_KIB = 64 * 1024
"""Memory of Argon2id for a new passphrase, in KiB: what the smallest Pi has to spare."""

ARGON2_MEMORY_KIB_MIN = 19 * 1024
"""OWASP's floor, with two passes."""

ARGON2_MEMORY_KIB_MAX = 256 * 1024
"""A key file that asks for more was made to stop this machine."""

MAXIMUM_RECOVERY_BYTES = 64 * MIB
"""A hub's recovery file: the manifests of 128 groups of 1,000 members take 30 MiB."""

MAXIMUM_RECOVERED_FILES = 1_024
"""Files of the state folder in it: keys, configuration, relay accounts; a hub has some twenty."""

MAXIMUM_RECOVERED_FILE_BYTES = 4 * MIB
"""One of them: the relay's accounts of 10,000 devices take 2 MiB."""

MAXIMUM_RECOVERED_OPERATORS = 4_096
"""Operators that a hub's owner approved with invites: 32 in each of 128 groups."""

MAXIMUM_RECOVERED_REPLACEMENTS = 65_536
"""Gateways of a hub that others have replaced: of 10,000 with cards that live two years, those of a decade."""

MAXIMUM_HUB_OPERATORS = 12
"""Operators with a part of a hub's recovery file: half of twelve make 924 sets, which take 44 kB."""

MAXIMUM_PASSPHRASE_BYTES = 1_024
"""A passphrase: longer than any that a person types."""
