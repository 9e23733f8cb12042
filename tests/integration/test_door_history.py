"""A real Home Assistant has every late reading in its statistics, each once, whatever is killed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_conf.mosquitto.broker import free_port
from covey.adapters.doors import home_assistant_history
from covey.adapters.doors.home_assistant import HomeAssistantDoor
from covey.adapters.doors.home_assistant_history import HomeAssistantHistory
from covey.adapters.doors.home_statistics import converted, hour_text
from covey.config.doors import read_doors
from tests.door_outage import HOURS, Outage, survives, work
from tests.house_broker import HouseBroker
from tests.proof import begins
from tests.real_home import PYTHON, RealHome
from tests.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.proof]

_UNITS = """
import json
from homeassistant.util import unit_conversion as u
found = []
for each in (u.TemperatureConverter, u.PressureConverter, u.ElectricPotentialConverter, u.ElectricCurrentConverter,
             u.PowerConverter, u.DistanceConverter, u.MassConverter, u.SpeedConverter, u.DurationConverter):
    units = sorted(map(str, each.VALID_UNITS))
    found += [[a, b, each.convert(21.5, a, b)] for a in units for b in units]
print(json.dumps(found))
"""


class _House:
    """A broker, Home Assistant, and a door to them for each outage."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.broker = folder, HouseBroker(folder)
        self.home = RealHome(folder / "home", free_port(), self.broker)
        self.home.start()
        self.doors: list[HomeAssistantDoor] = []

    def outage(self, number: int, now_us: int) -> tuple[Outage, HomeAssistantDoor, HomeAssistantHistory]:
        """Return an outage of a new device, and what a door has."""
        (self.folder / "home.token").touch(0o600)
        (self.folder / "home.token").write_text(self.home.token)
        given = {
            "name": f"home{number}",
            "kind": "home-assistant",
            "url": self.broker.url,
            "password_file": "home.password",
            "history_url": self.home.url,
            "token_file": "home.token",
            "start": "all",
        }
        (entry,) = read_doors([("x", given)])
        door = HomeAssistantDoor(entry.options, entry.name, "door home", self.folder)
        self.doors.append(door)
        outage = Outage(self.folder / str(number), number, entry, now_us)
        return outage, door, HomeAssistantHistory(entry.options, "door home", self.folder)

    def rows(self, outage: Outage, unit: str = "°C") -> dict[int, dict[str, float]]:
        """Return what is stored of the hours around an outage."""
        entity = self.home.entity_id(outage.unique_id)
        found = self.home.ask(
            "recorder/statistics_during_period",
            start_time=hour_text(outage.first_hour - 3),
            end_time=hour_text(outage.last_hour + 1),
            statistic_ids=[entity],
            period="hour",
            types=["mean", "min", "max"],
            units={"temperature": unit},
        )
        rows: list[dict[str, Any]] = found.get(entity, [])
        assert len({each["start"] for each in rows}) == len(rows)
        return {each["start"] // 3_600_000: {name: each[name] for name in ("mean", "min", "max")} for each in rows}

    def unit(self, entity: str) -> str:
        """Return the unit in which an entity's statistics are stored."""
        (about,) = self.home.ask("recorder/get_statistics_metadata", statistic_ids=[entity])
        return str(about["statistics_unit_of_measurement"])

    def close(self) -> None:
        for door in self.doors:
            door.close()
        self.home.kill()
        self.broker.broker.stop()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_House]:
    monkeypatch.setattr(home_assistant_history, "DOOR_IMPORT_LOOK_SECONDS", 0.05)
    found = _House(tmp_path)
    try:
        yield found
    finally:
        found.close()


def _now_us() -> int:
    return time.time_ns() // 1_000


def _expected(outage: Outage) -> dict[int, Any]:
    return {hour: pytest.approx(row, rel=1e-9) for hour, row in outage.expected().items()}


def _is_done(outage: Outage, door: HomeAssistantDoor, history: HomeAssistantHistory) -> bool:
    """Let a door work once more, and say whether nothing waits."""
    runners = outage.open(door, history)
    work(runners, 1)
    state = runners[0].file.hours.state(outage.door_name)
    for runner in runners:
        runner.file.close()
    return state is not None and state.waiting == 0


def test_five_hours_offline_are_in_the_statistics_once_after_a_kill_at_each_step(
    house: _House, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at = 0
    while True:
        outage, door, history = house.outage(killed_at, _now_us())
        was_killed = survives(outage, door, history, monkeypatch, killed_at)
        wait_until(partial(_is_done, outage, door, history), "all hours are imported")
        assert len(outage.values) == HOURS
        assert house.rows(outage) == _expected(outage), f"killed at step {killed_at}"
        door.close()
        if not was_killed:
            break
        killed_at += 1
    assert killed_at > 20


def test_home_assistant_is_killed_and_a_person_prefers_fahrenheit(house: _House) -> None:
    outage, door, history = house.outage(1, _now_us())
    outage.begins()
    work(outage.open(door, history), 1)
    outage.stays_online(30)
    work(outage.open(door, history), 1)
    wait_until(lambda: house.home.entity_id(outage.unique_id), "the entity is there")
    house.home.kill()
    outage.returns(30)
    runners = outage.open(door, history)
    work(runners)
    state, sent = runners[0].file.hours.state("home1"), runners[0].file.state("home1")
    assert state is not None
    assert sent is not None
    assert (state.hours, state.waiting) == (0, HOURS)
    assert "cannot be reached" in state.error
    assert sent.error == ""
    house.home.start()
    wait_until(lambda: _is_done(outage, door, history), "all hours are imported")
    assert house.rows(outage) == _expected(outage)
    entity = house.home.entity_id(outage.unique_id)
    house.home.ask(
        "recorder/change_statistics_unit",
        statistic_id=entity,
        old_unit_of_measurement="°C",
        new_unit_of_measurement="°F",
    )
    wait_until(lambda: house.unit(entity) == "°F", "it has converted what it has")
    outage.measures_more()
    wait_until(lambda: _is_done(outage, door, history), "the hour is imported again")
    assert house.rows(outage) == _expected(outage)
    assert house.unit(entity) == "°F"


def test_units_are_converted_as_home_assistant_does() -> None:
    begins()
    printed = subprocess.run([PYTHON, "-c", _UNITS], capture_output=True, text=True, check=True).stdout
    unknown, known = set[str](), set[str]()
    for unit, wanted, value in json.loads(printed):
        found = converted(21.5, unit, wanted)
        if found is None:
            unknown |= {unit, wanted}
        else:
            known |= {unit, wanted} if unit != wanted else set()
            assert found == pytest.approx(value, rel=1e-5), (unit, wanted)
    assert all(each == "μs" or each.endswith(("/h", "/d")) for each in unknown - known), unknown - known  # rain
