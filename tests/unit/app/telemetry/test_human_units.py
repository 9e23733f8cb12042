"""Readings as people read them."""

from __future__ import annotations

import pytest

from covey.app.telemetry.human_units import reading_text, scale_of


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (72_531_791_900, "B", "72.53 GB"),
        (999, "B", "999 B"),
        (-1_500, "W", "-1.5 kW"),
        (21.4375, "Cel", "21.44 °C"),
        (0.36, "/", "36 %"),
        (101_325, "Pa", "1013 hPa"),
        (90, "s", "90 s"),
        (172_800, "s", "2 d"),
        (12_345_678, "count", "12,345,678"),
        (2_000, "Ohm", "2 kΩ"),
        (True, "", "on"),
        (False, "", "off"),
        ("open\x1b", "", "open\ufffd"),
        (float("nan"), "V", "nan V"),
        (float("inf"), "B", "inf TB"),
        (3.9, "V", "3.9 V"),
        (1e300, "x\n", "1e+300 x\ufffd"),
    ],
)
def test_a_reading_is_shown_in_a_unit_of_its_size(value: float | str, unit: str, shown: str) -> None:
    assert reading_text(value, unit) == shown


def test_all_numbers_of_a_curve_have_the_scale_of_the_largest() -> None:
    assert scale_of("B", 2.5e9) == (1e-9, "GB")
    assert scale_of("s", 7_200) == (1 / 3_600, "h")
