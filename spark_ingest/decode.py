"""Telemetry columns to numpy arrays: what `telemetry.Batch.readings()` yields, without a Python loop per reading.

Decides only how bytes become numbers; `telemetry_reading.read_batch` has already checked every length.
Readings keep their order, so that a reading's place in the arrays is its index (docs/protocol.md, "Telemetry").
Values stand in three columns, one behind the other in index order: numbers (decimals, then booleans as 0 and 1, then
floats), texts, data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agent.core.telemetry import Batch, Column, Kind, Layout
from agent.errors import MalformedError

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_BEYOND = 2**62
"""No honest sum reaches this; `Column.values` has the same bound."""

_SHAPES_HELD = 64

_MAY_WRAP = 1.5 * _BEYOND
"""A sum that float64 finds below this lies below 2**63, so that int64 has not wrapped."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one batch; `series` gives each reading's series, `booleans` the span of the truth values."""

    series: npt.NDArray[np.int16]
    numbers: Doubles
    booleans: tuple[int, int]
    texts: list[str]
    data: list[bytes]


def column_integers(column: Column) -> Integers:
    """Undo transposition and differences.

    Raises:
        MalformedError: a sum of 62 bits or more.
    """
    count = len(column)
    planes = np.frombuffer(column.planes, np.uint8).reshape(column.width, count)
    differences = np.ascontiguousarray(planes.T).view(f"<i{column.width}").ravel()
    if not count:
        return differences.astype(np.int64)
    if column.width == 8 or abs(column.first) >= _BEYOND // 2:
        _check_sums(differences, column.first)
    integers = np.cumsum(differences, dtype=np.int64)
    integers += column.first
    return integers


def _check_sums(differences: npt.NDArray[np.signedinteger[Any]], first: int) -> None:
    """Refuse sums beyond 62 bits, where numpy would wrap silently; narrower columns cannot have them."""
    sums = np.cumsum(differences, dtype=np.float64) + first
    if np.abs(sums).max() < _MAY_WRAP:
        exact = np.cumsum(differences, dtype=np.int64) + first
        if exact.max() < _BEYOND and exact.min() > -_BEYOND:
            return
    raise MalformedError("column: a sum beyond 62 bits")


def batch_values(batch: Batch) -> Values:
    """Return a batch's values as arrays in index order.

    Raises:
        MalformedError: see `column_integers`.
    """
    counts = batch.layout.counts
    decimals, booleans = counts[Kind.DECIMAL], counts[Kind.BOOLEAN]
    shape = _shape(batch.layout)
    numbers = np.empty(decimals + booleans + counts[Kind.FLOAT], np.float64)
    numbers[: decimals + booleans] = column_integers(batch.numbers)
    if shape.powers is not None:
        np.divide(numbers[:decimals], shape.powers, out=numbers[:decimals])
    if batch.floats:
        numbers[decimals + booleans :] = _floats(batch.floats)
    truths = numbers[decimals : decimals + booleans]
    np.not_equal(truths, 0.0, out=truths)
    texts = counts[Kind.TEXT]
    return Values(
        series=shape.series,
        numbers=numbers,
        booleans=(decimals, decimals + booleans),
        texts=[text for text in batch.texts[:texts] if isinstance(text, str)],
        data=[value for value in batch.texts[texts:] if isinstance(value, bytes)],
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """What all batches of one layout share: each reading's series, each decimal's power of ten."""

    layout: Layout
    series: npt.NDArray[np.int16]
    powers: Doubles | None


_shapes: dict[int, _Shape] = {}


def _shape(layout: Layout) -> _Shape:
    """Return a layout's shape. `KnownLayouts` gives the same object again, so it is looked up by identity."""
    shape = _shapes.get(id(layout))
    if shape is None or shape.layout is not layout:
        if len(_shapes) >= _SHAPES_HELD:
            _shapes.clear()
        shape = _shapes[id(layout)] = _make_shape(layout)
    return shape


def _make_shape(layout: Layout) -> _Shape:
    counts = [entry.count for entry in layout.series]
    series = np.repeat(np.arange(len(counts), dtype=np.int16), counts) if counts else np.empty(0, np.int16)
    scaled = [entry for entry in layout.series if entry.kind is Kind.DECIMAL]
    if not any(entry.scale for entry in scaled):
        return _Shape(layout, series, None)
    powers = np.array([10.0**entry.scale for entry in scaled])
    return _Shape(layout, series, np.repeat(powers, [entry.count for entry in scaled]))


def _floats(planes: bytes) -> Doubles:
    transposed = np.frombuffer(planes, np.uint8).reshape(8, -1).T
    return np.ascontiguousarray(transposed).view("<f8").ravel()
