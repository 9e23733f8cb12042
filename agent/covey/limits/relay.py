"""Relays and presence: how many, how often, and how long a silence means something."""

from __future__ import annotations

MAXIMUM_RELAYS = 8
"""Relays of one device at once: each costs a permanent connection, a thread and a subscription."""

WILL_DELAY_US = 42_000_000
"""How long a relay holds a will back: a device that is back by then was not gone. Never longer than the interval."""

KEEPALIVE_S = 72
"""Keep-alive that a device announces to its relays. A relay publishes the will one and a half of these and
`WILL_DELAY_US` after the device's last packet: 150 s after a power cut (ADR 114). A device that loses a connection
notices within two of these. It is longer than the 70 s between batches of a minute, which so replace the pings."""

RENEWED_S = 850.0
"""How long a relay delivers nothing before its inbox is subscribed again, whatever was said: a relay that has lost the
subscription leaves a device with nothing to say deaf for no longer. It comes just before the twelfth ping and replaces
it, so that a day costs 11 kB more than an hourly renewal."""

RESUBSCRIBE_US = 300_000_000
"""How long a relay delivers nothing, while answers are missing, before its inbox is subscribed again: for 330 bytes."""

COLLECTOR_SILENT_US = 1_800_000_000
"""How long a collector may acknowledge nothing before new telemetry goes to the next one: longer than it restarts."""

COLLECTOR_CHECK_US = 60_000_000
"""Between two looks at the collectors, and at what waits for those that are none any more."""

REDIRECTED_AT_ONCE = 256
"""Messages that one commit moves to another collector: others are not held up for long."""

PRESENCE_BLOCK = 256
"""Counters of presence that are taken from the store at a time: at one beat in five minutes a write a day."""

MAXIMUM_PRESENCE_S = 8 * 86_400
"""Longest time without a sign of life that a device may announce: the longest interval of `link.connect`, and a day."""

ASLEEP_GRACE_US = 900_000_000
"""How late a device that sleeps may be for its window, in addition to a quarter of the time: its relay may be away."""

PRESENCE_WRITE_US = 60_000_000
"""When the devices of a fleet were last seen is written together, once in this time: an SD card has a budget."""

FORMER_RELAY_NAMES = 16
"""Names and addresses by which devices knew a served relay before: a hub moves a few times in its life."""

RELAY_SEARCH_US = 1_000_000
"""How long a device waits for answers of the local network: a relay answers within milliseconds."""

RELAY_SEARCH_PLACES = 4
"""Answers that one search takes: one relay has several addresses at most."""

RELAY_SEARCH_AUTHORITIES = 4
"""Authorities of a file for which one search asks: a relay has one, and a second while it is replaced."""

MAXIMUM_RELAY_ADDRESSES = 4
"""Further addresses of a relay: each that does not answer costs an attempt of ten seconds before the next search."""
