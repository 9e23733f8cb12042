"""What a door keeps of each series and hour: how many readings, their sum, the least and the greatest.

Home Assistant records a state with the time of its arrival, so late readings are missing from its history. Its
long-term statistics have one row for each hour, which a door may write again, and it writes all of the hour:

1. An hour is an hour of UTC since 1970. A reading belongs to the hour in which it was measured, by the clock of its
   device; by a clock that nobody has set, to the hour in which it landed.
2. Only numbers count; booleans and texts have no statistics.
3. An hour with a reading that came late is due. So is one with readings that a full outbox thinned: a window of a
   summary within one hour counts with all its readings. A wider one counts in each of its hours by its share of time.
4. Readings from before 2000, or from more than an hour ahead of this machine's clock, do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.door_discovery import NUMBER, EntitySeries, measured_at_us, series_of
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorWindow

HOUR_US = 3_600_000_000
_FIRST_HOUR = 262_968
"""2000-01-01."""
_LARGEST = 1e300
"""Bound of a sum: the sums of two hours still are a number."""


@dataclass(slots=True)
class SeriesHour:
    """What is known of one series in one hour. A share of a wide window makes `readings` a fraction."""

    readings: float
    total: float
    low: float
    high: float
    is_due: bool

    def add(self, other: SeriesHour) -> None:
        """Add what another part of the same hour says."""
        self.readings += other.readings
        self.total += other.total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.is_due |= other.is_due


class HourKey(NamedTuple):
    """A series, by its `unique_id` in Home Assistant, and an hour."""

    entity: str
    hour: int


class SeriesUnit(NamedTuple):
    """Whose a series is, and its unit in SenML."""

    device: str
    unit: str


@dataclass(frozen=True, slots=True)
class MessageHours:
    """What one message adds. `source` and `number` tell it from all others: a vault may hold a message twice."""

    source: str
    number: int
    hours: dict[HourKey, SeriesHour]
    series: dict[str, SeriesUnit]


class DueHour(NamedTuple):
    """An hour of a series that a receiver is to have. `changes` counts what was added to it.

    `is_part`: earlier readings of the hour are unknown here, so that only a receiver that has nothing may take it.
    """

    series: int
    entity: str
    unit: str
    hour: int
    readings: float
    total: float
    low: float
    high: float
    changes: int
    is_part: bool

    @property
    def mean(self) -> float:
        """The mean, each reading counted alike."""
        return min(max(self.total / self.readings, self.low), self.high)


def hours_of(batch: DoorBatch, messages: Iterable[DoorMessage]) -> Iterator[MessageHours]:
    """Yield what each message of a batch adds to hours, for those that add something."""
    known = dict[EntitySeries, tuple[str, SeriesUnit]]()
    latest = batch.sent_at_us // HOUR_US + 1
    for message in messages:
        source, _, number = message.id.rpartition("-")
        found = MessageHours(source, int(number), {}, {})
        for series, hour, part in _parts(batch, message):
            if not _FIRST_HOUR <= hour <= latest:
                continue
            if series not in known:
                known[series] = series.unique_id, SeriesUnit(series.device, series.unit)
            entity, unit = known[series]
            key = HourKey(entity, hour)
            found.series[entity] = unit
            if key in found.hours:
                found.hours[key].add(part)
            else:
                found.hours[key] = part
        if found.hours:
            yield found


def _parts(batch: DoorBatch, message: DoorMessage) -> Iterator[tuple[EntitySeries, int, SeriesHour]]:
    for reading in message.readings:
        series = series_of(message, reading)
        if series is None or series.kind != NUMBER:
            continue
        assert isinstance(reading.value, int | float)
        value = _bounded(reading.value)
        hour = measured_at_us(message, reading) // HOUR_US
        yield series, hour, SeriesHour(1, value, value, value, batch.is_backlog(message, reading))
    for window in message.windows:
        series = EntitySeries(message.author, window.name, window.unit, NUMBER)
        for hour, share in _shares(message, window):
            total, low, high = map(_bounded, (window.total * share, window.low, window.high))
            yield series, hour, SeriesHour(window.readings * share, total, low, high, is_due=True)


def _shares(message: DoorMessage, window: DoorWindow) -> Iterator[tuple[int, float]]:
    if message.clock is ClockKind.UNSYNCHRONISED:
        yield message.received_at_us // HOUR_US, 1.0
        return
    first, last = window.first_us // HOUR_US, window.last_us // HOUR_US
    for hour in range(first, min(last, first + _WIDEST_HOURS) + 1):
        begin, end = max(window.first_us, hour * HOUR_US), min(window.last_us, (hour + 1) * HOUR_US)
        yield hour, 1.0 if first == last else (end - begin) / (window.last_us - window.first_us)


_WIDEST_HOURS = 24 * 31


def _bounded(value: float) -> float:
    return min(max(float(value), -_LARGEST), _LARGEST)
