"""The two clocks that accompany every input."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """Microseconds: `monotonic_us` drives timers and never steps; `wall_us` is the date as the machine believes."""

    monotonic_us: int
    wall_us: int


ABSOLUTE_US = 2**28 * 1_000_000
"""A time below it counts from now, or since boot, never from 1970 (RFC 8428, section 4.5.3)."""
