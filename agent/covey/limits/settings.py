"""Settings that operators give devices, and what devices report of them."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_ALLOWED_SETTINGS = 64
"""Patterns in a device's list of what operators may set: a page that its owner can still read."""

MAXIMUM_ORDERED_BYTES = 256 * KIB
"""The file of the settings that operators gave: `MAXIMUM_REPORTED_SETTINGS` at their longest, as JSON."""

MAXIMUM_CONFIGURATION_BYTES = 256 * KIB
"""A file of settings that root's own program reads: every setting with a page of comments."""

SETTING_TRIES = 3
"""Starts of an agent with a setting that has not proved itself; the next one goes without it."""

RELAY_TRIAL_US = 180_000_000
"""How long a relay that an operator named may leave an agent unanswered before the address before it holds again:
a broker that restarts is back by then, and so are some tries of a bad link."""

SETTINGS_RESTART_US = 10_000_000
"""Between an agent's start and its next one for the sake of a setting: what comes together restarts it once."""

MAXIMUM_SETTINGS_GONE_BACK = 256
"""Reverted orders that a device remembers, so as not to try them again: twice `MAXIMUM_REPORTED_SETTINGS`, 48 bytes
each. An operator that makes it forget one with that many others has it tried again, and reverted again."""

MAXIMUM_REPORTED_SETTINGS = 128
"""Settings that operators give one device, and that it reports: more than Covey has, and a page for its programs."""

MAXIMUM_REPORTED_VALUE_BYTES = 1_024
"""A value that a device reports: what a person reads in a table. All of one device fit into one message."""

MAXIMUM_SETTING_WHY_BYTES = 256
"""Why a device refused a setting, in a sentence or two."""

MAXIMUM_SETTING_CODE_BYTES = 32
"""What stood against a setting, as a program reads it."""
