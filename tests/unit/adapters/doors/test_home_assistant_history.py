"""Imports into Home Assistant's statistics, at a server that speaks its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.doors import home_assistant_history
from covey.adapters.doors.home_assistant_history import HomeAssistantHistory
from covey.adapters.doors.kinds import ImportedHours
from covey.config.doors import HomeAssistant
from covey.core.telemetry.door_hours import DueHour
from covey.errors import ConfigurationError, DoorError
from tests.house_api import TOKEN, HouseApi, house_api

_HOUR = 497_000


class _House:
    """A house, and what a door imports there."""

    def __init__(self, house: HouseApi, url: str, folder: Path) -> None:
        self.api, self.url, self.folder = house, url, folder
        self.claimed: list[DueHour] = []
        house.entities = {"covey_1_air": "sensor.renamed", "covey_1_rain": "sensor.rain"}
        self.token(TOKEN)

    def token(self, text: str) -> None:
        path = self.folder / "home.token"
        path.touch(0o600)
        path.write_text(text)

    def send(self, *hours: DueHour, **options: str) -> ImportedHours:
        given = {"url": "mqtt://hub.local", "history_url": self.url, "token_file": "home.token", **options}
        history = HomeAssistantHistory(HomeAssistant(**given), "door home", self.folder)
        return history.send(hours, self.claimed.extend)


def _due(hour: int, mean: float, entity: str = "covey_1_air", unit: str = "Cel", *, is_part: bool = False) -> DueHour:
    return DueHour(1, entity, unit, hour, 2.0, 2 * mean, mean - 1, mean + 1, 1, is_part)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_House]:
    monkeypatch.setattr(home_assistant_history, "DOOR_IMPORT_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(home_assistant_history, "_LONGEST_LOOK_S", 0.01)
    with house_api() as (api, url):
        yield _House(api, url, tmp_path)


def test_hours_are_rows_of_the_entity_that_has_the_unique_id(house: _House) -> None:
    hours = [_due(_HOUR, 20.0), _due(_HOUR + 1, 21.0), _due(_HOUR + 40, 22.0), _due(_HOUR, 3.0, "covey_1_rain", "mm")]
    house.api.rows["sensor.renamed", _HOUR] = {"mean": 5.0, "min": 5.0, "max": 5.0}
    found = house.send(*hours)
    assert (sorted(found.stored), found.waiting, found.kept, found.failed) == (sorted(hours), [], [], [])
    assert house.api.rows == {
        ("sensor.renamed", _HOUR): {"mean": 20.0, "min": 19.0, "max": 21.0},
        ("sensor.renamed", _HOUR + 1): {"mean": 21.0, "min": 20.0, "max": 22.0},
        ("sensor.renamed", _HOUR + 40): {"mean": 22.0, "min": 21.0, "max": 23.0},
        ("sensor.rain", _HOUR): {"mean": 3.0, "min": 2.0, "max": 4.0},
    }
    assert house.api.units == {"sensor.renamed": "°C", "sensor.rain": "mm"}


@pytest.mark.parametrize(("path", "asked"), [("", "/api/websocket"), ("/core", "/core/websocket")])
def test_home_assistant_and_its_supervisor_are_asked_where_they_answer(house: _House, path: str, asked: str) -> None:
    assert house.send(_due(_HOUR, 20.0), history_url=house.url + path).stored
    assert house.api.paths == [asked]


def test_a_repetition_changes_nothing(house: _House) -> None:
    house.send(_due(_HOUR, 20.0))
    before = dict(house.api.rows)
    assert house.send(_due(_HOUR, 20.0)).stored
    assert house.api.rows == before


def test_a_unit_that_a_person_chose_stays(house: _House) -> None:
    house.api.units = {"sensor.renamed": "°F", "sensor.rain": "%"}
    found = house.send(_due(_HOUR, 20.0), _due(_HOUR, 3.0, "covey_1_rain", "mm"))
    assert house.api.rows["sensor.renamed", _HOUR]["mean"] == pytest.approx(68.0)
    assert house.api.units == {"sensor.renamed": "°F", "sensor.rain": "%"}
    assert found.failed == ["Home Assistant counts sensor.rain in %"]
    assert [each.entity for each in found.waiting] == ["covey_1_rain"]


def test_an_unknown_entity_stops_no_other(house: _House) -> None:
    found = house.send(_due(_HOUR, 20.0, "covey_gone_a"), _due(_HOUR, 20.0, "covey_gone_b"), _due(_HOUR, 20.0))
    assert [each.entity for each in found.stored] == ["covey_1_air"]
    assert [each.entity for each in found.waiting] == ["covey_gone_a", "covey_gone_b"]
    assert found.failed == ["Home Assistant has no entity covey_gone_a and 1 more"]


def test_a_part_of_an_hour_fills_only_a_hole(house: _House) -> None:
    own = {"mean": 5.0, "min": 5.0, "max": 5.0}
    house.api.rows["sensor.renamed", _HOUR] = dict(own)
    counted, hole = _due(_HOUR, 20.0, is_part=True), _due(_HOUR + 1, 21.0, is_part=True)
    found = house.send(counted, hole)
    assert (found.kept, house.claimed, found.stored) == ([counted], [hole], [hole])
    assert house.api.rows["sensor.renamed", _HOUR] == own
    assert house.api.rows["sensor.renamed", _HOUR + 1]["mean"] == 21.0


def test_the_newest_versions_get_the_form_that_they_want(house: _House) -> None:
    house.api.version = "2025.11.0"
    assert house.send(_due(_HOUR, 20.0)).stored
    assert house.api.imports[0]["metadata"]["unit_class"] == "temperature"


def test_what_is_answered_and_not_stored_waits(house: _House) -> None:
    house.api.answers_before_it_stores = 3
    assert house.send(_due(_HOUR, 20.0)).stored
    house.api.answers_before_it_stores = 100
    found = house.send(_due(_HOUR + 1, 20.0))
    assert (found.stored, found.failed) == ([], ["Home Assistant has not stored sensor.renamed"])
    assert len(found.waiting) == 1


def test_each_reason_is_said(house: _House) -> None:
    house.token("wrong")
    with pytest.raises(DoorError, match="refuses the token"):
        house.send(_due(_HOUR, 20.0))
    house.token(TOKEN)
    house.api.is_administrator = False
    with pytest.raises(DoorError, match="not an administrator's"):
        house.send(_due(_HOUR, 20.0))
    house.api.recording = False
    with pytest.raises(DoorError, match="does not record now"):
        house.send(_due(_HOUR, 20.0))
    house.api.state = "STARTING"
    with pytest.raises(DoorError, match="still starting"):
        house.send(_due(_HOUR, 20.0))
    with pytest.raises(DoorError, match="cannot be reached: Connection refused"):
        house.send(_due(_HOUR, 20.0), history_url="http://127.0.0.1:9")
    assert house.api.rows == {}


def test_a_server_that_is_no_home_assistant_or_sends_without_end_is_said(
    house: _House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.api.state = None  # type: ignore[assignment]
    house.api.leaves_at = 1
    with pytest.raises(DoorError, match=r"does not answer as|cannot be reached"):
        house.send(_due(_HOUR, 20.0))
    monkeypatch.setattr(home_assistant_history, "DOOR_IMPORT_BYTES", 600)
    house.api.leaves_at, house.api.state = 0, "RUNNING"
    house.api.entities = {f"covey_{number}": "sensor.x" for number in range(100)}
    with pytest.raises(DoorError, match="it sends too much"):
        house.send(_due(_HOUR, 20.0))


def test_a_token_crosses_no_foreign_network_in_the_clear(house: _House) -> None:
    for url, why in (
        ("http://example.org:8123", "needs https://"),
        ("http://hub.local:8123/lovelace", "nothing after the port"),
        ("ws://hub.local", "must be a http:// or https:// address"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            house.send(history_url=url)
    (house.folder / "home.token").chmod(0o644)
    with pytest.raises(ConfigurationError):
        house.send(_due(_HOUR, 20.0))
