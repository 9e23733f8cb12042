"""Hours in the doors' file: each message once, what is due, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.sqlite import door_hours
from covey.adapters.sqlite.door_file import DoorFile
from covey.core.telemetry.door_hours import HOUR_US, DueHour, HourKey, MessageHours, SeriesHour, SeriesUnit
from covey.core.telemetry.doors import LandedPosition, Plan
from covey.core.telemetry.drops import Drop
from covey.limits.doors import DOOR_HOURS_KEPT_US

_HOUR = 497_000
_NOW_US = _HOUR * HOUR_US
_PLAN = Plan("n", LandedPosition(1), LandedPosition(2))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DoorFile]:
    found = DoorFile(tmp_path / "doors.sqlite")
    found.begin("home", {}, _NOW_US)
    found.hours.begin("home", _NOW_US - 100 * HOUR_US)
    yield found
    found.close()


def _add(
    file: DoorFile, number: int, hour: int, value: float, *, late: bool = True, entity: str = "x", at_us: int = _NOW_US
) -> None:
    hours = {HourKey(entity, hour): SeriesHour(1, value, value, value, late)}
    message = MessageHours("ab-cd", number, hours, {entity: SeriesUnit(f"device-{entity}", "Cel")})
    file.taken("home", _PLAN, (), 1, 1, at_us, {}, [message])


def _due(file: DoorFile, before: int = _HOUR) -> list[DueHour]:
    return file.hours.due("home", before, 100)


def test_a_message_that_is_found_twice_counts_once(file: DoorFile) -> None:
    for number in (1, 2, 1, 2_000, 2, 2_000):
        _add(file, number, _HOUR - 2, float(number))
    (due,) = _due(file)
    assert (due.hour, due.readings, due.total, due.low, due.high, due.unit) == (_HOUR - 2, 3, 2_003, 1, 2_000, "Cel")


def test_an_hour_is_due_from_its_first_late_reading_and_after_its_end(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 1, 1.0, late=False)
    assert _due(file) == []
    _add(file, 2, _HOUR - 1, 3.0)
    assert _due(file, before=_HOUR - 1) == []
    assert [each.mean for each in _due(file)] == [2.0]


def test_an_hour_that_grew_during_its_import_stays_due(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 1, 1.0)
    imported = _due(file)
    _add(file, 2, _HOUR - 1, 3.0)
    file.hours.done("home", imported, 1, _NOW_US)
    (due,) = _due(file)
    assert due.readings == 2
    file.hours.done("home", [due], 1, _NOW_US)
    assert _due(file) == []
    state = file.hours.state("home")
    assert state is not None
    assert (state.hours, state.waiting, state.imported_at_us) == (2, 0, _NOW_US)


def test_hours_that_were_tried_let_others_go_first(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 3, 1.0, entity="unknown")
    file.hours.tried(_due(file), _NOW_US)
    _add(file, 2, _HOUR - 1, 1.0, entity="known")
    assert [each.entity for each in _due(file)] == ["known", "unknown"]


def test_hours_from_before_the_beginning_are_parts_until_they_are_claimed(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 100, 1.0)
    _add(file, 2, _HOUR - 99, 1.0)
    assert [each.is_part for each in _due(file)] == [True, False]
    file.hours.claim(_due(file))
    assert [each.is_part for each in _due(file)] == [False, False]


def test_old_hours_go_except_the_newest_of_a_series_and_come_back_as_parts(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 5, 1.0, late=False)
    _add(file, 2, _HOUR - 4, 1.0, late=False)
    later_us = _NOW_US + DOOR_HOURS_KEPT_US + 1
    _add(file, 3, _HOUR + 400, 1.0, late=False, at_us=later_us, entity="y")
    _add(file, 4, _HOUR - 5, 1.0, at_us=later_us)
    _add(file, 5, _HOUR - 4, 3.0, at_us=later_us)
    assert [(each.hour, each.is_part, each.readings) for each in _due(file)] == [
        (_HOUR - 5, True, 1),
        (_HOUR - 4, False, 2),
    ]


def test_more_hours_than_allowed_are_deleted_and_late_readings_among_them_counted(
    file: DoorFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_hours, "DOOR_HOURS", 3)
    monkeypatch.setattr(door_hours, "DOOR_HOURS_PRUNED_EVERY_US", 0)
    for number in range(6):
        _add(file, number, _HOUR - 10 + number, 1.0, at_us=_NOW_US + number)
    assert [each.hour for each in _due(file)] == [_HOUR - 7, _HOUR - 6, _HOUR - 5]
    assert file.dropped("home") == {Drop.LATE: 3}


def test_series_are_bounded_and_the_longest_silent_one_goes(file: DoorFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_hours, "DOOR_SERIES", 2)
    for number, entity in enumerate("abac"):
        _add(file, number, _HOUR - 9 + number, 1.0, entity=entity, at_us=_NOW_US + number)
    assert {each.entity for each in _due(file)} == {"a", "c"}
    _add(file, 9, _HOUR - 8, 1.0, entity="b", at_us=_NOW_US + 9)
    assert [each.is_part for each in _due(file) if each.entity == "b"] == [True]


def test_a_door_that_no_longer_imports_keeps_nothing(file: DoorFile) -> None:
    _add(file, 1, _HOUR - 1, 1.0)
    file.hours.forget("home")
    assert file.hours.state("home") is None
    file.hours.begin("home", _NOW_US)
    _add(file, 1, _HOUR - 1, 1.0)
    assert [(each.readings, each.is_part) for each in _due(file)] == [(1, True)]
