"""`covey.adapters.moments`: hours of the day, and whether a machine runs on mains."""

from __future__ import annotations

from datetime import time
from pathlib import Path

import pytest

from covey.adapters.moments import DailyHours, on_mains
from covey.errors import UsageError


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        ("01:00-05:00", ("01:00", "04:59"), ("00:59", "05:00", "13:00")),
        ("22:00-05:00", ("22:00", "23:59", "00:00", "04:59"), ("05:00", "12:00", "21:59")),
    ],
)
def test_hours_include_their_start_and_not_their_end(
    hours: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    parsed = DailyHours.parse(hours)
    assert all(parsed.include(time.fromisoformat(each)) for each in inside)
    assert not any(parsed.include(time.fromisoformat(each)) for each in outside)
    assert str(parsed) == hours


@pytest.mark.parametrize("text", ["", "22:00", "22:00-", "25:00-05:00", "22:00-22:00", "1-2-3", "night"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        DailyHours.parse(text)


def _supply(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, content in files.items():
        (folder / name / file).write_text(f"{content}\n")


def test_a_machine_without_power_supplies_runs_on_mains(tmp_path: Path) -> None:
    assert on_mains(tmp_path)
    assert on_mains(tmp_path / "none")


@pytest.mark.parametrize(("online", "expected"), [("1", True), ("0", False)])
def test_a_supply_says_whether_it_is_connected(tmp_path: Path, online: str, expected: bool) -> None:
    _supply(tmp_path, "AC", type="Mains", online=online)
    _supply(tmp_path, "usb", type="USB", online="0")
    assert on_mains(tmp_path) is expected


@pytest.mark.parametrize(("status", "expected"), [("Discharging", False), ("Charging", True), ("Full", True)])
def test_a_machine_whose_battery_discharges_is_not_on_mains(tmp_path: Path, status: str, expected: bool) -> None:
    _supply(tmp_path, "BAT0", type="Battery", status=status)
    assert on_mains(tmp_path) is expected


def test_the_battery_of_a_mouse_does_not_count(tmp_path: Path) -> None:
    _supply(tmp_path, "hidpp_battery_0", type="Battery", scope="Device", status="Discharging")
    assert on_mains(tmp_path)
