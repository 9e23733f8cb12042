"""The numpy decoder says what the pure Python one says; damaged bodies give a value or a `RemoteError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("numpy", reason="the spark extra is not installed")
pytest.importorskip("pyarrow", reason="the spark extra is not installed")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from covey.core.telemetry.batch import (
    Batch,
    BatchBuilder,
    ClockKind,
    ClockReading,
    Kind,
    Layout,
    Series,
    Value,
    numbered,
)
from covey.core.telemetry.decoding import KnownLayouts, read_batch, read_telemetry
from covey.core.wire.varints import check_varints, read_varints, write_varints
from covey.errors import MalformedError, RemoteError
from covey_ingest.task.decode import BatchesTogether, Integers, varint_integers

CLOCK = ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED)
values = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(lambda number, scale: number / 10**scale, st.integers(-(10**9), 10**9), st.integers(0, 9))
    | st.integers(-(2**62), 2**62)
    | st.booleans()
    | st.text(st.characters(codec="utf-8"), max_size=9)
    | st.binary(max_size=9)
)
rows = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "Cel"]), st.integers(0, 2**59 - 1), values), max_size=50
)


def _decoded(batches: list[Batch]) -> list[list[tuple[str, str, int, Value]]]:
    """Put numpy's columns together again, the way that the tables' SQL does."""
    together = BatchesTogether(batches)
    values, times = together.values(), _cut(together.times(), together.counts)
    found = _cut(values.numbers, values.counts)
    rows = []
    for place, shape in enumerate(together.shapes[each] for each in together.shape_of.tolist()):
        first, until = shape.booleans
        numbers, wholes = found[place], values.wholes[place].tolist() if values.wholes else []
        numbers[: len(wholes)] = [whole or number for whole, number in zip(wholes, numbers, strict=False)]
        joined: list[Value] = [
            bool(number) if first <= index < until else number for index, number in enumerate(numbers)
        ]
        joined += [*values.texts[place], *values.data[place]] if values.texts else []
        names = [(shape.names[series], shape.units[series]) for series in shape.series.tolist()]
        rows.append([(*name, time, value) for name, time, value in zip(names, times[place], joined, strict=True)])
    return rows


def _cut(column: Any, counts: Integers) -> list[list[Any]]:
    """Divide a column into what each batch has of it."""
    return [part.tolist() for part in np.split(column, np.cumsum(counts))[:-1]]


@pytest.mark.slow
@given(rows)
def test_both_decoders_agree(given_rows: list[tuple[str, str, int, Value]]) -> None:
    builder = BatchBuilder()
    for row in given_rows:
        builder.add(*row)
    batch = read_batch(builder.body(CLOCK))
    expected = list(batch.readings())
    (decoded,) = _decoded([batch])
    assert decoded == expected
    assert [type(row[3]) for row in decoded] == [type(row[3]) for row in expected]


@given(rows, rows, st.lists(st.tuples(st.booleans(), st.integers(-(10**6), 10**6), st.integers(0, 2**50)), max_size=5))
def test_batches_say_together_what_each_says(
    some: list[tuple[str, str, int, Value]],
    others: list[tuple[str, str, int, Value]],
    moves: list[tuple[bool, int, int]],
) -> None:
    """Whatever their layouts are: some share one, some have none of its kinds, some are empty."""
    batches: list[Batch] = []
    known = KnownLayouts()
    for is_other, value_moved, time_moved in [(False, 0, 0), (True, 0, 0), *moves]:
        builder = BatchBuilder()
        for name, unit, time, value in others if is_other else some:
            moved = value + value_moved if type(value) is float and abs(value) < 10**9 else value
            builder.add(name, unit, min(time + time_moved, 2**59 - 1), moved)
        batches.append(read_telemetry(numbered(1, builder.body(CLOCK)), known)[1])
    assert _decoded(batches) == [list(batch.readings()) for batch in batches]


@given(st.lists(st.integers(-(2**62), 2**62 - 1)))
def test_varints_come_out_as_they_went_in(integers: list[int]) -> None:
    raw = write_varints(integers)
    check_varints(raw, len(integers))
    assert read_varints(raw) == varint_integers([raw]).tolist() == integers


@given(st.binary(max_size=32))
def test_any_varints_that_are_let_through_have_one_form(raw: bytes) -> None:
    count = sum(byte < 0x80 for byte in raw)
    try:
        check_varints(raw, count)
    except MalformedError:
        return
    assert write_varints(read_varints(raw)) == raw


@given(st.integers(0, 2**59 - 1), st.lists(st.tuples(st.sampled_from("ab"), st.integers(-(2**61) + 1, 2**61 - 1))))
def test_both_decoders_agree_on_large_numbers(time: int, numbers: list[tuple[str, int]]) -> None:
    builder = BatchBuilder()
    for name, number in numbers:
        builder.add(name, "", time, number)
    batch = read_batch(builder.body(CLOCK))
    assert _decoded([batch]) == [list(batch.readings())]


@given(st.lists(st.integers(-(2**62), 2**62 - 1), min_size=1, max_size=9), st.integers(0, 2**63 - 1))
def test_any_times_are_the_same_or_refused_by_both(integers: list[int], wall_us: int) -> None:
    raw = write_varints(integers)
    series = Series("t", "", Kind.DECIMAL, 0, len(integers))
    counts = dict.fromkeys(Kind, 0) | {Kind.DECIMAL: len(integers)}
    layout = Layout((series,), counts, (0,), len(integers))
    batch = Batch(replace(CLOCK, wall_us=wall_us), layout, raw, raw, b"", ())
    small = write_varints([1] * len(integers))
    neighbour = Batch(CLOCK, layout, small, small, b"", ())
    for decode, alone in ((BatchesTogether.times, Batch.taken_us), (BatchesTogether.integers, Batch.integers)):
        expected = _tried(lambda alone=alone: alone(batch))
        assert _tried(lambda decode=decode: decode(BatchesTogether([batch])).tolist()) == expected
        together = _tried(lambda decode=decode: decode(BatchesTogether([neighbour, batch, neighbour])).tolist())
        beside = alone(neighbour)
        assert together == ([*beside, *expected, *beside] if isinstance(expected, list) else expected)


def _tried(decode: Callable[[], list[int]]) -> list[int] | type[MalformedError]:
    try:
        return decode()
    except MalformedError as error:
        return type(error)


@given(rows, st.integers(0, 400), st.integers(1, 255))
def test_a_flipped_byte_gives_a_value_or_a_remote_error(
    given_rows: list[tuple[str, str, int, Value]], position: int, flip: int
) -> None:
    builder = BatchBuilder()
    for row in given_rows:
        builder.add(*row)
    body = bytearray(builder.body(CLOCK))
    body[position % len(body)] ^= flip
    try:
        batch = read_batch(bytes(body))
        decoded = BatchesTogether([batch])
        decoded.values()
        assert len(decoded.shapes[0].series) == len(decoded.times()) == batch.count
    except RemoteError:
        pass
