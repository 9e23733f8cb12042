"""Late readings on their way into a receiver's history: each once, wherever the door is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.doors import home_assistant_history
from covey.adapters.doors.home_assistant_history import HomeAssistantHistory
from covey.adapters.doors.kinds import open_door
from covey.adapters.sqlite.door_file import DoorFile
from covey.config.doors import HomeAssistant, read_doors
from tests import door_outage
from tests.door_outage import Outage
from tests.house_api import TOKEN, HouseApi, house_api
from tests.receiver import receiver
from tests.spark.fleet import NOW_US


class _Site:
    """A house, and outages that each have a device and a door of their own."""

    def __init__(self, folder: Path, house: HouseApi, house_url: str, web_url: str) -> None:
        self.folder, self.house = folder, house
        (folder / "home.token").touch(0o600)
        (folder / "home.token").write_text(TOKEN)
        options = HomeAssistant(url="mqtt://hub.local", history_url=house_url, token_file="home.token")
        self.history = HomeAssistantHistory(options, "door home", folder)
        (self.entry,) = read_doors([("x", {"name": "home", "kind": "webhook", "url": web_url, "start": "all"})])
        self.door = open_door(self.entry, folder)  # what a door does with readings is another matter

    def outage(self, number: int) -> Outage:
        found = Outage(self.folder / str(number), number, self.entry, NOW_US + 1_800_000_000)
        self.house.entities[found.unique_id] = f"sensor.air_{number}"
        return found

    def rows(self, number: int) -> dict[int, dict[str, float]]:
        return {hour: row for (entity, hour), row in self.house.rows.items() if entity == f"sensor.air_{number}"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Site]:
    monkeypatch.setattr(home_assistant_history, "DOOR_IMPORT_LOOK_SECONDS", 0.01)
    with house_api() as (house, url), receiver() as web:
        yield _Site(tmp_path, house, url, web.url)


@pytest.mark.slow
def test_hours_of_an_outage_are_whole_after_a_kill_at_each_step(site: _Site, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at = 0
    while True:
        lived = site.outage(killed_at)
        was_killed = door_outage.survives(lived, site.door, site.history, monkeypatch, killed_at)
        expected = {hour: pytest.approx(row) for hour, row in lived.expected().items()}
        assert len(expected) == door_outage.HOURS
        assert site.rows(killed_at) == expected, f"killed at step {killed_at}"
        if not was_killed:
            break
        killed_at += 1
    assert killed_at > 20


def test_what_fails_is_in_the_status_and_ends(site: _Site) -> None:
    lived = site.outage(1)
    entities, site.house.entities = site.house.entities, {}
    runners = lived.open(site.door, site.history)
    lived.begins()
    door_outage.work(runners, 1)
    lived.returns(0)
    door_outage.work(runners, 2)
    file = DoorFile(lived.folder / "doors.sqlite")
    state = file.hours.state("home")
    assert state is not None
    assert (state.hours, state.waiting, state.attempts) == (0, door_outage.HOURS, 2)
    assert state.error == f"Home Assistant has no entity {lived.unique_id}"
    sent = file.state("home")
    assert sent is not None
    assert (sent.error, sent.messages > 0) == ("", True)
    site.house.entities = entities
    door_outage.work(runners, 1)
    state = file.hours.state("home")
    assert state is not None
    assert (state.hours, state.waiting, state.attempts, state.error) == (door_outage.HOURS, 0, 0, "")
    file.close()
    assert lived.lines[-2:] == ["home: imported 5 hours with late readings", "home: importing again"]
