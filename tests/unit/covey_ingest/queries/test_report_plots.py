"""The report's plots: axes of round numbers that what is drawn just fits below, and text that stays text."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from covey_ingest.queries.report_plots import TimeAxis, lines_over_time, over_time, shares, values_over_time

_AXIS = TimeAxis(1_800_000_000_000_000, 60_000_000, 3)


def _numbers(figure: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r'text-anchor="end">([0-9.,e+-]+)<', figure)]


@pytest.mark.parametrize("highest", [0.0004, 0.9, 1, 3, 7, 42, 99, 101, 1_742, 250_000, 10**12])
def test_an_axis_ends_at_a_round_number_just_above(highest: float) -> None:
    *_, top = numbers = _numbers(over_time("x", _AXIS, [0, highest, highest / 3]))
    assert numbers[0] == 0
    assert highest <= top <= 2 * highest
    assert len(numbers) <= 6


@pytest.mark.parametrize(
    ("lowest", "highest"), [(-9.5, -3), (-0.2, 0.4), (19.9, 22.1), (1e6, 1e6 + 1), (-1e300, 1e300)]
)
def test_values_are_drawn_between_round_numbers(lowest: float, highest: float) -> None:
    middle = (lowest + highest) / 2
    figure = values_over_time("x", _AXIS, [(lowest, middle, middle), None, (middle, middle, highest)])
    numbers = _numbers(figure)
    assert numbers == sorted(numbers)
    assert 2 <= len(numbers) <= 6
    assert (figure.count("<polygon"), figure.count("<circle")) == (2, 2)
    ET.fromstring(figure)


def test_lines_break_where_there_is_nothing_and_a_lone_point_is_a_dot() -> None:
    axis = _AXIS._replace(intervals=6)
    figure = lines_over_time("x", axis, {"p50": [1, 2, None, 3, None, 2], "p99": [None] * 6})
    assert (figure.count("<polyline"), figure.count("<circle")) == (1, 2)


def test_all_zero_and_hostile_names_are_drawn() -> None:
    for figure in (
        over_time("<b>", _AXIS, [0, 0, 0]),
        shares("&", [("</svg><script>", 0), ("x" * 500, 10**20)]),
        lines_over_time('"', _AXIS, {"<i>": [0.0, 0.0, 0.0], "b": [None, None, None]}),
        over_time("x", TimeAxis(-(10**20), 1, 1), [1]),
        values_over_time("</svg>", _AXIS, [(7.0, 7.0, 7.0), (7.0, 7.0, 7.0), None]),
        values_over_time("<b>", _AXIS, [(0.0, 0.0, 5e-324), None, None]),
    ):
        ET.fromstring(figure)
        assert "<script" not in figure
