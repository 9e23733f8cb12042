"""SenML, against the examples of RFC 8428 and the rules of `covey.core.telemetry.senml`."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import pytest

from covey.core.telemetry import senml
from covey.core.telemetry.reading import Reading
from covey.errors import ReadingError

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "senml.json").read_text())
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
    assert same(senml.readings_from_json(vector["text"], vector["now_us"]), expected(vector))
    assert same(senml.readings_from_line(vector["text"].encode(), vector["now_us"]), expected(vector))


@pytest.mark.parametrize("vector", named(VECTORS["accepted"], "bytes"))
def test_cbor_pack_resolves_alike(vector: dict[str, Any]) -> None:
    assert same(senml.readings_from_cbor(bytes.fromhex(vector["bytes"]), vector["now_us"]), expected(vector))


@pytest.mark.parametrize("vector", named(VECTORS["refused"], "text"))
def test_pack_is_refused_with_its_record(vector: dict[str, Any]) -> None:
    with pytest.raises(ReadingError) as refused:
        senml.readings_from_json(vector["text"], vector["now_us"])
    assert vector["says"] in str(refused.value)
    assert refused.value.code == vector["code"]


@pytest.mark.parametrize("vector", named(VECTORS["refused"], "bytes"))
def test_cbor_pack_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ReadingError) as refused:
        senml.readings_from_cbor(bytes.fromhex(vector["bytes"]), vector["now_us"])
    assert vector["says"] in str(refused.value)


def test_a_line_is_a_record_or_a_pack() -> None:
    reading = Reading("x", "Cel", 1_760_000_000_000_000, 21.5)
    assert senml.readings_from_line('{"n":"x","u":"Cel","t":1760000000,"v":21.5}\n', NOW_US) == [reading]
    assert senml.readings_from_line('[{"n":"x","u":"Cel","t":1760000000,"v":21.5}]', NOW_US) == [reading]


def test_a_line_inherits_nothing() -> None:
    assert senml.readings_from_line('{"bn":"a/","bt":1760000000}', NOW_US) == []
    with pytest.raises(ReadingError, match="record 1: the record has no name"):
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
    assert refused.value.hint == "use vs for text, vb for a boolean, vd for bytes"


@pytest.mark.parametrize("year_s", [1_760_000_000, 2**31, 2**32 - 1, 2**32, 8_500_000_000])
def test_times_are_exact_to_the_microsecond(year_s: int) -> None:
    """Decimal text to microseconds without float error, before and after the quick path ends."""
    for micro in (0, 1, 499_999, 500_001, 999_999):
        line = f'{{"n":"x","t":{year_s}.{micro:06d},"v":1}}'
        assert senml.readings_from_line(line, NOW_US)[0].time_us == year_s * 1_000_000 + micro


def test_whole_numbers_stay_whole() -> None:
    pack = '[{"bn":"x","n":"a","v":9007199254740993},{"n":"b","bv":9007199254740992,"v":1}]'
    read = [*senml.readings_from_json(pack, 0), *senml.readings_from_json('[{"n":"x","v":2305843009213693952}]', 0)]
    assert [reading.value for reading in read] == [2**53 + 1, 2**53 + 1, 2**61]
    assert type(read[-1].value) is float, "beyond what travels whole"
    items = cbor2.dumps([{0: "x", 2: Decimal(2**60 + 1)}, {0: "x", 2: 2**60 + 1}])
    assert [reading.value for reading in senml.readings_from_cbor(items, 0)] == [2**60 + 1] * 2


def test_cbor_decimal_fractions_are_numbers() -> None:
    pack = cbor2.dumps([{0: "x", 2: Decimal("27.315"), 6: Decimal("1760000000.000001")}])
    assert senml.readings_from_cbor(pack, NOW_US) == [Reading("x", "", 1_760_000_000_000_001, 27.315)]
