"""The numpy decoder says what the pure Python one says; damaged bodies give a value or a `RemoteError`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("numpy", reason="the spark extra is not installed")
pytest.importorskip("pyarrow", reason="the spark extra is not installed")

from hypothesis import given
from hypothesis import strategies as st

from covey.core.telemetry.batch import Batch, BatchBuilder, ClockKind, ClockReading, Value, numbered
from covey.core.telemetry.decoding import KnownLayouts, read_batch, read_telemetry
from covey.core.wire.columns import Column
from covey.errors import MalformedError, RemoteError
from covey_ingest.task.decode import alike, batch_values, column_integers

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
    decoded = batch_values(batches)
    shape = decoded.shape
    first, until = shape.booleans
    rows = []
    for place, times in enumerate(column_integers([batch.times for batch in batches]).tolist()):
        numbers, wholes = decoded.numbers[place].tolist(), decoded.wholes[place].tolist()
        numbers[: len(wholes)] = [whole or number for whole, number in zip(wholes, numbers, strict=False)]
        joined: list[Value] = [
            bool(number) if first <= index < until else number for index, number in enumerate(numbers)
        ]
        joined += [*decoded.texts[place], *decoded.data[place]]
        names = [(shape.names[series], shape.units[series]) for series in shape.series.tolist()]
        rows.append([(*name, time, value) for name, time, value in zip(names, times, joined, strict=True)])
    return rows


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


@given(rows, st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 2**50)), min_size=2, max_size=5))
def test_batches_that_are_alike_say_together_what_each_says(
    given_rows: list[tuple[str, str, int, Value]], moves: list[tuple[int, int]]
) -> None:
    batches: list[Batch] = []
    known = KnownLayouts()
    for value_moved, time_moved in moves:
        builder = BatchBuilder()
        for name, unit, time, value in given_rows:
            moved = value + value_moved if type(value) is float and abs(value) < 10**9 else value
            builder.add(name, unit, min(time + time_moved, 2**59 - 1), moved)
        batches.append(read_telemetry(numbered(1, builder.body(CLOCK)), known)[1])
    groups: dict[tuple[int, int, int], list[Batch]] = {}
    for batch in batches:
        groups.setdefault(alike(batch), []).append(batch)
    for group in groups.values():
        assert _decoded(group) == [list(batch.readings()) for batch in group]


@given(st.sampled_from([1, 2, 4, 8]), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=64))
def test_any_column_gives_the_same_integers_or_is_refused(width: int, first: int, planes: bytes) -> None:
    column = Column(first, width, planes[: len(planes) // width * width])
    assert _tried(lambda: list(column_integers([column])[0])) == _tried(column.values)


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
        (times,) = column_integers([batch.times])
        assert len(batch_values([batch]).shape.series) == len(times) == batch.count
    except RemoteError:
        pass
