"""SenML: what is written resolved is read as it was, and whatever is read is a reading or a ReadingError."""

from __future__ import annotations

import contextlib
import json
from base64 import urlsafe_b64encode
from typing import Any

import cbor2
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core.telemetry import senml
from covey.core.telemetry.reading import Reading
from covey.errors import ReadingError

FIRST_US = 2**28 * 1_000_000
LAST_US = 253_402_300_799_999_999

any_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9\-:./_]{0,127}", fullmatch=True)
names = any_names | st.from_regex(r"(net|cpu)/[a-c]{0,2}", fullmatch=True)
any_units = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=32)
units = st.sampled_from(["", "Cel", "/", "B", "%RH"]) | any_units
times = st.none() | st.integers(FIRST_US, LAST_US) | st.integers(1_760_000_000_000_000, 1_760_000_100_000_000)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = numbers | st.booleans() | st.text(st.characters(codec="utf-8"), max_size=64) | st.binary(max_size=64)
readings = st.builds(Reading, names, units, times, values)

numbers_of_json = numbers | st.integers() | st.floats() | st.booleans()
fields = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("bn", "n", "u", "bu", "vs", "vd"), st.text(max_size=5) | names | st.integers()),
        **dict.fromkeys(("bt", "t", "ut", "bv", "v", "s", "bver"), numbers_of_json | st.text(max_size=3)),
        "vb": st.booleans() | st.none(),
        "must_": st.none(),
    },
)


def records(items: list[Reading]) -> list[dict[str, Any]]:
    """Write each reading as a record of its own, resolved."""
    written = []
    for item in items:
        seconds, micro = divmod(item.time_us or 0, 1_000_000)
        label = {bool: "vb", str: "vs", bytes: "vd", float: "v"}[type(item.value)]
        written.append({"n": item.name, "u": item.unit, "bt": seconds, "t": micro / 1e6, label: item.value})
    return written


def as_json(items: list[Reading]) -> str:
    """Write a pack of section 5."""
    pack = records(items)
    for record in pack:
        if "vd" in record:
            record["vd"] = urlsafe_b64encode(record["vd"]).decode().rstrip("=")
    return json.dumps(pack)


def as_cbor(items: list[Reading]) -> bytes:
    """Write a pack of section 6."""
    return cbor2.dumps([{senml._CBOR_LABELS[label]: record[label] for label in record} for record in records(items)])


def same(left: list[Reading], right: list[Reading]) -> bool:
    """Equality that tells True from 1.0."""
    return left == right and [type(a.value) for a in left] == [type(b.value) for b in right]


@given(st.lists(readings, max_size=12))
def test_readings_are_read_as_they_were_written(items: list[Reading]) -> None:
    assert same(senml.readings_from_json(as_json(items), None), items)
    assert same(senml.readings_from_cbor(as_cbor(items), None), items)


@given(st.integers(FIRST_US, 2**33 * 1_000_000 - 1))
def test_decimal_seconds_are_read_to_the_microsecond(time_us: int) -> None:
    seconds, micro = divmod(time_us, 1_000_000)
    (reading,) = senml.readings_from_line(f'{{"n":"x","t":{seconds}.{micro:06d},"v":1}}', None)
    assert reading.time_us == time_us


@given(st.lists(fields, max_size=4), st.none() | st.integers(0, 2**62))
def test_any_fields_give_readings_or_a_reading_error(pack: list[dict[str, object]], now_us: int | None) -> None:
    in_cbor = [{senml._CBOR_LABELS.get(label, label): record[label] for label in record} for record in pack]
    for read, raw in (
        (senml.readings_from_json, json.dumps(pack).encode()),
        (senml.readings_from_cbor, cbor2.dumps(in_cbor)),
    ):
        with contextlib.suppress(ReadingError):
            for reading in read(raw, now_us):
                if reading.time_us is None or reading.time_us >= FIRST_US:
                    assert senml.readings_from_json(as_json([reading]), None) == [reading]


@given(st.binary(max_size=200))
@example(bytes.fromhex("81a1c2590800" + "ff" * 2048 + "01"))
@example(bytes.fromhex("81a120c2590800" + "ff" * 2048))
def test_any_bytes_give_readings_or_a_reading_error(raw: bytes) -> None:
    for read in (senml.readings_from_json, senml.readings_from_line, senml.readings_from_cbor):
        with contextlib.suppress(ReadingError):
            read(raw, 1_760_000_000_000_000)
