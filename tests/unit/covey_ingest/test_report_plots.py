"""The report's plots: axes of round numbers that what is drawn just fits below, and text that stays text."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from covey_ingest.report_plots import TimeAxis, lines_over_time, over_time, shares

_AXIS = TimeAxis(1_800_000_000_000_000, 60_000_000, 3)


def _numbers(figure: str) -> list[float]:
    return [float(each.replace(",", "")) for each in re.findall(r'text-anchor="end">([0-9.,e+-]+)<', figure)]


@pytest.mark.parametrize("highest", [0.0004, 0.9, 1, 3, 7, 42, 99, 101, 1_742, 250_000, 10**12])
def test_an_axis_ends_at_a_round_number_just_above(highest: float) -> None:
    *_, top = numbers = _numbers(over_time("x", _AXIS, [0, highest, highest / 3]))
    assert numbers[0] == 0
    assert highest <= top <= 2 * highest
    assert len(numbers) <= 6


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
    ):
        ET.fromstring(figure)
        assert "<script" not in figure
