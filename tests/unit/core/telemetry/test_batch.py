"""`covey.core.telemetry.batch`: batches by the vectors, bounds, and what a builder refuses."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from covey.core.telemetry.batch import (
    EXACT,
    BatchBuilder,
    ClockKind,
    ClockReading,
    Kind,
    Value,
    alarm_of,
    numbered,
    split_number,
)
from covey.core.telemetry.decoding import read_batch, read_telemetry
from covey.core.wire.columns import Column
from covey.errors import LimitError, MalformedError, ReadingError, RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from covey.limits.telemetry import (
    MAXIMUM_BATCH_BYTES,
    MAXIMUM_BATCH_READINGS,
    MAXIMUM_BATCH_SERIES,
    MAXIMUM_TEXT_VALUE_BYTES,
)
from tests.vectors import from_json, to_json, vectors

_CLOCK = ClockReading(bytes(8), 1_000_000, 1_790_000_000_000_000, ClockKind.SYNCHRONISED)


def _clock(vector: dict[str, Any]) -> ClockReading:
    clock = vector["clock"]
    return ClockReading(
        bytes.fromhex(clock["boot_id"]), clock["monotonic_us"], clock["wall_us"], ClockKind(clock["kind"])
    )


@pytest.mark.parametrize("vector", vectors("telemetry"))
def test_vectors(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            read_telemetry(body)
        assert caught.value.code == vector["code"]
        return
    number, batch = read_telemetry(body)
    assert number == vector["number"]
    assert batch.alarm == (vector["alarm"] or None)
    if body[0] == 0x82 or alarm_of(body) is not None:  # as this device writes it
        assert numbered(*split_number(body), alarm_of(body)) == body
        assert replace(read_batch(split_number(body)[1]), alarm=batch.alarm) == batch
    assert batch.clock == _clock(vector)
    series = [[each.name, each.unit, int(each.kind), each.scale, each.count] for each in batch.series]
    assert series == vector["series"]
    decoded, expected = from_json(to_json(list(batch.readings()))), from_json(vector["decoded"])
    assert decoded == expected
    assert [type(row[3]) for row in decoded] == [type(row[3]) for row in expected]
    assert len(decoded) == batch.count


@pytest.mark.parametrize("vector", [each for each in vectors("telemetry") if "readings" in each.values[0]])
def test_a_batch_returns_its_readings(vector: dict[str, Any]) -> None:
    builder = BatchBuilder()
    rows = from_json(vector["readings"])
    for row in rows:
        builder.add(*row)
    batch = read_batch(builder.body(_clock(vector)))
    offset = 0 if batch.clock.kind is ClockKind.ASSERTED else batch.clock.wall_us - batch.clock.monotonic_us
    expected = [(name, unit, time_us + offset, value) for name, unit, time_us, value in rows]
    assert sorted(map(repr, batch.readings())) == sorted(
        repr((name, unit, time, float(value) if type(value) is int and abs(value) < EXACT else value))
        for name, unit, time, value in expected
    )


def _packed(*readings: Value) -> tuple[Kind, int]:
    builder = BatchBuilder()
    for value in readings:
        builder.add("x", "", 0, value)
    series = read_batch(builder.body(_CLOCK)).series[0]
    return series.kind, series.scale


def test_numbers_travel_in_the_shortest_exact_way() -> None:
    assert _packed(1, 2.0, -3) == (Kind.DECIMAL, 0)
    assert _packed(0.5, 21.25) == (Kind.DECIMAL, 2)
    assert _packed(1e-9) == (Kind.DECIMAL, 9)
    assert _packed(1e-10) == (Kind.FLOAT, 0)
    assert _packed(0.5, math.pi) == (Kind.FLOAT, 0)
    assert _packed(2**53 - 1) == (Kind.DECIMAL, 0)
    assert _packed(2**53 + 1, 1.0) == _packed(2.0**60) == _packed(1 - 2**61) == (Kind.DECIMAL, 0)
    assert _packed(2**53 + 1, 0.5) == _packed(2**61) == (Kind.FLOAT, 0)
    assert _packed(2.0**51 + 0.5) == (Kind.FLOAT, 0), "its tenths have more than 53 bits"
    assert _packed(-0.0) == (Kind.DECIMAL, 0), "negative zero travels as zero"


def test_a_counter_comes_out_as_it_went_in() -> None:
    builder = BatchBuilder()
    taken = [0, 2**53 - 1, 2**53 + 1, 2**61 - 1, 1 - 2**61]
    for number in taken:
        builder.add("bytes", "B", number & 1, number)
    assert [value for *_, value in read_batch(builder.body(_CLOCK)).readings()] == taken


@pytest.mark.parametrize(
    ("name", "unit", "time_us", "value"),
    [
        ("", "", 0, 1.0),
        ("x" * 129, "", 0, 1.0),
        ("\u00fc" * 65, "", 0, 1.0),
        ("x", "u" * 33, 0, 1.0),
        ("x\ud800", "", 0, 1.0),
        ("x", "\ud800", 0, 1.0),
        ("x", "", -1, 1.0),
        ("x", "", 2**59, 1.0),
        ("x", "", 0, math.nan),
        ("x", "", 0, math.inf),
        ("x", "", 0, -math.inf),
        ("x", "", 0, 10**400),
        ("x", "", 0, "t" * (MAXIMUM_TEXT_VALUE_BYTES + 1)),
        ("x", "", 0, "\ud800"),
        ("x", "", 0, bytes(MAXIMUM_TEXT_VALUE_BYTES + 1)),
        ("x", "", 0, None),
        ("x", "", 0, [1]),
        ("x", "", 0, 1j),
    ],
)
def test_an_unstorable_reading_is_refused(name: str, unit: str, time_us: int, value: Any) -> None:
    builder = BatchBuilder()
    with pytest.raises(ReadingError):
        builder.add(name, unit, time_us, value)
    assert builder.count == 0
    assert read_batch(builder.body(_CLOCK)).count == 0


def test_a_body_stays_until_it_is_cleared() -> None:
    builder = BatchBuilder()
    builder.add("x", "", 0, 1.0)
    assert builder.body(_CLOCK) == builder.body(_CLOCK)
    builder.clear()
    assert builder.count == 0
    assert read_batch(builder.body(_CLOCK)).count == 0


@pytest.mark.parametrize("shape", ["floats", "texts", "data", "series", "long texts"])
def test_a_builder_is_full_before_its_batch_is_too_large(shape: str) -> None:
    builder = BatchBuilder()
    while not builder.full:
        number = builder.count
        name, unit = (f"{number:05}" * 25, "u" * 32) if shape == "series" else ("x", "")
        kinds: dict[str, Value] = {
            "texts": f"{number}",
            "data": bytes(1),
            "long texts": chr(0x20AC) * (MAXIMUM_TEXT_VALUE_BYTES // 3),
        }
        value = kinds.get(shape, math.sin(number) * 1e300)
        builder.add(name, unit, (number * 2_654_435_761 * 2**27) % 2**59, value)
    body = builder.body(_CLOCK)
    assert len(body) <= MAXIMUM_MESSAGE_BYTES
    batch = read_batch(body)
    assert batch.count == builder.count <= MAXIMUM_BATCH_READINGS
    assert len(batch.series) <= MAXIMUM_BATCH_SERIES


def test_a_bomb_is_not_inflated() -> None:  # accepts: 003.84
    bomb = next(each.values[0] for each in vectors("telemetry") if each.id == "zip bomb that lies about its size")
    assert isinstance(bomb, dict)
    body = bytes.fromhex(bomb["bytes"])
    tracemalloc.start()
    with pytest.raises(LimitError):
        read_telemetry(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MAXIMUM_BATCH_BYTES


@pytest.mark.parametrize(("first", "planes"), [(2**62, b"\x00"), (2**62 - 1, b"\x01"), (1 - 2**62, b"\xff")])
def test_a_sum_beyond_62_bits_is_refused(first: int, planes: bytes) -> None:
    with pytest.raises(MalformedError):
        Column(first, 1, planes).values()
    assert Column(first // 2, 1, planes).values()


def test_an_empty_column_has_no_values() -> None:
    assert Column(7, 8, b"").values() == []
