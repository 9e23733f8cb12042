"""Actions that a device's owner defines: what may be reported of one."""

from __future__ import annotations

from covey.limits.units import KIB

MAXIMUM_ACTION_OUTPUT_BYTES = 64 * KIB
"""What is kept of an action's output: its beginning. It fits into one message."""

MAXIMUM_RESULT_WHY_BYTES = 256
"""Why a device did not do what it was ordered, in a sentence or two."""

MAXIMUM_RESULT_CODE_BYTES = 32
"""The same as a program reads it."""
