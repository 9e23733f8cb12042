"""Hours of series, as a door adds them up."""

from __future__ import annotations

from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.door_discovery import NUMBER, EntitySeries
from covey.core.telemetry.door_hours import HOUR_US, HourKey, MessageHours, SeriesHour, hours_of
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading, DoorWindow

_KEY = DeviceKey(bytes(range(32)))
_HOUR = 497_000
_NOW_US = _HOUR * HOUR_US + 1_800_000_000
_AIR = EntitySeries(_KEY, "air", "Cel", NUMBER).unique_id


def _hours(*messages: DoorMessage) -> list[MessageHours]:
    return [*hours_of(DoorBatch("b", "home", _NOW_US, 300_000_000, (), {}), messages)]


def _message(
    *readings: DoorReading, windows: tuple[DoorWindow, ...] = (), clock: ClockKind = ClockKind.SYNCHRONISED
) -> DoorMessage:
    return DoorMessage("ab-cd-7", _KEY, "00" * 32, _NOW_US, clock, readings, windows=windows)


def _air(age_s: float, value: float | bool | str) -> DoorReading:
    return DoorReading("air", "Cel", _NOW_US - int(age_s * 1e6), value)


def test_readings_add_up_by_series_and_hour_and_a_late_one_makes_its_hour_due() -> None:
    (found,) = _hours(_message(_air(1, 20.0), _air(2, 21.0), _air(4_000, 10), _air(3, True), _air(3, "x")))
    assert (found.source, found.number) == ("ab-cd", 7)
    assert found.hours == {
        HourKey(_AIR, _HOUR): SeriesHour(2, 41.0, 20.0, 21.0, is_due=False),
        HourKey(_AIR, _HOUR - 1): SeriesHour(1, 10.0, 10.0, 10.0, is_due=True),
    }
    assert found.series[_AIR].unit == "Cel"


def test_a_clock_that_nobody_set_counts_from_the_landing() -> None:
    (found,) = _hours(_message(_air(9e8, 20.0), clock=ClockKind.UNSYNCHRONISED))
    assert found.hours == {HourKey(_AIR, _HOUR): SeriesHour(1, 20.0, 20.0, 20.0, is_due=False)}


def test_impossible_times_and_sums_beyond_a_double_add_no_hour_that_nobody_takes() -> None:
    assert _hours(_message(_air(-7_300, 1.0), _air(1.7e9, 1.0))) == []
    (found,) = _hours(_message(_air(0, 1e308), _air(0, 1.7e308)))
    assert found.hours[HourKey(_AIR, _HOUR)].total == 2e300


def test_a_window_of_a_summary_counts_whole_in_its_hour_and_by_shares_in_several() -> None:
    begin = (_HOUR - 5) * HOUR_US
    within = DoorWindow("air", "Cel", begin + 1, begin + 60_000_000, 3, 66.0, 20.0, 24.0)
    across = DoorWindow("air", "Cel", begin - HOUR_US // 4, begin + 3 * HOUR_US // 4, 8, 160.0, 10.0, 30.0)
    (found,) = _hours(_message(windows=(within, across)))
    assert found.hours == {
        HourKey(_AIR, _HOUR - 5): SeriesHour(9.0, 186.0, 10.0, 30.0, is_due=True),
        HourKey(_AIR, _HOUR - 6): SeriesHour(2.0, 40.0, 10.0, 30.0, is_due=True),
    }
