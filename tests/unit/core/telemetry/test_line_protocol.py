"""InfluxDB's line protocol: what its reference allows, what it forbids, and what becomes of the others."""

from __future__ import annotations

import pytest

from covey.core.telemetry.line_protocol import read_lines
from covey.core.telemetry.senml import Reading, Value
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
    [("ns", "1999", 1), ("us", "5", 5), ("ms", "5", 5_000), ("s", "1790000000", 1_790_000_000_000_000)],
)
def test_times_are_in_the_unit_that_is_named(precision: str, time: str, at_us: int) -> None:
    assert _read(f"m v=1 {time}", precision) == [("m/v", at_us, 1.0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            ("1", 1.0),
            ("-1.5e-3", -0.0015),
            ("+2.", 2.0),
            (".5", 0.5),
            ("1E9", 1e9),
            ("-3i", -3.0),
            ("9007199254740993i", 2**53 + 1),
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
        *[('"two\nlines"', "two\nlines"), (r'"C:\new"', r"C:\new")],
    ],
)
def test_values(text: str, value: Value) -> None:
    assert _read(f"m v={text}") == [("m/v", None, value)]


def test_names_are_made_of_what_senml_allows() -> None:
    assert _read(r"wea\,ther\ now,ta\=g=a\,b,ä=ö fie\ ld=1") == [("wea_ther_now/ta_g:a_b/_:_/fie_ld", None, 1.0)]
    assert _read(r"m,path=/dev/sda1 v=1") == [("m/path:_dev_sda1/v", None, 1.0)]


def test_a_quote_in_a_name_begins_no_text() -> None:
    lines = 'wall,size=5" v=1\no"d"d,say"s="a\\b"c v"=2\nm v="two\nlines",w=3 4000\nm,t="a b=1\nm v=4'
    assert _read(lines) == [
        ("wall/size:5_/v", None, 1.0),
        ("o_d_d/say_s:_a_b_c/v_", None, 2.0),
        ("m/v", 4, "two\nlines"),
        ("m/w", 4, 3.0),
        ("m/t:_a/b", None, 1.0),
        ("m/v", None, 4.0),
    ]


def test_lines_that_say_nothing_are_passed_over() -> None:
    assert _read("# a comment\n\n  \nm v=1\r\n#m v=2\n m v=3  5000 \n") == [("m/v", None, 1.0), ("m/v", 5, 3.0)]
    assert _read("") == []


@pytest.mark.parametrize(
    "line",
    [
        *["m", "m v", "m v=", "m =1", ",a=b v=1", "m,a v=1", "m,a= v=1", "m v=1,", "m v=1 x", "m v=1 2 3", "m v=nan"],
        *["m v=inf", "m v=1e999", "m v=yes", 'm v="open', "m v=1i2", "m  ", "m v=1 99999999999999999999", "m v=1 -1"],
        *["_m v=1", f"{'m' * 127} v=1", f'm v="{"x" * 5_000}"'],
    ],
)
def test_a_line_that_breaks_a_rule_is_told_and_costs_no_other(line: str) -> None:
    found = read_lines(f"good v=1\n{line}\ngood v=2\n".encode(), "ns")
    assert [each.value for each in found.readings] == [1.0, 2.0]
    assert found.refused == len(found.reasons) == 1


def test_of_many_lines_a_few_are_told() -> None:
    found = read_lines(b"wrong\n" * 1_000, "ns")
    assert (found.refused, len(found.reasons)) == (1_000, 5)


def test_what_is_no_text_or_unit_is_refused() -> None:
    with pytest.raises(ReadingError, match="no UTF-8"):
        read_lines(b"m v=1\n\xff", "ns")
    with pytest.raises(ReadingError, match="ns, us, ms, s"):
        read_lines(b"m v=1", "h")


@pytest.mark.parametrize(
    "hostile", ["\\" * 20_000, '"' * 20_001, "m " + "a=" * 20_000, "m,a=b" * 5_000, "m v=" + '"\\' * 9_999]
)
def test_hostile_lines_take_time_in_proportion(hostile: str) -> None:
    assert read_lines(hostile.encode(), "ns").readings == ()
