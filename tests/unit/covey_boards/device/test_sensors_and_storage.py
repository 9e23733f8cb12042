"""What stands around the core: sensors by name, and files that are whole or not there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from covey_boards.device import hardware
from covey_boards.device.storage import Files
from covey_boards.device.wiring import open_sensors


class _Own:
    def __init__(self, name: str) -> None:
        self.name = name

    def read(self) -> list[tuple[str, str, int, int]]:
        return [(self.name, "%RH", 1, 415)]


def test_sensors_are_found_by_kind_and_a_persons_own_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("my_sensors")
    own.SENSORS = {"own": _Own, "temperature": _Own}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_sensors", own)
    monkeypatch.setitem(sys.modules, "hardware", hardware)
    wanted = [["counter", {"name": "c"}], ["own", {"name": "a"}], ["temperature", {"name": "b"}]]
    opened, failed = open_sensors(wanted)
    assert [sensor.read()[0][:1] for sensor in opened] == [("c",), ("a",), ("b",)]
    assert failed == []


def test_a_sensor_that_cannot_be_opened_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hardware", hardware)
    misnamed = ["counter", {"name": "other", "colour": 1}]
    wanted = [["nothing", {}], misnamed, 5, ["counter"], ["temperature", {}], ["counter", {}]]
    [sensor], failed = open_sensors(wanted)
    assert sensor.read() == [("board:counter", "", 0, 1)]
    assert len(failed) == 5
    assert failed[0].startswith("['nothing', {}]: KeyError")


@pytest.mark.parametrize(("volts", "hundredths"), [(0.706, 2700), (0.706 - 0.001721 * 10, 3700), (0.8781, -7300)])
def test_an_rp2040s_temperature_follows_its_datasheet(volts: float, hundredths: int) -> None:
    assert hardware._rp2_hundredths(round(volts / 3.3 * 65_535)) == pytest.approx(hundredths, abs=3)


def test_files_are_whole_whenever_the_power_goes(tmp_path: Path) -> None:
    files = Files(f"{tmp_path}/")
    assert files.read("identity.key") is None
    files.write("identity.key", b"first")
    (tmp_path / "identity.key.new").write_bytes(b"sec")  # cut while the second was written
    assert files.read("identity.key") == b"first"
    files.write("identity.key", b"second")
    assert files.read("identity.key") == b"second"
    (tmp_path / "identity.key").rename(tmp_path / "identity.key.new")  # FAT, between removing and renaming
    assert files.read("identity.key") == b"second"
