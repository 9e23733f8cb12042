"""InfluxDB's line protocol: what its reference allows, what it forbids, and what becomes of the others."""

from __future__ import annotations

import pytest

from covey.core.telemetry.line_protocol import read_lines
from covey.core.telemetry.names import shown
from covey.core.telemetry.reading import Reading, Value
from covey.core.telemetry.times import UNUSABLE_US
from covey.errors import ReadingError

_AT = 1_790_000_000_123_456


def _read(text: str, precision: str = "ns") -> list[tuple[str, int | None, Value]]:
    found = read_lines(text.encode(), precision)
    assert found.reasons == ()
    return [(each.name, each.time_us, each.value) for each in found.readings]


def test_a_line_is_a_reading_for_each_field() -> None:
    line = f'weather,location=shed,floor=1 temp=21.5,raining=false,door="half open",steps=7i,up=8u {_AT}789'
    assert read_lines(line.encode(), "ns").readings == (
        Reading("weather/floor:1/location:shed/temp", "", _AT, 21.5),
        Reading("weather/floor:1/location:shed/raining", "", _AT, False),
        Reading("weather/floor:1/location:shed/door", "", _AT, "half open"),
        Reading("weather/floor:1/location:shed/steps", "", _AT, 7.0),
        Reading("weather/floor:1/location:shed/up", "", _AT, 8.0),
    )


@pytest.mark.parametrize(
    ("precision", "time", "at_us"),
    [
        ("ns", f"{_AT}999", _AT),
        ("us", f"{_AT}", _AT),
        ("ms", "1790000000001", 1_790_000_000_001_000),
        ("s", "1790000000", 1_790_000_000_000_000),
    ],
)
def test_times_are_in_the_unit_that_is_named(precision: str, time: str, at_us: int) -> None:
    assert _read(f"m v=1 {time}", precision) == [("m/v", at_us, 1.0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            ("1", 1.0),
            ("-1.5e-3", -0.0015),
            ("2.", 2.0),
            (".5", 0.5),
            ("1E9", 1e9),
            ("-3i", -3.0),
            ("9007199254740993i", 2**53 + 1),
            ("9223372036854775807i", 2.0**63),
            ("18446744073709551615u", 2.0**64),
            ("0000000000000000000000007i", 7.0),
            ("t", True),
        ],
        *[
            ("True", True),
            ("FALSE", False),
            ("f", False),
            ('""', ""),
            (r'"a\"b\\c"', 'a"b\\c'),
            ('"a,b=c d"', "a,b=c d"),
        ],
        *[('"two\nlines"', "two\nlines"), (r'"C:\\new"', r"C:\new"), (r'"C:\new\x"', "C:\new\\x")],
    ],
)
def test_values(text: str, value: Value) -> None:
    assert _read(f"m v={text}") == [("m/v", None, value)]


@pytest.mark.parametrize(
    ("line", "name", "people_read"),
    [
        (
            r"wea\,ther\ now,ta\=g=a\,b fie\ ld=1",
            "wea_x2C_ther_x20_now/ta_x3D_g:a_x2C_b/fie_x20_ld",
            "wea,ther now/ta=g:a,b/fie ld",
        ),
        ("m,path=/dev/sda1 v=1", "m/path:_x2F_dev_x2F_sda1/v", "m/path:/dev/sda1/v"),
        (r"disk,path=C:\\ data used=1", "disk/path:C:_x5C20_data/used", r"disk/path:C:\ data/used"),
        (r"cpu,host=two\\ words value=42", "cpu/host:two_x5C20_words/value", r"cpu/host:two\ words/value"),
        (r"cpu,r=\\,\,\=east value=1", "cpu/r:_x5C2C2C3D_east/value", r"cpu/r:\,,=east/value"),
        ("°C,entity_id=t value=21.5", "xC2B0_C/entity_id:t/value", "°C/entity_id:t/value"),
        ("%,entity_id=h value=45", "x25_/entity_id:h/value", "%/entity_id:h/value"),
        ('"cpu" v=1', "x22_cpu_x22_/v", '"cpu"/v'),
        ("_m v=1", "x5F_m/v", "_m/v"),
        ("x25_ v=1", "x78_25_/v", "x25_/v"),
        ("a_x25_ v=1", "a_x5F_x25_/v", "a_x25_/v"),
        ("accel_x,x_y=_x1 max_x=1", "accel_x/x_y:_x1/max_x", "accel_x/x_y:_x1/max_x"),
        ("a:b,c:d=e:f v=1", "a:b/c_x3A_d:e:f/v", "a:b/c:d:e:f/v"),
    ],
)
def test_any_text_becomes_a_name_and_is_shown_as_itself(line: str, name: str, people_read: str) -> None:
    assert [each[0] for each in _read(line)] == [name]
    assert shown(name) == people_read


def test_different_tags_are_different_names() -> None:
    lines = "t,room=客厅 v=1\nt,room=卧室 v=1\nt,a=b:c v=1\nt,a:b=c v=1\nt,a=b/c:d v=1\nt,a=b,c=d v=1"
    assert len({each[0] for each in _read(lines)}) == 6


def test_a_quote_in_a_name_begins_no_text() -> None:
    lines = 'wall,size=5" v=1\no"d"d,say"s="a\\b"c v"=2\nm v="two\nlines",w=3 1790000000000000000\nm,t="a b=1\nm v=4'
    assert [(shown(name), at_us, value) for name, at_us, value in _read(lines)] == [
        ('wall/size:5"/v', None, 1.0),
        ('o"d"d/say"s:"a\\b"c/v"', None, 2.0),
        ("m/v", 1_790_000_000_000_000, "two\nlines"),
        ("m/w", 1_790_000_000_000_000, 3.0),
        ('m/t:"a/b', None, 1.0),
        ("m/v", None, 4.0),
    ]


@pytest.mark.parametrize("time", ["0", "-1", "-2208988800000000000", "5000", "-9999999999999999999"])
def test_a_time_before_1978_costs_no_reading(time: str) -> None:
    assert _read(f"m v=1 {time}") == [("m/v", UNUSABLE_US, 1.0)]


def test_lines_that_say_nothing_are_passed_over() -> None:
    lines = "# a comment\n\n  \nm v=1\r\n \r\n#m v=2\n m v=3  1790000000000001000 \r\n"
    assert _read(lines) == [("m/v", None, 1.0), ("m/v", 1_790_000_000_000_001, 3.0)]
    assert _read("") == []


@pytest.mark.parametrize(
    "line",
    [
        *["m", "m v", "m v=", "m =1", ",a=b v=1", "m,a v=1", "m,a= v=1", "m v=1,", "m v=1 x", "m v=1 2 3", "m v=nan"],
        *["m v=inf", "m v=1e999", "m v=yes", 'm v="open', "m v=1i2", "m  ", "m v=+1", "m v=-3u"],
        *["m v=9223372036854775808i", "m v=18446744073709551616u", "m\tv=1", "m v=1 1\r2", "m,a=1,a=2 v=1", "m v=1 -"],
        *[f"{'m' * 127} v=1", f'm v="{"x" * 5_000}"'],
    ],
)
def test_a_malformed_line_is_reported_and_affects_no_other(line: str) -> None:
    found = read_lines(f"good v=1\n{line}\ngood v=2\n".encode(), "ns")
    assert [each.value for each in found.readings] == [1.0, 2.0]
    assert found.refused == len(found.reasons) == 1


def test_a_few_of_many_bad_lines_are_reported() -> None:
    found = read_lines(b"wrong\n" * 1_000, "ns")
    assert (found.refused, len(found.reasons)) == (1_000, 5)


def test_bytes_that_are_no_text_cost_their_line_alone() -> None:
    found = read_lines(b'm v=1\n\xff v=2\nm,a=\xc3 v=3\nm v="\xff"\nm v=4', "ns")
    assert [each.value for each in found.readings] == [1.0, 4.0]
    assert found.refused == 3
    assert all("not UTF-8" in each for each in found.reasons)


def test_an_unknown_unit_of_time_is_refused() -> None:
    with pytest.raises(ReadingError, match="ns, us, ms, s"):
        read_lines(b"m v=1", "h")


@pytest.mark.parametrize(
    "hostile", ["\\" * 20_000, '"' * 20_001, "m " + "a=" * 20_000, "m,a=b" * 5_000, "m v=" + '"\\' * 9_999]
)
def test_hostile_lines_take_time_in_proportion(hostile: str) -> None:
    assert read_lines(hostile.encode(), "ns").readings == ()
