"""Telemetry columns to numpy arrays: what `telemetry.Batch.readings()` yields, without a Python loop per reading.

Batches that are alike (one layout, equal widths: what one kind of device sends, hour after hour) are decoded together,
as the rows of matrices, so that a batch of 100 readings costs little more for each than one of 1,000.

Decides only how bytes become numbers; `telemetry_reading` has already checked every length.
Readings keep their order, so that a reading's place in a row is its index (docs/protocol/core.md, "Telemetry").
Values stand in three columns, one behind the other in index order: numbers (decimals, then booleans as 0 and 1, then
floats), texts, data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from covey.core.telemetry.batch import EXACT, Batch, Kind, Layout
from covey.core.wire.columns import Column
from covey.errors import MalformedError

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_BEYOND = 2**62
"""No honest sum reaches this; `Column.values` has the same bound."""

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


def alike(batch: Batch) -> tuple[int, int, int]:
    """Return what batches have in common that can be decoded together. It is good while the batch lives."""
    return id(batch.layout), batch.times.width, batch.numbers.width


def column_integers(columns: Sequence[Column]) -> Integers:
    """Undo transposition and differences of columns of one width and length: a row for each.

    Raises:
        MalformedError: a sum of 62 bits or more, in any of them.
    """
    width, count = columns[0].width, len(columns[0])
    if not count:
        return np.empty((len(columns), 0), np.int64)
    joined = b"".join([column.planes for column in columns])
    planes = np.frombuffer(joined, np.uint8).reshape(len(columns), width, count)
    unsigned = planes[:, 0].astype(f"u{width}")
    for plane in range(1, width):
        unsigned |= planes[:, plane].astype(unsigned.dtype) << unsigned.dtype.type(8 * plane)
    differences = unsigned.view(f"i{width}")
    if width == 8 or any(abs(column.first) >= _BEYOND // 2 for column in columns):
        _check_sums(differences, columns)
    integers = differences.astype(np.int64)
    integers[:, 0] += np.array([column.first for column in columns], np.int64)
    return np.cumsum(integers, axis=1, out=integers)


def _check_sums(differences: npt.NDArray[np.signedinteger[Any]], columns: Sequence[Column]) -> None:
    """Refuse sums beyond 62 bits, where numpy would wrap silently; narrower columns cannot have them."""
    for row, column in zip(differences, columns, strict=True):
        sums = np.cumsum(row, dtype=np.float64) + column.first
        if np.abs(sums).max() >= _MAY_WRAP:
            raise MalformedError("column: a sum exceeds 62 bits")
        exact = np.cumsum(row, dtype=np.int64) + column.first
        if exact.max() >= _BEYOND or exact.min() <= -_BEYOND:
            raise MalformedError("column: a sum exceeds 62 bits")


def batch_values(batches: Sequence[Batch]) -> Values:
    """Return the values of batches that are alike, in index order.

    Raises:
        MalformedError: see `column_integers`; or a float is not finite.
    """
    shape = _shape(batches[0].layout)
    counts = batches[0].layout.counts
    decimals, whole = shape.booleans
    numbers = np.empty((len(batches), whole + counts[Kind.FLOAT]), np.float64)
    integers = column_integers([batch.numbers for batch in batches])
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

    `booleans` is the span of the truth values among the numbers.
    """

    layout: Layout
    names: list[str]
    units: list[str]
    series: npt.NDArray[np.int16]
    powers: Doubles | None
    booleans: tuple[int, int]


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
    return Shape(
        layout,
        [entry.name for entry in layout.series],
        [entry.unit for entry in layout.series],
        np.repeat(np.arange(len(counts), dtype=np.int16), counts) if counts else np.empty(0, np.int16),
        powers if any(entry.scale for entry in scaled) else None,
        (decimals, decimals + layout.counts[Kind.BOOLEAN]),
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
