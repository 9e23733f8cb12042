"""The numpy decoder says what the pure Python one says; damaged bodies give a value or a `RemoteError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

pytest.importorskip("numpy", reason="the spark extra is not installed")
pytest.importorskip("pyarrow", reason="the spark extra is not installed")

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
from covey_ingest.task.decode import alike, batch_integers, batch_times, batch_values, varint_integers

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
    for place, times in enumerate(batch_times(batches).tolist()):
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
    groups: dict[int, list[Batch]] = {}
    for batch in batches:
        groups.setdefault(alike(batch), []).append(batch)
    for group in groups.values():
        assert _decoded(group) == [list(batch.readings()) for batch in group]


@given(st.lists(st.integers(-(2**62), 2**62 - 1)))
def test_varints_come_out_as_they_went_in(integers: list[int]) -> None:
    raw = write_varints(integers)
    check_varints(raw, len(integers))
    assert read_varints(raw) == varint_integers([raw], len(integers))[0].tolist() == integers


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
    for by_numpy, alone in ((batch_times, batch.taken_us), (batch_integers, batch.integers)):
        assert _tried(lambda decode=by_numpy: decode([batch])[0].tolist()) == _tried(alone)


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
        (times,) = batch_times([batch])
        assert len(batch_values([batch]).shape.series) == len(times) == batch.count
    except RemoteError:
        pass
