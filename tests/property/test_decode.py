"""The numpy decoder says what the pure Python one says; damaged bodies give a value or a `RemoteError`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("numpy", reason="the spark extra is not installed")
pytest.importorskip("pyarrow", reason="the spark extra is not installed")

from hypothesis import given
from hypothesis import strategies as st

from agent.core.telemetry import Batch, BatchBuilder, ClockKind, ClockReading, Column, Value
from agent.core.telemetry_reading import read_batch
from agent.errors import MalformedError, RemoteError
from spark_ingest.decode import batch_values, column_integers

CLOCK = ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED)
values = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.builds(lambda number, scale: number / 10**scale, st.integers(-(10**9), 10**9), st.integers(0, 9))
    | st.booleans()
    | st.text(st.characters(codec="utf-8"), max_size=9)
    | st.binary(max_size=9)
)
rows = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "Cel"]), st.integers(0, 2**59 - 1), values), max_size=50
)


def _decoded(batch: Batch) -> list[tuple[str, str, int, Value]]:
    """Put numpy's columns together again, the way that the tables' SQL does."""
    decoded = batch_values(batch)
    first, until = decoded.booleans
    joined: list[Value] = [
        bool(number) if first <= index < until else number for index, number in enumerate(decoded.numbers.tolist())
    ]
    joined += [*decoded.texts, *decoded.data]
    times = column_integers(batch.times).tolist()
    series = [batch.series[index] for index in decoded.series.tolist()]
    return [(entry.name, entry.unit, time, value) for entry, time, value in zip(series, times, joined, strict=True)]


@given(rows)
def test_both_decoders_agree(given_rows: list[tuple[str, str, int, Value]]) -> None:
    builder = BatchBuilder()
    for row in given_rows:
        builder.add(*row)
    batch = read_batch(builder.body(CLOCK))
    expected = list(batch.readings())
    assert _decoded(batch) == expected
    assert [type(row[3]) for row in _decoded(batch)] == [type(row[3]) for row in expected]


@given(st.sampled_from([1, 2, 4, 8]), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=64))
def test_any_column_gives_the_same_integers_or_is_refused(width: int, first: int, planes: bytes) -> None:
    column = Column(first, width, planes[: len(planes) // width * width])
    assert _tried(lambda: column_integers(column).tolist()) == _tried(column.values)


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
        assert len(batch_values(batch).series) == len(column_integers(batch.times)) == batch.count
    except RemoteError:
        pass
