"""A broker that Covey serves: what one account may have it hold, and what it may hold in all."""

from __future__ import annotations

from covey.limits.units import MIB

SUBSCRIBED_SECONDS = 300.0
"""The time that the first budget of subscriptions is for: devices renew theirs as often."""

SUBSCRIBED_LEVELS = 4_000
"""Levels of filters that one account may subscribe to in that time: 2.4 MB of mosquitto's memory. A device needs 4, one
whose line is lost every second 1,200."""

SUBSCRIBED_LEVELS_DAILY = 50_000
"""The same in a day, 30 MB: what a session holds for the seven days that it lives stays within the broker's memory."""

SUBSCRIPTION_ACCOUNTS = 10_000
"""Accounts whose subscriptions are counted at a time."""

BROKER_DATA_BYTES = 1_024 * MIB
"""What the kernel lets the broker hold, twice its own bound (`memory_limit`), which subscriptions were seen to pass."""

REMOVED_ACCOUNT_US = 600_000_000
"""How long a former member keeps its account at the relay: every device hears of its removal in a round of heads."""

MANIFESTS_LOOKED_AT = 32
"""Manifests that one turn of the agent reads for former members: of 1,000 members a Pi reads them in half a second."""
