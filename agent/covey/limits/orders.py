"""Operators: which devices they are, what they set and order, and how much of it a device reads."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_SELECTED_DEVICES = 1_000
"""Devices that an order names one by one: those of a whole group; 34 kB of an operation."""

MAXIMUM_WAVES = 16
"""Waves of a roll-out: a plan beyond that is no plan."""

MAXIMUM_RELEASE_WHY_BYTES = 256
"""Why a release is to wait or to end, in a sentence or two."""

MAXIMUM_SETTING_KEY_BYTES = 96
"""A setting's key: section and name; a program's own, with some levels of its own."""

MAXIMUM_SETTING_VALUE_BYTES = 16 * KIB
"""A setting's value in UTF-8: a program's own may be a page of JSON."""

MAXIMUM_ACTION_BYTES = 48
"""An action's name: some words with hyphens between them."""

MAXIMUM_ARGUMENTS = 16
"""Arguments of one command: a definition with more is hard to write, and to check."""

MAXIMUM_ARGUMENT_NAME_BYTES = 32
"""An argument's name: a word or two."""

MAXIMUM_ARGUMENT_BYTES = 1_024
"""An argument's value in UTF-8: a path or a URL; all of them fit into one operation."""

MAXIMUM_SEALED_BYTES = 60 * KIB
"""A secret that only an order's targets can read: 48 bytes for each device of a whole group, and the largest secret.
Leaves 4 KiB of the operation for the order itself."""

MAXIMUM_SECRET_BYTES = 12 * KIB
"""A secret value as it is sealed, with its padding: a key, or a chain of certificates."""

CHANGES_OF_A_LOG = 128
"""Additions and removals of operators that a device looks at in one log of an operator, and approvals of these: the
first ones. A site whose staff changes every month comes there in five years, of one operator and one state of its
device; and what an operator's stolen key can cost a Pi stays at seconds."""
