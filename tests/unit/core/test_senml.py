"""SenML in and out, against the examples of RFC 8428 and the rules of `agent.core.senml`."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import pytest

from agent.core import senml
from agent.core.senml import Reading
from agent.errors import ReadingError

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "senml.json").read_text())
NOW_US = 1_760_000_000_123_456


def named(vectors: list[dict[str, Any]], *keys: str) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors if all(key in vector for key in keys)]


def expected(vector: dict[str, Any]) -> list[Reading]:
    readings = []
    for item in vector["readings"]:
        (label,) = item.keys() & {"v", "vs", "vb", "vd_hex"}
        value = bytes.fromhex(item[label]) if label == "vd_hex" else item[label]
        readings.append(Reading(item["name"], item["unit"], item["time_us"], value))
    return readings


def same(left: list[Reading], right: list[Reading]) -> bool:
    """Equality that tells True from 1.0."""
    return left == right and [type(a.value) for a in left] == [type(b.value) for b in right]


@pytest.mark.parametrize("vector", named(VECTORS["accepted"]))
def test_pack_resolves(vector: dict[str, Any]) -> None:
    assert same(senml.readings_from_json(vector["pack"], vector["now_us"]), expected(vector))
    assert same(senml.readings_from_line(vector["pack"].encode(), vector["now_us"]), expected(vector))


@pytest.mark.parametrize("vector", named(VECTORS["accepted"], "cbor"))
def test_cbor_pack_resolves_alike(vector: dict[str, Any]) -> None:
    assert same(senml.readings_from_cbor(bytes.fromhex(vector["cbor"]), vector["now_us"]), expected(vector))


@pytest.mark.parametrize("vector", named(VECTORS["accepted"]))
def test_resolved_readings_survive_both_encodings(vector: dict[str, Any]) -> None:
    readings = sorted(expected(vector), key=lambda reading: reading.time_us or 0)
    assert same(senml.readings_from_json(senml.readings_to_json(readings), None), readings)
    assert same(senml.readings_from_cbor(senml.readings_to_cbor(readings), None), readings)


@pytest.mark.parametrize("vector", named(VECTORS["refused"], "json"))
def test_pack_is_refused_with_its_record(vector: dict[str, Any]) -> None:
    with pytest.raises(ReadingError) as refused:
        senml.readings_from_json(vector["json"], vector["now_us"])
    assert vector["says"] in str(refused.value)


@pytest.mark.parametrize("vector", named(VECTORS["refused"], "cbor"))
def test_cbor_pack_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ReadingError) as refused:
        senml.readings_from_cbor(bytes.fromhex(vector["cbor"]), vector["now_us"])
    assert vector["says"] in str(refused.value)


def test_a_line_is_a_record_or_a_pack() -> None:
    reading = Reading("x", "Cel", 1_760_000_000_000_000, 21.5)
    assert senml.readings_from_line('{"n":"x","u":"Cel","t":1760000000,"v":21.5}\n', NOW_US) == [reading]
    assert senml.readings_from_line('[{"n":"x","u":"Cel","t":1760000000,"v":21.5}]', NOW_US) == [reading]


def test_a_line_inherits_nothing() -> None:
    assert senml.readings_from_line('{"bn":"a/","bt":1760000000}', NOW_US) == []
    with pytest.raises(ReadingError, match="record 1: no name"):
        senml.readings_from_line('{"v":1}', NOW_US)


@pytest.mark.parametrize("line", ["", "\n", "1", "null", '"x"', "\ufeff{}", "[" * 100_000, "1" * 5_000])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(ReadingError):
        senml.readings_from_line(line, NOW_US)


def test_only_utf_8_is_read() -> None:
    line = '{"n":"x","vs":"grün"}'
    assert senml.readings_from_line(line.encode(), NOW_US)[0].value == "grün"
    for encoding in ("utf-16", "utf-32-le", "latin-1"):
        with pytest.raises(ReadingError, match="not JSON"):
            senml.readings_from_line(line.encode(encoding), NOW_US)


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(ReadingError) as refused:
        senml.readings_from_json('[{"n":"x","v":1},{"n":"x","v":"1"}]', NOW_US)
    assert str(refused.value) == "record 2: the value (v) is not a number"
    assert refused.value.hint == "vs holds text, vb a truth value, vd bytes"


@pytest.mark.parametrize("year_s", [1_760_000_000, 2**31, 2**32 - 1, 2**32, 8_500_000_000])
def test_times_are_exact_to_the_microsecond(year_s: int) -> None:
    """Decimal text to microseconds without float error, before and after the quick path ends."""
    for micro in (0, 1, 499_999, 500_001, 999_999):
        line = f'{{"n":"x","t":{year_s}.{micro:06d},"v":1}}'
        assert senml.readings_from_line(line, NOW_US)[0].time_us == year_s * 1_000_000 + micro


def test_cbor_decimal_fractions_are_numbers() -> None:
    pack = cbor2.dumps([{0: "x", 2: Decimal("27.315"), 6: Decimal("1760000000.000001")}])
    assert senml.readings_from_cbor(pack, NOW_US) == [Reading("x", "", 1_760_000_000_000_001, 27.315)]


def test_output_is_factored() -> None:
    readings = [
        Reading("cpu/use", "/", 1_760_000_001_500_000, 0.25),
        Reading("cpu/heat", "Cel", 1_760_000_000_250_000, 51.0),
        Reading("cpu/idle", "/", 1_760_000_001_250_000, 0.75),
    ]
    assert json.loads(senml.readings_to_json(readings)) == [
        {"bn": "cpu/", "bu": "/", "bt": 1760000000, "t": 0.25, "n": "heat", "u": "Cel", "v": 51.0},
        {"t": 1.25, "n": "idle", "v": 0.75},
        {"t": 1.5, "n": "use", "v": 0.25},
    ]


def test_output_without_a_time_stays_before_the_base_time() -> None:
    readings = [Reading("x", "", 1_760_000_000_000_000, True), Reading("x", "", None, b"\xff\xfe")]
    assert senml.readings_to_json(readings) == '[{"bn":"x","vd":"__4"},{"bt":1760000000,"vb":true}]'


def test_output_in_cbor_has_integer_labels() -> None:
    assert cbor2.loads(senml.readings_to_cbor([Reading("x", "Cel", 1_760_000_000_000_000, 1.5)])) == [
        {-2: "x", -3: 1760000000, 1: "Cel", 2: 1.5}
    ]


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (Reading("", "", None, 1.0), "no name"),
        (Reading("a b", "", None, 1.0), "not a SenML name"),
        (Reading("x", "u" * 33, None, 1.0), "the unit is longer"),
        (Reading("x", "", None, float("nan")), "not finite"),
        (Reading("x", "", None, 10**400), "beyond a double"),
        (Reading("x", "", None, None), "not a number, truth value, text or bytes"),  # type: ignore[arg-type]
        (Reading("x", "", None, "\ud800"), "half a character"),
        (Reading("x", "", None, bytes(4097)), "longer than 4096 bytes"),
        (Reading("x", "", 1_000, 1.0), "not between mid-1978 and 9999"),
        (Reading("x", "", 2**62, 1.0), "not between mid-1978 and 9999"),
    ],
)
def test_what_is_not_a_reading_is_not_written(reading: Reading, says: str) -> None:
    for write in (senml.readings_to_json, senml.readings_to_cbor):
        with pytest.raises(ReadingError, match="^reading .*" + says):
            write([reading])
