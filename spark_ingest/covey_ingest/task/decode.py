"""Telemetry columns to numpy arrays: what `telemetry.Batch.readings()` yields, without a Python loop per reading.

Batches are decoded together, one behind the other in the same arrays, whatever their layouts: so a batch of 100
readings costs little more for each than one of 1,000.

Decides only how bytes become numbers; `telemetry.decoding` has already checked every length.
Readings keep their order, so that a reading's place among those of its batch is its index (docs/protocol/core.md,
"Telemetry"). Values stand in three columns, one behind the other in index order: numbers (decimals, then booleans as 0
and 1, then floats), texts, data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from covey.core.telemetry.batch import EXACT, Batch, Kind, Layout
from covey.errors import MalformedError

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Octets = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]
_Signed = TypeVar("_Signed", np.int8, np.int16, np.int64)
_Any = TypeVar("_Any", bound=np.generic)

_BEYOND = 2**62
"""No honest sum reaches this; `Column.values` has the same bound."""

_SURELY_WITHIN = 0.999 * _BEYOND
"""Magnitudes that add up to less in float64 add up to less than the bound."""
_CONTINUED = 0x80
_SHAPES_HELD = 64


@dataclass(frozen=True, slots=True)
class Values:
    """The values of batches, one batch behind the other."""

    numbers: Doubles
    counts: Integers
    """How many of the numbers each batch has."""
    wholes: list[Integers]
    """Of each batch the numbers that no double holds, and 0 for each other one; empty where there are none."""
    texts: list[tuple[str, ...]]
    data: list[tuple[bytes, ...]]


def varint_integers(columns: Iterable[bytes]) -> Integers:
    """Return the integers of checked columns of varints, one column behind the other."""
    octets = np.frombuffer(b"".join(columns), np.uint8)
    ends = np.flatnonzero(octets < _CONTINUED)
    if len(octets) == len(ends):
        return _unfolded(octets.view(np.int8)).astype(np.int64)
    numbers, before = octets[ends].astype(np.int16), octets[ends - 1]
    several = before >= _CONTINUED
    np.copyto(numbers, numbers << 7 | before & 0x7F, where=several)
    integers = _unfolded(numbers).astype(np.int64)
    if len(octets) > len(ends) + np.count_nonzero(several):
        lengths = np.diff(ends, prepend=-1)
        longer = np.flatnonzero(lengths > 2)
        integers[longer] = _unfolded(_long_numbers(octets, ends[longer], lengths[longer]))
    return integers


def _long_numbers(octets: Octets, ends: Places, lengths: Places) -> Integers:
    """Return the numbers of varints that end there and have so many bytes."""
    numbers = octets[ends].astype(np.int64)
    for back in range(1, int(lengths.max())):
        numbers = np.where(lengths > back, numbers << 7 | octets[ends - back] & 0x7F, numbers)
    return numbers


def _unfolded(numbers: npt.NDArray[_Signed]) -> npt.NDArray[_Signed]:
    """Return the integers of zigzag numbers."""
    signs = numbers & 1
    np.negative(signs, out=signs)
    signs ^= numbers >> 1
    return signs


class BatchesTogether:
    """Batches that are decoded together."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        """Look up their layouts."""
        self._batches = batches
        numbers: dict[int, int] = {}
        places = [numbers.setdefault(id(batch.layout), len(numbers)) for batch in batches]
        firsts = {place: batch.layout for place, batch in zip(reversed(places), reversed(batches), strict=True)}
        self.shapes = [_shape(firsts[place]) for place in range(len(numbers))]
        self.shape_of = np.array(places, np.intp)
        """Which of the shapes each batch has."""
        self.counts = self._each([shape.layout.readings for shape in self.shapes])
        """How many readings each batch has."""

    def times(self) -> Integers:
        """Return the time of each reading, by the clock that its batch names.

        Raises:
            MalformedError: one of 62 bits or more, in any batch.
        """
        written = self._each([shape.layout.times for shape in self.shapes])
        anchors = np.array([batch.anchor_us for batch in self._batches], np.int64)
        steps = _sums(varint_integers([batch.times for batch in self._batches]), written)
        times = _sums(steps, written, anchors)
        if all(shape.layout.times == shape.layout.readings for shape in self.shapes):
            return times
        return times[self._joined([shape.times for shape in self.shapes]) + np.repeat(_begins(written), self.counts)]

    def integers(self) -> Integers:
        """Return the numbers of kinds DECIMAL and BOOLEAN.

        Raises:
            MalformedError: one of 62 bits or more, in any batch.
        """
        differences = varint_integers([batch.numbers for batch in self._batches])
        return _sums(differences, self._joined([shape.lengths for shape in self.shapes]))

    def values(self) -> Values:
        """Return the values.

        Raises:
            MalformedError: see `integers`; or a float is not finite.
        """
        integers = self.integers()
        numbers = integers.astype(np.float64)
        lengths = self._joined([shape.lengths for shape in self.shapes])
        if any(shape.is_scaled for shape in self.shapes):
            numbers /= np.repeat(self._joined([shape.powers for shape in self.shapes]), lengths)
        if any(shape.layout.counts[Kind.BOOLEAN] for shape in self.shapes):
            truths = np.repeat(self._joined([shape.is_boolean for shape in self.shapes]), lengths)
            numbers[truths] = integers[truths] != 0
        counts = self._each([shape.layout.numbers for shape in self.shapes])
        wholes = self._wholes(integers, counts)
        floats = self._each([shape.layout.counts[Kind.FLOAT] for shape in self.shapes])
        if floats.any():
            numbers = _between(numbers, counts, self._floats(), floats)
        texts, data = self._texts()
        return Values(numbers, counts + floats, wholes, texts, data)

    def _each(self, of_shapes: list[int]) -> Integers:
        """Return for each batch what is the same for all of its shape."""
        return np.array(of_shapes, np.int64)[self.shape_of]

    def _joined(self, of_shapes: list[npt.NDArray[_Any]]) -> npt.NDArray[_Any]:
        """Return the array of each batch's shape, one behind the other."""
        return np.concatenate([of_shapes[place] for place in self.shape_of.tolist()])

    def _floats(self) -> Doubles:
        planes = [np.frombuffer(batch.floats, np.uint8).reshape(8, -1).T for batch in self._batches]
        floats: Doubles = np.ascontiguousarray(np.concatenate(planes)).view("<f8")[:, 0]
        if not np.isfinite(floats).all():
            raise MalformedError("a float is not finite")
        return floats

    def _wholes(self, integers: Integers, counts: Integers) -> list[Integers]:
        """Return each batch's decimals that a double may not hold, or nothing; nothing at all if no batch has any."""
        if not len(integers) or _largest(integers) < EXACT:
            return []
        wholes = []
        for place, begin in zip(self.shape_of.tolist(), _begins(counts).tolist(), strict=True):
            shape = self.shapes[place]
            row = integers[begin : begin + shape.layout.counts[Kind.DECIMAL]]
            powers = np.repeat(shape.powers, shape.lengths)[: len(row)]
            large = ((row >= EXACT) | (row <= -EXACT)) & (powers == 1)
            wholes.append(np.where(large, row, 0) if large.any() else row[:0])
        return wholes

    def _texts(self) -> tuple[list[tuple[str, ...]], list[tuple[bytes, ...]]]:
        """Return texts and data of each batch, or nothing if no batch has any."""
        if not any(batch.texts for batch in self._batches):
            return [], []
        texts = [tuple([each for each in batch.texts if isinstance(each, str)]) for batch in self._batches]
        return texts, [tuple([each for each in batch.texts if isinstance(each, bytes)]) for batch in self._batches]


def _begins(lengths: Integers) -> Integers:
    begins: Integers = np.cumsum(lengths) - lengths
    return begins


def _between(some: Doubles, counts: Integers, others: Doubles, other_counts: Integers) -> Doubles:
    """Return so many of some, then so many of others, and so on."""
    is_other = np.repeat(np.tile([False, True], len(counts)), np.stack([counts, other_counts], axis=1).ravel())
    merged = np.empty(len(is_other), np.float64)
    merged[~is_other], merged[is_other] = some, others
    return merged


def _largest(integers: Integers) -> int:
    return max(abs(int(integers.max())), abs(int(integers.min())))


def _sums(differences: Integers, lengths: Integers, first: Integers | None = None) -> Integers:
    """Return the running sums of runs of so many differences, which may begin at `first`.

    All are summed up at once. Where that wraps, differences of two such sums are right all the same.

    Raises:
        MalformedError: a sum of 62 bits or more.
    """
    if not len(differences):
        return differences
    most = _largest(differences) * int(lengths.max()) + (0 if first is None else _largest(first))
    if most >= _BEYOND:
        _check_sums(differences, lengths, first)
    sums = np.cumsum(differences)
    begins = _begins(lengths)
    before = np.where(begins > 0, sums[begins - 1], 0)
    sums += np.repeat(-before if first is None else first - before, lengths)
    return sums


def _check_sums(differences: Integers, lengths: Integers, first: Integers | None) -> None:
    """Check runs one by one whose magnitudes may add up to 62 bits."""
    begins = _begins(lengths)
    firsts = np.zeros(len(lengths), np.int64) if first is None else first
    some = np.flatnonzero(lengths)
    most = np.abs(firsts[some].astype(np.float64))
    most += np.add.reduceat(np.abs(differences.astype(np.float64)), begins[some])
    for run in some[most >= _SURELY_WITHIN].tolist():
        begin, begins_at = int(begins[run]), int(firsts[run])
        run_sums = [*accumulate(differences[begin : begin + int(lengths[run])].tolist(), initial=begins_at)][1:]
        if not -_BEYOND < min(run_sums) <= max(run_sums) < _BEYOND:
            raise MalformedError("column: a sum exceeds 62 bits")


@dataclass(frozen=True, slots=True)
class Shape:
    """What all batches of one layout share: names, and of each reading its series and which written time is its own.

    `lengths`, `powers` (of ten) and `is_boolean` are of the series of numbers.
    """

    layout: Layout
    names: list[str]
    units: list[str]
    series: npt.NDArray[np.int16]
    times: Integers
    lengths: Integers
    powers: Doubles
    is_boolean: npt.NDArray[np.bool_]

    @property
    def is_scaled(self) -> bool:
        """Say whether a number has decimal places."""
        return bool((self.powers != 1).any())

    @property
    def booleans(self) -> tuple[int, int]:
        """The span of the truth values among the numbers."""
        counts = self.layout.counts
        return counts[Kind.DECIMAL], counts[Kind.DECIMAL] + counts[Kind.BOOLEAN]


_shapes: dict[int, Shape] = {}


def _shape(layout: Layout) -> Shape:
    """Return a layout's shape. `KnownLayouts` gives the same object again, so it is looked up by identity."""
    shape = _shapes.get(id(layout))
    if shape is None or shape.layout is not layout:
        if len(_shapes) >= _SHAPES_HELD:
            _shapes.clear()
        shape = _shapes[id(layout)] = _make_shape(layout)
    return shape


def _make_shape(layout: Layout) -> Shape:
    counts = np.array([entry.count for entry in layout.series], np.int64)
    numbers = [entry for entry in layout.series if entry.kind <= Kind.BOOLEAN]
    runs = zip(layout.times_from, counts.tolist(), strict=True)
    return Shape(
        layout,
        [entry.name for entry in layout.series],
        [entry.unit for entry in layout.series],
        np.repeat(np.arange(len(counts), dtype=np.int16), counts),
        np.concatenate([np.empty(0, np.int64), *(np.arange(begin, begin + count) for begin, count in runs)]),
        counts[: len(numbers)],
        np.array([10.0**entry.scale for entry in numbers], np.float64),
        np.array([entry.kind is Kind.BOOLEAN for entry in numbers], np.bool_),
    )
