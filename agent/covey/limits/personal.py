"""A person's own devices, and what these tell each other."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_OWN_GROUPS = 256
"""Groups that a personal group's history knows of; what it tells of more is not heeded. Four times what one device is
in."""

MAXIMUM_PREFERENCES = 1_024
"""Preferences of a person: what it says of more is not heeded."""

MAXIMUM_PREFERENCE_KEY_BYTES = 64
"""A preference's key in UTF-8."""

MAXIMUM_PREFERENCE_VALUE_BYTES = 1_024
"""A preference's value in UTF-8."""

MAXIMUM_PLAN_TEXT_BYTES = 256
"""What a plan for several groups does, in UTF-8: a line of a table. With 128 groups a plan takes 4.7 kB and its order,
so one device writes some 3,000 of them before its personal group's history is full."""

MAXIMUM_PLAN_ORDER_BYTES = 56 * KIB
"""The order of a plan, which names up to 1,000 devices (34 kB) and has a value (16 KiB) or arguments. Leaves 8 KiB of
the operation for the plan's groups and text."""

JOINED_UNASKED = 32
"""Groups of a device beyond which it asks no further one to be let in because another own device is in it: half of
what it may be in, so that a stolen one does not fill it."""

LAST_WORDS_US = 3_600_000_000
"""For so long a device that is to leave a group as another own one did stays, until a member has what it wrote."""

UNANSWERED_US = 3_600_000_000
"""For so long an own device that is owed invitations may leave earlier ones unanswered: it answers within minutes, and
one that begins life after life makes no more than `MAXIMUM_GROUP_REQUESTS_OF_ONE` of them an hour."""

LISTED_IN_VAIN_US = 600_000_000
"""For so long a group has to list an own device that says nothing of it, until that is invited once more: what lets it
in goes again within five minutes, and members tell each other every ten how their groups stand."""
