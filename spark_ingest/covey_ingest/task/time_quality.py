"""The time of a reading, and its quality: the `time_quality` of the tables.

Rules, for a batch that the collector received at `received_at_us`:
    1. `synchronised`: the device's clock was disciplined by a time source, and all its times are plausible.
    2. `unsynchronised`: the device's own wall clock, undisciplined but plausible.
    3. `asserted`: wall times that the application gave, each of them plausible.
    4. `arrival`: none of these. The batch's latest moment (its anchor; for asserted times the later of anchor and last
       time) counts as the moment of arrival, and distances between readings are kept. A time that is still implausible
       becomes the moment of arrival.
    5. If the collector's clock is implausible too, the message has no time at all and is refused into quarantine.

`offset` returns what was added to a message's device times, so that these can be recovered.

So no row is in 1970. A device's wall clock is plausible from 2020 to a day after the arrival; its readings may be
older: from 2000 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from covey.core.telemetry.batch import ClockKind, ClockReading
from covey.errors import MalformedError
from covey_ingest.task.decode import Integers

CLOCK_FROM_US = 1_577_836_800_000_000
"""2020-01-01: no device that speaks this protocol is older."""

CLOCK_UNTIL_US = 7_258_118_400_000_000
"""2200-01-01: past the life of anything built today, far inside what tables and Python can show."""

HISTORY_FROM_US = 946_684_800_000_000
"""2000-01-01: earlier times come from clocks that started at an epoch."""

AHEAD_US = 86_400_000_000
"""A day: local time mistaken for UTC, and a little more."""


class TimeQuality(StrEnum):
    """How a row's time came about."""

    SYNCHRONISED = "synchronised"
    UNSYNCHRONISED = "unsynchronised"
    ASSERTED = "asserted"
    ARRIVAL = "arrival"
    REBASED = "rebased"
    """By the clock of another message of the same boot, which was synchronised: `clocks`."""


_QUALITIES = {
    ClockKind.SYNCHRONISED: TimeQuality.SYNCHRONISED,
    ClockKind.UNSYNCHRONISED: TimeQuality.UNSYNCHRONISED,
    ClockKind.ASSERTED: TimeQuality.ASSERTED,
}


def wall_times(clock: ClockReading, times: Integers, received_at_us: int) -> tuple[Integers, TimeQuality]:
    """Return wall times in microseconds for a batch's times (as its clock counts them), and their quality.

    Raises:
        MalformedError: rule 5.
    """
    arrival_known = CLOCK_FROM_US <= received_at_us <= CLOCK_UNTIL_US
    until_us = received_at_us + AHEAD_US if arrival_known else CLOCK_UNTIL_US
    asserted = clock.kind is ClockKind.ASSERTED
    if asserted or CLOCK_FROM_US <= clock.wall_us <= until_us:
        # Differences of the same device's clock: beyond 2**61 either way they are nonsense, and rule 4 finds them.
        walls = times if asserted else times + (clock.wall_us - min(clock.monotonic_us, 2**61))
        if not times.size or (walls.min() >= HISTORY_FROM_US and walls.max() <= until_us):
            return walls, _QUALITIES[clock.kind]
    if not arrival_known:
        raise MalformedError("neither device nor collector knew the time")
    anchor = max(clock.wall_us, int(times.max())) if asserted and times.size else clock.monotonic_us
    return _by_arrival(times, anchor, received_at_us), TimeQuality.ARRIVAL


def wall_times_together(
    clocks: Sequence[ClockReading], times: Integers, counts: Integers, received_at_us: Sequence[int]
) -> tuple[Integers, list[TimeQuality]]:
    """Say of many batches what `wall_times` says of each: so many of the times are each one's.

    Raises:
        MalformedError: rule 5, for any of them.
    """
    arrivals = np.array(received_at_us, np.int64)
    anchors = np.array([clock.wall_us for clock in clocks], np.int64)
    monotonic = np.minimum(np.array([clock.monotonic_us for clock in clocks], np.int64), 2**61)
    asserted = np.array([clock.kind is ClockKind.ASSERTED for clock in clocks], np.bool_)
    arrival_known = (arrivals >= CLOCK_FROM_US) & (arrivals <= CLOCK_UNTIL_US)
    until = np.where(arrival_known, np.minimum(arrivals, CLOCK_UNTIL_US) + AHEAD_US, CLOCK_UNTIL_US)
    believed = asserted | ((anchors >= CLOCK_FROM_US) & (anchors <= until))
    walls = times + np.repeat(np.where(asserted | ~believed, 0, anchors - monotonic), counts)
    begins, some = np.cumsum(counts) - counts, np.flatnonzero(counts)
    if len(some) and (walls.min() < HISTORY_FROM_US or walls.max() > until.min()):
        least, most = (each.reduceat(walls, begins[some]) for each in (np.minimum, np.maximum))
        believed[some] &= (least >= HISTORY_FROM_US) & (most <= until[some])
    qualities = [_QUALITIES[clock.kind] for clock in clocks]
    for row in np.flatnonzero(~believed).tolist():
        own = slice(int(begins[row]), int(begins[row] + counts[row]))
        walls[own], qualities[row] = wall_times(clocks[row], times[own], received_at_us[row])
    return walls, qualities


def offset(clock: ClockReading, quality: TimeQuality, received_at_us: int) -> int | None:
    """Return what was added to a batch's monotonic times, in microseconds; None for times that are asserted."""
    if clock.kind is ClockKind.ASSERTED:
        return None
    anchor = received_at_us if quality is TimeQuality.ARRIVAL else clock.wall_us
    return anchor - min(clock.monotonic_us, 2**61)


def _by_arrival(times: Integers, anchor: int, received_at_us: int) -> Integers:
    """Let the anchor be the arrival. Ages are taken in float64, which cannot wrap."""
    ages = float(anchor) - times.astype(np.float64)
    plausible = (ages >= 0) & (ages <= received_at_us - HISTORY_FROM_US)
    return np.where(plausible, received_at_us - (np.int64(anchor) - times), received_at_us)
