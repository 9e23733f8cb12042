"""Which times of readings are believed.

The source of a reading may state when it was measured. A time without a zone, in milliseconds, or from a clock that
started in 1970 must not cost the value: the reading gets its time of arrival, and the case is counted. The ingest
believes the same range (`covey_ingest.task.time_quality`); there one time outside it costs the whole batch its times.
"""

from __future__ import annotations

from collections.abc import Callable

from covey.core.now import ABSOLUTE_US

UNUSABLE_US = -1
"""The time of a reading whose source gave one that cannot be read."""

EARLIEST_US = 946_684_800_000_000
"""2000-01-01: earlier times come from clocks that started at an epoch."""

LATEST_US = 7_258_118_400_000_000
"""2200-01-01: what no clock says. Unix milliseconds, taken for seconds, lie far beyond it."""

AHEAD_US = 86_400_000_000
"""A day: local time mistaken for UTC, and a little more."""


def is_believable(time_us: int, wall_us: int, is_set: Callable[[], bool]) -> bool:
    """Say whether a reading's time is believed. One below `ABSOLUTE_US` is this device's monotonic clock's.

    Args:
        time_us: microseconds, since 1970 or on the monotonic clock.
        wall_us: what this device's clock says.
        is_set: whether a time source has set that clock; asked only about times that lie ahead of it.
    """
    if 0 <= time_us < ABSOLUTE_US:
        return True
    return EARLIEST_US <= time_us <= LATEST_US and (time_us <= wall_us + AHEAD_US or not is_set())
