"""Heads: how often devices compare how their groups stand, and what they do where that differs."""

from __future__ import annotations

from covey.limits.units import MIB

HEADS_DELAY_US = (500_000, 3_000_000)
"""A device waits between these before it tells another one that they differ: the news may be under way."""

HEADS_US = 15_000_000
"""Between two reports to one device, or two requests to it: what was asked for has mostly come by then."""

HEADS_US_MAX = 3_600_000_000
"""What that pause doubles up to while both sides stay as they are: two that cannot agree speak of it once an hour."""

NEWS_US = 600_000_000
"""How long a message that waits for a device may be the news that a report would tell it: a slow relay takes minutes,
and after that the report costs 200 bytes."""

GIVEN_AFTER = 2
"""How often a member is heard to hold less, and told of that, before it is given what it lacks without a request."""

HEADS_ROUND_US = 600_000_000
"""Interval between reports to members without recent news, after a start and while something changes ..."""

HEADS_ROUNDS = 6
"""... for so many reports: an hour, in which what was lost on its way is noticed."""

HEADS_CALM_US = 3_600_000_000
"""The same interval while nothing changes. In a group of 50 each has reports from all others after a day, for 25 bytes
a minute; every message and acknowledgement says the same to whoever it goes to."""

HEADS_START_US = (15_000_000, 60_000_000)
"""When after a start the first of these goes: a thousand devices whose relay comes back begin within a minute."""

HEADS_CHANGE_US = (500_000, 5_000_000)
"""The same after a conflict in a group began or ended, as others may not have heard of it..."""

QUICK_ROUNDS = 8
"""...and how many reports then go at this pace: enough that a rumour reaches everybody."""

HEADS_PER_SECOND = 10
"""Reports a second to all devices: a thousand that meet after a split are told within two minutes."""

HEADS_SAVED = 40
"""How many may go at once after a silence."""

PULLS_PER_SECOND = 1
"""Requests a second in one group: one answer of up to 264 KiB mostly suffices, however many offer it."""

PULLS_SAVED = 4
"""How many may go at once after a silence."""

NAMED_KEYS = 64
"""Devices whose reports have named a noise key that no manifest lists: few are restored from a backup at one time."""

NAMED_KEY_US = 14_400_000_000
"""How long such a key is used beside the listed one: what waits goes again within that time, if only once an hour."""

PACED = 4_096
"""Pauses that are remembered: more than there are members to speak with at one time."""

FORMER_LOOK_SECONDS = 30
"""A stranger's report is looked at so often, in the mean: whether it was a member, and does not know of its removal."""

FORMER_LOOK_BYTES = MIB
"""Manifests that one look reads in bytes, each once: four of the largest, less than half a second of a Pi."""

FORMER_LOOKS_SAVED = 8
"""How many are processed at once after a silence: a removed member reports every ten minutes."""

REMOVAL_MANIFESTS = 8
"""Manifests that are read at a time, towards the removal: of more, the next ones when the device has these."""

LEFT_LOOKED_BACK = 8
"""Versions before the held ones that are searched for this device's own leaving: it is notified of few after that."""
