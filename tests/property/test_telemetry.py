"""Any readings come back exactly; any damage is a `RemoteError`."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Value
from covey.core.telemetry.decoding import read_batch
from covey.errors import ReadingError, RemoteError

_LATEST_US = 2**59 - 1
names = st.sampled_from(["a", "b", "urn:dev:x:temperature"]) | st.text(
    st.characters(codec="utf-8"), min_size=1, max_size=20
)
units = st.sampled_from(["", "Cel", "%RH"])
decimals = st.builds(lambda number, scale: number / 10**scale, st.integers(-(10**12), 10**12), st.integers(0, 9))
numbers = (
    decimals
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**53), 2**53)
    | st.integers(-(2**64), 2**64).map(float)
)
values = numbers | st.booleans() | st.text(st.characters(codec="utf-8"), max_size=20) | st.binary(max_size=20)
times = st.integers(0, _LATEST_US) | st.integers(1_790_000_000_000_000, 1_790_000_060_000_000)
Row = tuple[str, str, int, Value]
rows = st.lists(st.tuples(names, units, times, values), max_size=40)
clocks = st.builds(
    ClockReading,
    st.binary(min_size=8, max_size=8),
    st.integers(0, 2**60),
    st.integers(0, 2**60),
    st.sampled_from(ClockKind),
)


def _body(readings: list[Row], clock: ClockReading) -> bytes:
    builder = BatchBuilder()
    for reading in readings:
        builder.add(*reading)
    return builder.body(clock)


def _plain(reading: Row) -> tuple[str, str, int, type, str | bytes]:
    """A reading as it must come back: numbers are doubles, and -0.0 is 0.0."""
    name, unit, time_us, value = reading
    if isinstance(value, bool | str | bytes):
        return name, unit, time_us, type(value), value if isinstance(value, bytes) else str(value)
    return name, unit, time_us, float, (float(value) + 0.0).hex()


def _without_signed_zero(reading: Row) -> Row:
    return (*reading[:3], 0.0) if type(reading[3]) is float and reading[3] == 0 else reading


@given(rows, clocks)
@example([("x", "", 0, -0.0), ("x", "", 0, 0.1)], ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED))
@example([("x", "", 0, 2.0**53), ("x", "", 0, 1.0)], ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED))
@example([("x", "", 0, 2**53 + 1), ("x", "", 0, 1.0)], ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED))
@example([("x", "", 0, 0.1 + 0.2)], ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED))
def test_readings_come_back_exactly(readings: list[Row], clock: ClockReading) -> None:
    batch = read_batch(_body(readings, clock))
    assert batch.clock == clock
    offset = 0 if clock.kind is ClockKind.ASSERTED else clock.wall_us - clock.monotonic_us
    expected = [(name, unit, time_us + offset, value) for name, unit, time_us, value in readings]
    back = [_without_signed_zero(reading) for reading in batch.readings()]
    assert Counter(map(_plain, back)) == Counter(map(_plain, expected))


def _kind(value: Value) -> type:
    return float if type(value) is int else type(value)


@given(rows)
def test_readings_of_one_series_keep_their_order(readings: list[Row]) -> None:
    back = list(read_batch(_body(readings, ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED))).readings())
    for name, unit, kind in {(name, unit, _kind(value)) for name, unit, _, value in back}:
        sent = [
            time_us
            for name_sent, unit_sent, time_us, value in readings
            if (name_sent, unit_sent) == (name, unit) and _kind(value) is kind
        ]
        assert [row[2] for row in back if (row[0], row[1], _kind(row[3])) == (name, unit, kind)] == sent


@given(rows)
def test_a_body_is_always_the_same(readings: list[Row]) -> None:
    clock = ClockReading(bytes(8), 1, 2, ClockKind.SYNCHRONISED)
    assert _body(readings, clock) == _body(readings, clock)


@given(rows.filter(bool), clocks, st.data())
def test_damage_is_a_remote_error_or_another_batch(
    readings: list[Row], clock: ClockReading, data: st.DataObject
) -> None:
    body = bytearray(_body(readings, clock))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RemoteError):
        batch = read_batch(bytes(body))
        assert len(list(batch.readings())) == batch.count


@given(st.text(), st.text(), st.integers() | st.integers(0, 10), st.floats() | st.integers() | st.text() | st.binary())
def test_a_reader_returns_what_a_builder_accepted(name: str, unit: str, time_us: int, value: Value) -> None:
    builder = BatchBuilder()
    clock = ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED)
    try:
        builder.add(name, unit, time_us, value)
    except ReadingError:
        assert builder.count == 0
    assert len(list(read_batch(builder.body(clock)).readings())) == builder.count


@pytest.mark.parametrize("scale", range(10))
def test_every_scale_divides_back(scale: int) -> None:
    clock = ClockReading(bytes(8), 0, 0, ClockKind.ASSERTED)
    sent = [number / 10**scale for number in range(-3_000, 3_000, 7)]
    back = read_batch(_body([("x", "", 0, value) for value in sent], clock))
    assert [row[3] for row in back.readings()] == sent
    assert back.series[0].scale <= scale
