"""Link keys: when one is worth it, and when it ends."""

from __future__ import annotations

LINK_AFTER_ENVELOPES = 8
"""Sealed envelopes for one device, within the life of a link key, before a key is given to it: that costs a message and
its acknowledgement, which one envelope in eight makes good."""

LINK_DOUBLINGS = 6
"""How often that number is doubled at most, while one key after another fails before it has made good its cost."""

LINK_KEY_ENVELOPES = 65_536
"""Envelopes under one link key: what one stolen key opens is bounded, and a new one costs next to nothing by then."""

LINK_KEY_US = 6 * 3_600_000_000
"""How long a link key is used: so much is opened by one stolen key, and a new one costs 1 kB of a metered link."""

LINK_NOTES_UNANSWERED = 4
"""Of so many heartbeats one is sealed: a recipient that lost the key misses three in a row at most."""

LINK_KEYS_KEPT = 4
"""Link keys of one author that its recipient keeps: one in use, its successor, and what a restart or two left."""

LINK_KEY_KEPT_US = 8 * 86_400_000_000
"""How long it keeps one at most: a relay holds envelopes for a week after the last one was written."""

MAXIMUM_LINK_NAMES_BYTES = 2_048
"""Names of series that a LINK may have short telemetry leave out: a hundred sensors'. A recipient keeps four of each
author."""
