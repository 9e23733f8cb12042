"""Summaries: what takes the place of readings where their outbox is full (docs/protocol/core.md, "Summaries").

A summary describes each series of some batches by one row for each window of time: how many readings, their sum,
minimum, maximum, first and last value, and the times of the first and the last. These are the four values of M4
(Jugel, Jerzak, Hackenbroich, Markl: "M4: A Visualization-Oriented Time Series Data Aggregation", PVLDB 7(10), 2014): a
line drawn through first, minimum, maximum and last of each window has the same pixels as one through all readings, as
long as a window is no wider than a pixel. M4 needs no look at its neighbours, unlike LTTB; and summaries of summaries
are summaries of the readings, so that a backlog may be thinned again, to wider windows, and nothing adds up.

Rules:

    1. Values of kinds DECIMAL and BOOLEAN are integers, as in batches. Their sums are exact, also of summaries.
    2. A sum of doubles is their exact sum, rounded once (Shewchuk's algorithm: `math.fsum`); thinned again, the rounded
       sums are added in the same way. A series is one of doubles where any of its values is (`batch._as_numbers`).
    3. Of texts and data the values are gone. How many there were, and when, remains.
    4. Windows are aligned to UTC where the clock was synchronised or asserted, else to the boot. All that is in one
       summary is of one boot, and of one kind of clock; its times are kept as its newest batch would count them.

Worked example: temperature every 20 s, 21.5, 21.7, 21.6 | 21.4, 21.5, and windows of a minute. As decimals of one
place: (count 3, minimum 215, maximum 217, first 215, last 216, sum 648), (2, 214, 215, 214, 215, 429). Thinned again to
five minutes: (5, 214, 217, 215, 215, 1077), which is 107.7.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import fsum, isfinite
from sys import float_info
from typing import Any, NamedTuple

from covey.core.telemetry.batch import (
    BOOT_ID_BYTES,
    MAXIMUM_SCALE,
    WHOLE,
    Batch,
    ClockKind,
    ClockReading,
    Kind,
    Series,
    split_number,
)
from covey.core.wire import cbor, columns
from covey.core.wire.deflate import deflate, inflate
from covey.core.wire.message import Message, MessageType, read_message
from covey.core.wire.sequences import Range, are_apart, read_range
from covey.errors import MalformedError
from covey.limits.link import MAXIMUM_LOSS_RANGES
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from covey.limits.telemetry import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_SERIES,
    MAXIMUM_NAME_BYTES,
    MAXIMUM_SUMMARY_WINDOWS,
    MAXIMUM_UNIT_BYTES,
    MAXIMUM_WINDOW_READINGS,
    MAXIMUM_WINDOW_US,
)

_FORMAT = 1
RAW, DEFLATE = 0, 1
_LOW_BITS = 60
"""A sum is written in two columns, as a column holds 62 bits: less the count's minima, its low bits, and the rest."""
_NUMBERS = (Kind.DECIMAL, Kind.BOOLEAN)


class SummaryWindow(NamedTuple):
    """What is known of the readings of one series in one window; times as the summary's clock counts them.

    Values are a decimal's integers, or doubles; of texts and data all of them are 0. While doubles are collected, their
    total is a tuple of what is to be added.
    """

    first_us: int
    last_us: int
    readings: int
    total: Any
    minimum: int | float
    maximum: int | float
    first: int | float
    last: int | float


@dataclass(frozen=True, slots=True)
class SummarySeries:
    """One series and its windows, oldest first."""

    name: str
    unit: str
    kind: Kind
    scale: int
    windows: tuple[SummaryWindow, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """All series of some batches, ordered by kind; `window_us` is the width of the windows."""

    clock: ClockReading
    window_us: int
    series: tuple[SummarySeries, ...]

    @property
    def readings(self) -> int:
        """How many readings are summarised."""
        return sum(window.readings for each in self.series for window in each.windows)

    @property
    def windows(self) -> int:
        """How many rows there are."""
        return sum(len(each.windows) for each in self.series)

    def wall_us(self, time_us: int) -> int:
        """Return the wall time, in microseconds, that the device's clock gives one of these times."""
        if self.clock.kind is ClockKind.ASSERTED:
            return time_us
        return time_us + self.clock.wall_us - self.clock.monotonic_us

    def to_wire(self) -> bytes:
        """Return the array `[1, boot_id, clock, monotonic, wall, window, windows, codec, inflated, packed]`."""
        written = cbor.encode(_columns_of(self.series))
        packed, codec = deflate(written), DEFLATE
        if len(packed) >= len(written):
            packed, codec = written, RAW
        clock = self.clock
        return cbor.encode(
            [
                *(_FORMAT, clock.boot_id, int(clock.kind), clock.monotonic_us, clock.wall_us),
                *(self.window_us, self.windows, codec, len(written), packed),
            ]
        )


_PAIR = b"\x82"


def summary_body(numbers: Sequence[Range], summary: bytes) -> bytes:
    """Return the body of a SUMMARY message: the numbers of the batches that it replaces, and what they said."""
    return _PAIR + cbor.encode([list(span) for span in numbers]) + summary


def read_summary(body: bytes) -> tuple[tuple[Range, ...], Summary]:
    """Parse the body of a SUMMARY message, and check every length against the others.

    Raises:
        LimitError: beyond a bound; nothing was inflated beyond it.
        MalformedError: not a summary, or its parts disagree.
    """
    numbers, value = _read_body(body)
    version, boot_id, kind, monotonic_us, wall_us, window_us, windows, codec, inflated, packed = cbor.record(
        value, "summary", *_READERS
    )
    if version != _FORMAT:
        raise MalformedError(f"summary format {version}: a newer Covey?")
    if not window_us or not windows:
        raise MalformedError("a summary must have windows")
    written = inflate(packed, inflated, "summary") if codec == DEFLATE else packed
    if len(written) != inflated:
        raise MalformedError("summary: a length is wrong")
    clock = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(kind))
    return numbers, Summary(clock, window_us, _read_columns(written, windows))


def read_numbers(body: bytes) -> tuple[Range, ...]:
    """Return which numbers the body of a SUMMARY names, without a look at the rest.

    Raises:
        RemoteError: as `read_summary`.
    """
    return _read_body(body)[0]


def numbers_of(message: Message) -> tuple[Range, ...]:
    """Return the numbers of the batches that a message brings, or takes the place of; none of any other message.

    Raises:
        RemoteError: its body is not what its type says.
    """
    if message.type is MessageType.REDIRECTED:
        message = read_message(message.body, verify=False)
    if message.type is MessageType.SUMMARY:
        return read_numbers(message.body)
    if message.type is not MessageType.TELEMETRY:
        return ()
    number, _ = split_number(message.body)
    return ((number, number),)


def _read_body(body: bytes) -> tuple[tuple[Range, ...], object]:
    value = cbor.decode_growing(body, MAXIMUM_MESSAGE_BYTES)
    numbers, summary = cbor.record(value, "summary", _read_numbers, lambda value: value)
    if not numbers or not are_apart(numbers):
        raise MalformedError("a summary must name the numbers that it replaces, in ranges that do not touch")
    return numbers, summary


class Summariser:
    """Collects batches and summaries of one clock, oldest first, until the caller closes the summary.

    `in_one` says of which series all readings go into a single window: nobody wants more of it than its last value.
    """

    def __init__(self, window_us: int, in_one: Callable[[str], bool] = lambda _: False) -> None:
        self._window_us = window_us
        self._in_one = in_one
        self._counted: ClockReading | None = None
        """The clock that collected times are counted by: the first one. At the end they are moved to the last one's."""
        self._newest: ClockReading | None = None
        self._series: dict[tuple[str, str, Kind], _Collected] = {}
        self.windows = self.readings = 0

    def takes(self, clock: ClockReading) -> bool:
        """Say whether what such a clock has timed may be in this summary (rule 4)."""
        mine = self._counted
        return mine is None or (mine.boot_id, mine.kind) == (clock.boot_id, clock.kind)

    @property
    def within(self) -> bool:
        """Say whether what was added is within all bounds."""
        few_readings = self.readings <= MAXIMUM_WINDOW_READINGS
        return few_readings and self.windows <= MAXIMUM_SUMMARY_WINDOWS and len(self._series) <= MAXIMUM_BATCH_SERIES

    def add_batch(self, batch: Batch) -> None:
        """Add the readings of a batch.

        Raises:
            MalformedError: its columns hold what no honest device writes.
        """
        offset = self._count_by(batch.clock)
        times = [time + offset for time in batch.taken_us()]
        numbers = batch.integers()
        doubles = array("d", columns.join_planes(batch.floats, 8))
        columns.little_endian(doubles)
        at = number = double = 0
        for series in batch.series:
            values: Sequence[int | float] | None = None
            if series.kind in _NUMBERS:
                values, number = numbers[number : number + series.count], number + series.count
            elif series.kind is Kind.FLOAT:
                values, double = doubles[double : double + series.count], double + series.count
                if not all(map(isfinite, values)):
                    raise MalformedError("a float is not finite")
            of_series, at = times[at : at + series.count], at + series.count
            slots = [self._slot(series.name, time) for time in of_series]
            self._add(series, zip(*_windows(slots, of_series, values, series.kind), strict=True))

    def add_summary(self, summary: Summary) -> None:
        """Add what is a summary already, of windows that are as wide as these or narrower."""
        offset = self._count_by(summary.clock)
        for series in summary.series:
            moved = [_moved(window, offset) for window in series.windows]
            if series.kind is Kind.FLOAT:
                moved = [window._replace(total=(window.total,)) for window in moved]
            self._add(series, ((self._slot(series.name, window.first_us), window) for window in moved))

    def summary(self) -> Summary:
        """Return what was collected: at least one batch."""
        assert self._counted is not None
        assert self._newest is not None
        offset = _drift(self._counted, self._newest)
        made = [
            SummarySeries(name, unit, each.kind, each.scale, each.finished(offset))
            for (name, unit, _), each in self._series.items()
        ]
        made.sort(key=lambda each: each.kind)
        return Summary(self._newest, self._window_us, tuple(made))

    def _count_by(self, clock: ClockReading) -> int:
        """Note a clock, and return what turns its times into those that are collected: wall times stay as they were."""
        self._newest = clock
        if self._counted is None:
            self._counted = clock
        return _drift(clock, self._counted)

    def _slot(self, name: str, time_us: int) -> int:
        assert self._counted is not None
        if self._in_one(name):
            return 0
        return (time_us + _wall_offset(self._counted)) // self._window_us

    def _add(self, series: Series | SummarySeries, parts: Iterable[tuple[int, SummaryWindow]]) -> None:
        family = Kind.DECIMAL if series.kind is Kind.FLOAT else series.kind
        found = self._series.get(key := (series.name, series.unit, family))
        if found is None:
            found = self._series[key] = _Collected(series.kind, series.scale)
        for slot, window in parts:
            self.windows += found.add(slot, window, series.kind, series.scale)
            self.readings += window.readings


class _Collected:
    """The windows of one series, by their slots; the totals of doubles are kept apart until the end (rule 2)."""

    def __init__(self, kind: Kind, scale: int) -> None:
        self.kind = kind
        self.scale = scale
        self._windows: dict[int, SummaryWindow] = {}

    def add(self, slot: int, window: SummaryWindow, kind: Kind, scale: int) -> bool:
        """Add a window's readings; return whether its slot is new."""
        if (kind, scale) != (self.kind, self.scale):
            window = self._alike(window, kind, scale)
        before = self._windows.get(slot)
        self._windows[slot] = window if before is None else _joined(before, window)
        return before is None

    def _alike(self, window: SummaryWindow, kind: Kind, scale: int) -> SummaryWindow:
        """Have both written in one way: as decimals of the greater scale, or else as doubles."""
        if Kind.FLOAT not in (kind, self.kind):
            most = max(scale, self.scale)
            finer = _scaled(window, most - scale)
            held = {slot: _scaled(each, most - self.scale) for slot, each in self._windows.items()}
            if all(-WHOLE < each.minimum <= each.maximum < WHOLE for each in (finer, *held.values())):
                self._windows, self.scale = held, most
                return finer
        if self.kind is not Kind.FLOAT:
            self._windows = {slot: _as_doubles(each, self.scale) for slot, each in self._windows.items()}
            self.kind, self.scale = Kind.FLOAT, 0
        return window if kind is Kind.FLOAT else _as_doubles(window, scale)

    def finished(self, offset: int) -> tuple[SummaryWindow, ...]:
        """Return the windows, oldest first, with times moved."""
        made = [_moved(window, offset) for window in self._windows.values()]
        if self.kind is Kind.FLOAT:
            made = [window._replace(total=_sum(window.total)) for window in made]
        return tuple(sorted(made))


def _windows(
    slots: list[int], times: list[int], values: Sequence[int | float] | None, kind: Kind
) -> tuple[list[int], list[SummaryWindow]]:
    """Return the windows of a series' readings, and their slots; readings that follow each other share one."""
    found: tuple[list[int], list[SummaryWindow]] = ([], [])
    begin, size = 0, len(times)
    while begin < size:
        slot, end = slots[begin], begin + 1
        while end < size and slots[end] == slot:
            end += 1
        of_window = times[begin:end]
        first, last = min(of_window), max(of_window)
        found[0].append(slot)
        if values is None:
            found[1].append(SummaryWindow(first, last, end - begin, 0, 0, 0, 0, 0))
        else:
            part = values[begin:end]
            total = tuple(part) if kind is Kind.FLOAT else sum(part)
            earliest, latest = part[of_window.index(first)], part[-1 - of_window[::-1].index(last)]
            found[1].append(SummaryWindow(first, last, end - begin, total, min(part), max(part), earliest, latest))
        begin = end
    return found


def _joined(before: SummaryWindow, after: SummaryWindow) -> SummaryWindow:
    """Return the window of both's readings; of two at the same moment, the later one in the queue is the last."""
    early = after if after.first_us < before.first_us else before
    late = before if before.last_us > after.last_us else after
    return SummaryWindow(
        early.first_us,
        late.last_us,
        before.readings + after.readings,
        before.total + after.total,
        min(before.minimum, after.minimum),
        max(before.maximum, after.maximum),
        early.first,
        late.last,
    )


def _moved(window: SummaryWindow, offset: int) -> SummaryWindow:
    if not offset:
        return window
    return window._replace(first_us=window.first_us + offset, last_us=window.last_us + offset)


def _scaled(window: SummaryWindow, places: int) -> SummaryWindow:
    power = 10**places
    return _valued(window, *(int(value) * power for value in window[_VALUES:]))


def _as_doubles(window: SummaryWindow, scale: int) -> SummaryWindow:
    power = 10**scale
    total, *values = (value / power for value in window[_VALUES:])
    return _valued(window, (total,), *values)


def _valued(window: SummaryWindow, total: Any, *values: float) -> SummaryWindow:
    minimum, maximum, first, last = values
    return window._replace(total=total, minimum=minimum, maximum=maximum, first=first, last=last)


def _sum(parts: Iterable[float]) -> float:
    """Return the exact sum, rounded once; what no double can hold becomes the largest one."""
    try:
        return fsum(parts)
    except OverflowError:  # perhaps on the way to a sum that a double holds
        ratios = [part.as_integer_ratio() for part in parts]
        exact = sum(above * (_SMALLEST // below) for above, below in ratios)
    try:
        return exact / _SMALLEST
    except OverflowError:
        return float_info.max if exact > 0 else -float_info.max


_SMALLEST = 1 << 1074
"""How many times the smallest double is in 1: all of them are multiples of it."""
_VALUES = 3
"""Where the values of a window begin."""


def _wall_offset(clock: ClockReading) -> int:
    """Return what turns a clock's times into those that windows are aligned by (rule 4)."""
    return clock.wall_us - clock.monotonic_us if clock.kind is ClockKind.SYNCHRONISED else 0


def _drift(clock: ClockReading, other: ClockReading) -> int:
    """Return what turns a clock's times into another's, of the same boot and kind, so that wall times stay the same."""
    return _wall_offset(clock) - _wall_offset(other)


# -- columns -----------------------------------------------------------------------------------------------------------


def _columns_of(series: Sequence[SummarySeries]) -> list[object]:
    """Return the columns; each runs over all series' windows, those of values over the series of its kind."""
    windows = [window for each in series for window in each.windows]
    whole = [window for each in series if each.kind in _NUMBERS for window in each.windows]
    low = (1 << _LOW_BITS) - 1
    above = [int(window.total - window.readings * window.minimum) for window in whole]
    doubles = [window for each in series if each.kind is Kind.FLOAT for window in each.windows]
    floats = array("d", chain.from_iterable([window[place] for window in doubles] for place in range(_VALUES, 8)))
    columns.little_endian(floats)
    integers = [
        [window.first_us for window in windows],
        [window.last_us - window.first_us for window in windows],
        [window.readings for window in windows],
        [int(window.minimum) for window in whole],
        [int(window.maximum - window.minimum) for window in whole],
        [int(window.first - window.minimum) for window in whole],
        [int(window.last - window.minimum) for window in whole],
        [each & low for each in above],
        [each >> _LOW_BITS for each in above],
    ]
    named = [[each.name, each.unit, int(each.kind), each.scale, len(each.windows)] for each in series]
    return [named, *map(columns.written, integers), columns.split_planes(floats.tobytes(), 8)]


def _read_columns(written: bytes, count: int) -> tuple[SummarySeries, ...]:
    named, *integers, planes = cbor.record(cbor.decode(written, MAXIMUM_BATCH_BYTES), "summary", *_COLUMN_READERS)
    if any(before[2] > after[2] for before, after in pairwise(named)):
        raise MalformedError("summary: series out of order")
    of_kind = {kind: sum(series[4] for series in named if series[2] == kind) for kind in Kind}
    whole, doubles = of_kind[Kind.DECIMAL] + of_kind[Kind.BOOLEAN], of_kind[Kind.FLOAT]
    lengths = [len(column) for column in integers]
    if count != sum(of_kind.values()) or lengths != [count] * 3 + [whole] * 6 or len(planes) != 5 * 8 * doubles:
        raise MalformedError("summary: columns of the wrong length")
    first, span, counts, minima, *above = [column.values() for column in integers]
    if (
        min(span) < 0
        or not 1 <= min(counts) <= max(counts) <= MAXIMUM_WINDOW_READINGS
        or min(chain.from_iterable(above), default=0) < 0
    ):
        raise MalformedError("summary: a window is empty, or its values contradict each other")
    times = list(zip(first, (at + more for at, more in zip(first, span, strict=True)), counts, strict=True))
    windows = [*_whole_windows(times[:whole], minima, *above), *_double_windows(times[whole : whole + doubles], planes)]
    windows += [SummaryWindow(*each, 0, 0, 0, 0, 0) for each in times[whole + doubles :]]
    made, at = [], 0
    for name, unit, kind, scale, size in named:
        made.append(SummarySeries(name, unit, Kind(kind), scale, tuple(windows[at : at + size])))
        at += size
    return tuple(made)


_Times = list[tuple[int, int, int]]


def _whole_windows(
    times: _Times,
    minima: list[int],
    spans: list[int],
    firsts: list[int],
    lasts: list[int],
    low: list[int],
    high: list[int],
) -> Iterator[SummaryWindow]:
    for (first_us, last_us, count), minimum, span, first, last, rest, more in zip(
        times, minima, spans, firsts, lasts, low, high, strict=True
    ):
        above = (more << _LOW_BITS) + rest
        if max(first, last) > span or not span <= above <= (count - 1) * span:
            raise MalformedError("summary: the values of a window contradict each other")
        total = count * minimum + above
        yield SummaryWindow(first_us, last_us, count, total, minimum, minimum + span, minimum + first, minimum + last)


def _double_windows(times: _Times, planes: bytes) -> Iterator[SummaryWindow]:
    floats = array("d", columns.join_planes(planes, 8))
    columns.little_endian(floats)
    if not all(map(isfinite, floats)):
        raise MalformedError("a float is not finite")
    size = len(times)
    for place, at in enumerate(times):
        total, minimum, maximum, first, last = floats[place::size]
        if not (minimum <= first <= maximum and minimum <= last <= maximum):
            raise MalformedError("summary: the values of a window contradict each other")
        yield SummaryWindow(*at, total, minimum, maximum, first, last)


def _read_one_series(value: object) -> tuple[str, str, int, int, int]:
    name, unit, kind, scale, windows = cbor.record(value, "series", *_SERIES_READERS)
    if not name or not windows:
        raise MalformedError("a series must have a name and at least one window")
    if scale and kind != Kind.DECIMAL:
        raise MalformedError("only decimals may have a scale")
    return name, unit, kind, scale, windows


_read_numbers = cbor.many(read_range, MAXIMUM_LOSS_RANGES)
_read_column = columns.column_reader(MAXIMUM_SUMMARY_WINDOWS)
_SERIES_READERS = (
    cbor.text(MAXIMUM_NAME_BYTES),
    cbor.text(MAXIMUM_UNIT_BYTES),
    cbor.uint(max(Kind)),
    cbor.uint(MAXIMUM_SCALE),
    cbor.uint(MAXIMUM_SUMMARY_WINDOWS),
)
_COLUMN_READERS = (
    cbor.many(_read_one_series, MAXIMUM_BATCH_SERIES),
    *[_read_column] * 9,
    cbor.octets_to(5 * 8 * MAXIMUM_SUMMARY_WINDOWS),
)
_READERS = (
    cbor.uint(255),
    cbor.octets(BOOT_ID_BYTES),
    cbor.uint(max(ClockKind)),
    cbor.uint(),
    cbor.uint(),
    cbor.uint(MAXIMUM_WINDOW_US),
    cbor.uint(MAXIMUM_SUMMARY_WINDOWS),
    cbor.uint(DEFLATE),
    cbor.uint(MAXIMUM_BATCH_BYTES),
    cbor.octets_to(MAXIMUM_BATCH_BYTES),
)
