"""Line protocol: what is written by its rules, or by InfluxData's own client, is read as it was."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from influxdb_client.client.write.point import Point

from covey.core.telemetry.line_protocol import read_lines
from covey.core.telemetry.names import below, name_of, segment, shown
from covey.core.telemetry.reading import Reading

_SENML_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-:./_]*")

any_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8)
awkward = st.text(st.sampled_from("ax_:/.-4ABC0 1,=\\\"'°客é"), min_size=1, max_size=8)
# The protocol cannot write a name that ends with a backslash: it would escape what follows.
texts = (any_text | awkward).filter(lambda text: not text.endswith("\\"))
measurements = texts.filter(lambda text: text[0] != "#")
values = (
    st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
)
PointOfTest = tuple[str, dict[str, str], dict[str, bool | float | str]]
points = st.tuples(measurements, st.dictionaries(texts, texts, max_size=2), st.dictionaries(texts, values, min_size=1))


def _escaped(text: str, special: str) -> str:
    return re.sub(f"([{special}])", r"\\\1", text)


def _field(value: bool | float | str) -> str:
    if isinstance(value, str):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    return str(value) if isinstance(value, bool) else repr(value)


def _written(point: PointOfTest) -> str:
    measurement, tags, fields = point
    tagged = "".join(f",{_escaped(key, ',= ')}={_escaped(value, ',= ')}" for key, value in tags.items())
    listed = ",".join(f"{_escaped(key, ',= ')}={_field(value)}" for key, value in fields.items())
    return f"{_escaped(measurement, ', ')}{tagged} {listed} 1790000000000000000\n"


def _name_of(measurement: str, tags: dict[str, str], field: str) -> tuple[object, ...]:
    return measurement, tuple(sorted(tags.items())), field


def _had_back(name: str) -> tuple[object, ...]:
    """Return measurement, tags and field out of a name."""
    first, *tags, last = name.split("/")
    pairs = [each.partition(":") for each in tags]
    return shown(first), tuple((_plain(key), _plain(value)) for key, _, value in pairs), _plain(last)


def _plain(text: str) -> str:
    """Return the text of a segment that is not a name's first."""
    return shown(f"-{text}")[1:]


@given(st.lists(points, max_size=4))
def test_points_are_read_as_they_were_written(
    written: list[PointOfTest],
) -> None:
    found = read_lines("".join(map(_written, written)).encode(), "ns")
    expected = [(_name_of(m, tags, key), value) for m, tags, fields in written for key, value in fields.items()]
    assert all("128 characters" in each for each in found.reasons)
    if not found.refused:
        assert [(_had_back(each.name), each.value) for each in found.readings] == expected


@given(measurements, st.dictionaries(texts, texts, max_size=2), texts, values)
def test_influxdatas_own_client_is_understood(
    measurement: str, tags: dict[str, str], field: str, value: bool | float | str
) -> None:
    point = Point(measurement)
    for key, text in tags.items():
        point.tag(key, text)
    line = point.field(field, value).to_line_protocol()
    found = read_lines(line.encode(), "ns")
    assert not found.refused or "128 characters" in found.reasons[0]
    for each in found.readings:
        assert _had_back(each.name) == _name_of(measurement, tags, field)
        assert each.value == value


@given(st.lists(any_text | awkward | st.just(""), min_size=1, max_size=4))
@example(["x25_"])
@example(["_", "_x", "x_"])
@example([""])
@example(["_xABü", "_xAB_xCD_", "x0_", "_x0"])
def test_any_texts_become_a_name_of_senml_and_are_had_back(parts: list[str]) -> None:
    name = name_of(map(segment, parts))
    assert _SENML_NAME.fullmatch(name)
    first, *others = name.split("/")
    assert [shown(first), *map(_plain, others)] == parts
    assert len(name) > 100 or below("s", name) == f"s/{name}"


@given(st.binary(max_size=120), st.sampled_from(["ns", "us", "ms", "s"]))
def test_any_bytes_give_readings_or_a_reason(content: bytes, precision: str) -> None:
    found = read_lines(content, precision)
    assert all(isinstance(each, Reading) and _SENML_NAME.fullmatch(each.name) for each in found.readings)
    assert found.refused <= content.count(b"\n") + 1
