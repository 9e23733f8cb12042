"""Rows of Home Assistant's statistics: units, and the two forms of an import."""

from __future__ import annotations

import pytest

from covey.adapters.doors.home_statistics import (
    converted,
    hours_stored,
    import_message,
    is_row,
    row_of,
    takes_new_form,
    unit_class,
)
from covey.core.telemetry.door_hours import DueHour

_DUE = DueHour(1, "covey_x", "Cel", 497_000, 4.0, 84.0, 20.0, 22.0, 1, is_part=False)


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "expected"),
    [
        (20.0, "°C", "°F", 68.0),
        (293.15, "K", "°C", 20.0),
        (-40.0, "°F", "°C", -40.0),
        (101_325.0, "Pa", "hPa", 1_013.25),
        (10.0, "m/s", "km/h", 36.0),
        (0.5, "", "%", 50.0),
        (1.0, "lx", "lx", 1.0),
        (1.0, "°C", "%", None),
        (1.0, "drops", "m", None),
    ],
)
def test_values_are_imported_in_the_unit_that_is_there(
    value: float, unit: str, wanted: str, expected: float | None
) -> None:
    found = converted(value, unit, wanted)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_row_is_an_hour_in_utc_with_the_mean_of_its_readings() -> None:
    row = row_of(_DUE, "°C", "°C")
    assert row == {"start": "2026-09-12T08:00:00+00:00", "mean": 21.0, "min": 20.0, "max": 22.0}
    assert row_of(_DUE, "°C", "%") is None
    assert row_of(_DUE._replace(total=float("inf"), high=float("inf")), "°C", "°F") is None


def test_an_import_has_the_form_that_the_version_wants() -> None:
    old = import_message("sensor.x", "°C", [], new_form=takes_new_form("2024.3.3"))["metadata"]
    new = import_message("sensor.x", "°C", [], new_form=takes_new_form("2025.11.0b3"))["metadata"]
    assert ("has_mean" in old, "mean_type" in old, "unit_class" in old) == (True, False, False)
    assert ("has_mean" in new, new["mean_type"], new["unit_class"]) == (False, 1, "temperature")
    assert [unit_class(each) for each in ("lx", "", "%")] == [None, None, "unitless"]
    assert [takes_new_form(each) for each in ("2025.9.1", "2025.10.4", "2026.1.0", "dev")] == [
        False,
        False,
        True,
        False,
    ]


def test_what_is_stored_is_compared_with_what_was_sent() -> None:
    row = {"start": "", "mean": 21.0, "min": 20.0, "max": 22.0}
    stored = hours_stored({"sensor.x": [{"start": 497_000 * 3_600_000, "mean": 21.0, "min": 20.0, "max": 22.0}]})
    assert is_row(stored["sensor.x", 497_000], row)
    assert not is_row(stored["sensor.x", 497_000], row | {"mean": 21.1})
    assert not is_row({"mean": None}, row)
    assert not is_row(None, row)
    answers: list[object] = [[], {"sensor.x": 1}, {"sensor.x": [{}]}]
    for answer in answers:
        with pytest.raises(ValueError, match="statistics"):
            hours_stored(answer)
