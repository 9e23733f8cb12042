"""What a person's devices say of their groups and preferences reaches programs as events, as it is now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.app.api.events import FROM_THE_BEGINNING, DeviceEvent, Events, check_types
from covey.app.device.device import find_state, open_device
from covey.app.groups.documents import OwnGroupEvent, OwnPreferenceEvent
from covey.app.groups.own import read_preference
from covey.core.group.manifest import Mode
from covey.core.history.personal import Preference
from covey.errors import UsageError
from tests.command import Here


@pytest.fixture
def laptop(tmp_path: Path) -> Here:
    here = Here(tmp_path, "laptop")
    here.ok("own", "create")
    return here


def _reported(here: Here, types: str = "own_group,preference") -> list[DeviceEvent]:
    with open_device(find_state(str(here.state))) as device:
        return list(Events(device, FROM_THE_BEGINNING, check_types(types)).read())


@pytest.mark.slow
def test_a_preference_is_shown_as_it_is_now(laptop: Here) -> None:  # accepts: 003.61
    personal = laptop.json("group", "show")["group_id"]
    laptop.ok("own", "preference", "theme", "dark")
    laptop.ok("own", "preference", "units", "SI")
    laptop.ok("own", "preference", "--unset", "units")
    found = [each.data for each in _reported(laptop)]
    assert all(isinstance(each, OwnPreferenceEvent) and each.group_id == personal for each in found)
    assert [(each.about, each.key, each.value) for each in found if isinstance(each, OwnPreferenceEvent)] == [
        (None, "theme", "dark"),
        (None, "units", None),
        (None, "units", None),
    ]
    ids = [each.id for each in _reported(laptop, "")]
    assert len(set(ids)) == len(ids), "each resumes by itself, the operation that says it too"


def test_a_group_that_was_left_is_reported(laptop: Here) -> None:  # accepts: 003.51
    fleet = laptop.json("group", "create")["group_id"]
    laptop.ok("group", "leave", "--group", fleet, "--yes")
    *_, last = _reported(laptop)
    assert isinstance(last.data, OwnGroupEvent)
    assert (last.data.group.group_id, last.data.group.state, last.data.group.member) == (fleet, "left", False)


def test_preferences_in_other_groups_are_no_events(laptop: Here) -> None:
    with open_device(find_state(str(laptop.state))) as device, device.store.transaction():
        other = device.node.membership.create("laptop", (), device.now().wall_us, Mode.PERSONAL)
        device.node.history.write(other.group_id, Preference(None, "theme", "dark"), device.now())
    assert _reported(laptop) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"key": "theme"}',
        b'{"key": 1, "value": "dark"}',
        b'{"key": "theme", "value": true}',
        b'{"key": "theme", "value": "dark", "group": 3}',
        b'{"key": "theme", "value": "dark", "more": 1}',
        b'{"key": "theme", "value": "\\ud800"}',
    ],
)
def test_a_preference_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError):
        read_preference(body)


def test_a_preference_is_read() -> None:
    body = {"key": "theme", "value": None, "group": "3f"}
    assert read_preference(json.dumps(body).encode()) == ("theme", None, "3f")
