"""Telemetry columns to numpy arrays: what `telemetry.Batch.readings()` yields, without a Python loop per reading.

Batches that are alike (one layout: what one kind of device sends, hour after hour) are decoded together, as the rows of
matrices, so that a batch of 100 readings costs little more for each than one of 1,000.

Decides only how bytes become numbers; `telemetry.decoding` has already checked every length.
Readings keep their order, so that a reading's place in a row is its index (docs/protocol/core.md, "Telemetry").
Values stand in three columns, one behind the other in index order: numbers (decimals, then booleans as 0 and 1, then
floats), texts, data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

_BEYOND = 2**62
"""No honest sum reaches this; `Column.values` has the same bound."""

_LARGE = 2**48
"""As many smaller differences as a batch may have do not add up to 62 bits."""
_CONTINUED = 0x80
_SHAPES_HELD = 64

_MAY_WRAP = 1.5 * _BEYOND
"""A sum that float64 finds below this lies below 2**63, so that int64 has not wrapped."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of batches that are alike, a row of `numbers` for each."""

    shape: Shape
    numbers: Doubles
    wholes: list[Integers]
    """Of each batch the numbers that no double holds, and 0 for each other one; empty where there are none."""
    texts: list[list[str]]
    data: list[list[bytes]]


def alike(batch: Batch) -> int:
    """Return what batches have in common that can be decoded together. It is good while the batch lives."""
    return id(batch.layout)


def varint_integers(columns: Sequence[bytes], count: int) -> Integers:
    """Return the integers of checked columns of so many varints each: a row for each."""
    if not count:
        return np.empty((len(columns), 0), np.int64)
    octets = np.frombuffer(b"".join(columns), np.uint8)
    if len(octets) == len(columns) * count:  # a byte each
        return _unfolded(octets.view(np.int8)).astype(np.int64).reshape(len(columns), count)
    ends = np.flatnonzero(octets < _CONTINUED)
    numbers, before = octets[ends].astype(np.int16), octets[ends - 1]
    several = before >= _CONTINUED
    np.copyto(numbers, numbers << 7 | before & 0x7F, where=several)
    integers = _unfolded(numbers).astype(np.int64)
    if len(octets) > len(ends) + np.count_nonzero(several):
        lengths = np.diff(ends, prepend=-1)
        longer = np.flatnonzero(lengths > 2)
        integers[longer] = _unfolded(_long_numbers(octets, ends[longer], lengths[longer]))
    return integers.reshape(len(columns), count)


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


def batch_times(batches: Sequence[Batch]) -> Integers:
    """Return the times of batches that are alike, in index order, by the clocks that they name.

    Raises:
        MalformedError: one of 62 bits or more, in any of them.
    """
    shape = _shape(batches[0].layout)
    integers = varint_integers([batch.times for batch in batches], shape.layout.times)
    if not integers.size:
        return integers
    anchors = np.array([batch.anchor_us for batch in batches], np.int64)
    written = _sums(_sums(integers, None), anchors)
    return written if shape.times is None else written[:, shape.times]


def batch_integers(batches: Sequence[Batch]) -> Integers:
    """Return the numbers of kinds DECIMAL and BOOLEAN of batches that are alike.

    Raises:
        MalformedError: one of 62 bits or more, in any of them.
    """
    shape = _shape(batches[0].layout)
    differences = varint_integers([batch.numbers for batch in batches], shape.layout.numbers)
    if not differences.size:
        return differences
    if shape.restarts is None:
        return _sums(differences, None)
    if _largest(differences) >= _LARGE:
        parts = [_sums(part, None) for part in np.split(differences, shape.restarts, axis=1)]
        return np.concatenate(parts, axis=1)
    sums = np.cumsum(differences, axis=1)
    before = sums[:, shape.restarts - 1]
    sums[:, shape.restarts[0] :] -= np.repeat(before, shape.lengths, axis=1)
    return sums


def _largest(integers: Integers) -> int:
    return max(abs(int(integers.max())), abs(int(integers.min())))


def _sums(differences: Integers, first: Integers | None) -> Integers:
    """Return the running sums of each row, from `first` on, where numpy would wrap silently."""
    begins = 0 if first is None else _largest(first)
    within = _largest(differences) * differences.shape[1] + begins < _BEYOND  # however they are arranged
    if not within:
        about = np.cumsum(differences, axis=1, dtype=np.float64)
        if first is not None:
            about += first[:, None]
        if np.abs(about).max() >= _MAY_WRAP:
            raise MalformedError("column: a sum exceeds 62 bits")
    sums = np.cumsum(differences, axis=1)
    if first is not None:
        sums += first[:, None]
    if not within and (sums.max() >= _BEYOND or sums.min() <= -_BEYOND):
        raise MalformedError("column: a sum exceeds 62 bits")
    return sums


def batch_values(batches: Sequence[Batch]) -> Values:
    """Return the values of batches that are alike, in index order.

    Raises:
        MalformedError: see `batch_integers`; or a float is not finite.
    """
    shape = _shape(batches[0].layout)
    counts = batches[0].layout.counts
    decimals, whole = shape.booleans
    numbers = np.empty((len(batches), whole + counts[Kind.FLOAT]), np.float64)
    integers = batch_integers(batches)
    numbers[:, :whole] = integers
    if shape.powers is not None:
        np.divide(numbers[:, :decimals], shape.powers, out=numbers[:, :decimals])
    if counts[Kind.FLOAT]:
        numbers[:, whole:] = _floats([batch.floats for batch in batches])
        if not np.isfinite(numbers[:, whole:]).all():
            raise MalformedError("a float is not finite")
    truths = numbers[:, decimals:whole]
    np.not_equal(truths, 0.0, out=truths)
    texts = counts[Kind.TEXT]
    return Values(
        shape,
        numbers,
        _wholes(integers[:, :decimals], shape.powers),
        [[text for text in batch.texts[:texts] if isinstance(text, str)] for batch in batches],
        [[value for value in batch.texts[texts:] if isinstance(value, bytes)] for batch in batches],
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What all batches of one layout share: each reading's series, each decimal's power of ten.

    `booleans` is the span of the truth values among the numbers. `times` says for each reading which of the written
    times is its own; None: one for each. Numbers begin again at `restarts`, one for each series of numbers but the
    first, which have so many `lengths`; None: there is one at most.
    """

    layout: Layout
    names: list[str]
    units: list[str]
    series: npt.NDArray[np.int16]
    powers: Doubles | None
    booleans: tuple[int, int]
    times: npt.NDArray[np.intp] | None
    restarts: npt.NDArray[np.intp] | None
    lengths: list[int]


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
    counts = [entry.count for entry in layout.series]
    scaled = [entry for entry in layout.series if entry.kind is Kind.DECIMAL]
    powers = np.repeat([10.0**entry.scale for entry in scaled], [entry.count for entry in scaled]) if scaled else None
    decimals = layout.counts[Kind.DECIMAL]
    lengths = [entry.count for entry in layout.series if entry.kind <= Kind.BOOLEAN]
    restarts = np.cumsum(lengths[:-1]) if len(lengths) > 1 else None
    times = None
    if layout.times != layout.readings:
        runs = zip(layout.times_from, counts, strict=True)
        times = np.concatenate([np.arange(begin, begin + count) for begin, count in runs])
    return Shape(
        layout,
        [entry.name for entry in layout.series],
        [entry.unit for entry in layout.series],
        np.repeat(np.arange(len(counts), dtype=np.int16), counts) if counts else np.empty(0, np.int16),
        powers if any(entry.scale for entry in scaled) else None,
        (decimals, decimals + layout.counts[Kind.BOOLEAN]),
        times,
        restarts,
        lengths[1:],
    )


def _wholes(integers: Integers, powers: Doubles | None) -> list[Integers]:
    """Return each row's integers that a double may not hold, or nothing."""
    none = np.empty(0, np.int64)
    if not integers.size or (integers.max() < EXACT and integers.min() > -EXACT):
        return [none] * len(integers)
    large = (integers >= EXACT) | (integers <= -EXACT)
    if powers is not None:
        large &= powers == 1
    return [np.where(of, row, 0) if of.any() else none for row, of in zip(integers, large, strict=True)]


def _floats(planes: Sequence[bytes]) -> Doubles:
    transposed = np.frombuffer(b"".join(planes), np.uint8).reshape(len(planes), 8, -1)
    return np.ascontiguousarray(transposed.transpose(0, 2, 1)).view("<f8")[:, :, 0]
