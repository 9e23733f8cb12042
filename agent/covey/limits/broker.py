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
