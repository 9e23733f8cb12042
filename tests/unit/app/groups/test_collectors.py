"""`covey group show` names the collectors that members choose, and who takes over when one falls silent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.app.device.device import Device, find_state, open_device
from covey.app.groups.collectors import group_collectors
from covey.app.groups.groups import create_group
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member
from covey.core.ids import EpochId, device_name
from tests.command import Here
from tests.fleet import identity

_COLLECTORS = [identity(f"collector {number}") for number in range(3)]
_PEERS = [identity(f"peer {number}") for number in range(20)]


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    hub = Here(tmp_path, "hub")
    hub.ok("config", "set", "relay.url", "mqtt://127.0.0.1:1")
    return hub


@pytest.fixture
def device(hub: Here) -> Iterator[Device]:
    with open_device(find_state(str(hub.state))) as opened:
        yield opened


def _group(device: Device, collectors: int) -> GroupManifest:
    def edit(draft: GroupManifest, _: EpochId) -> GroupManifest:
        for number, one in enumerate(_COLLECTORS[:collectors]):
            draft = draft.adding(Member(one.keys, f"barn {number}", capabilities=(COLLECTOR,), since=draft.version))
        for one in _PEERS:
            draft = draft.adding(Member(one.keys, "peer", since=draft.version))
        return draft

    group = create_group(device, (), "admin-invites")
    with device.store.transaction():
        device.node.actions.change(group.group_id, edit, device.now())
    return device.node.groups.group(group.group_id)


def test_each_member_is_counted_at_the_collector_that_it_chooses(device: Device) -> None:
    group = _group(device, 3)
    chosen = [device.node.groups.collector_of(group.group_id, each.keys.signing_public) for each in group.members]
    found = group_collectors(group, ())
    assert {each.device: each.members for each in found} == {
        device_name(one.signing_public): [each.keys for each in chosen if each is not None].count(one.keys)
        for one in _COLLECTORS
    }
    assert sum(each.members for each in found) == len(group.members)
    assert [each.members for each in found] == sorted((each.members for each in found), reverse=True)


def test_what_a_silent_collector_took_goes_to_a_successor(device: Device) -> None:
    group = _group(device, 3)
    first = device.node.groups.collector_of(group.group_id)
    assert first is not None
    with device.store.transaction():
        device.store.presence.set_silent_collector(first.keys.signing_public, device.now().wall_us)
    second = device.node.groups.collector_of(group.group_id)
    assert second is not None
    found = {each.device: each for each in group_collectors(group, device.store.presence.silent_collectors())}
    assert [each.silent for each in found.values()].count(True) == 1
    assert found[first.name].silent
    assert second.label in found[first.name].successors


def test_group_show_names_collectors_successors_and_relay(hub: Here, device: Device) -> None:
    group = _group(device, 2)
    device.store.close()
    shown = hub.ok("group", "show")
    assert shown.count("takes the readings of ") == 2
    assert shown.count("this device's, too") == 1
    assert "barn 1 would take over" in shown
    assert "relay    mqtt://127.0.0.1:1 (agent not running)\n" in shown
    found = hub.json("group", "show")
    assert {each["label"] for each in found["collectors"]} == {"barn 0", "barn 1"}
    assert found["own_collector"] in {each["device"] for each in found["collectors"]}
    assert found["relays"] == [{"url": "mqtt://127.0.0.1:1", "state": "agent not running"}]
    fleet = hub.json("fleet")
    assert fleet["groups"][0]["collectors"] == found["collectors"]
    assert fleet["relays"] == found["relays"]
    assert "relay: mqtt://127.0.0.1:1 (agent not running)\n" in hub.ok("fleet")
    assert group.group_id.hex() == found["group_id"]


def test_a_group_without_collectors_and_one_with_a_single_one_say_so(hub: Here) -> None:
    hub.ok("group", "create")
    assert "readings no collector takes them: covey group profile DEVICE --capability collector" in hub.ok(
        "group", "show"
    )
    hub.ok("group", "profile", "--capability", "collector")
    assert "takes the readings of 1 member; this device's, too; no other would take over" in hub.ok("group", "show")
