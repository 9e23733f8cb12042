"""Actions that a device's owner defines: what may be reported of one."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

MAXIMUM_ACTION_OUTPUT_BYTES = 64 * KIB
"""What is kept of an action's output: its beginning. It fits into one message."""

MAXIMUM_RESULT_WHY_BYTES = 256
"""Why a device did not do what it was ordered, in a sentence or two."""

MAXIMUM_RESULT_CODE_BYTES = 32
"""The same as a program reads it."""

RESULTS_OF_ONE = 1_024
"""Results of one device in one group that others keep, the last ones: more commands to one device than anybody reads
about."""

RESULT_OUTPUT_BYTES_OF_ONE = 4 * MIB
"""The outputs of one device in one group that others keep, the last ones; the rows stay."""

RESULT_OUTPUT_BYTES = 256 * MIB
"""The same of all members of a group, each an equal share, one whole output at least: a fleet's journals, on a card."""
