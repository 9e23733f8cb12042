"""What `covey check` finds around a device: a broker without rules, members who know more, boards, the local API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.clock import SystemClock
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.adapters.state_folder import StateFolder
from covey.app.checks.examining import examine
from covey.app.checks.findings import Examined, Finding, Level
from covey.app.checks.groups import agreement
from covey.app.device.device import open_device
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.ids import DeviceKey, EpochId, GroupId, Incarnation, NoisePublic
from covey.ports import AttachedBoard
from tests.fleet import identity
from tests.integration.gateway import Gateway
from tests.waiting import wait_until


def _found(gateway: Gateway, check: str, *words: str) -> list[tuple[str, str, str]]:
    """Return the findings of one check: (level, line, hint)."""
    findings = json.loads(gateway.covey("check", "--json", *words).stdout)["findings"]
    return [(each["level"], each["line"], each["hint"]) for each in findings if each["check"] == check]


# -- the broker's rules -----------------------------------------------------------------------------------------------


@pytest.mark.broker
def test_a_broker_with_our_rules(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    [(level, line, _)] = _found(one, "acl")
    assert (level, line) == ("ok", "this device can send to others, and can read only its own inbox")
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["relay"]["state"] == "up", "the relay is up")
    [(level, line, hint)] = _found(one, "acl")
    assert (level, line) == ("skipped", "not tested: the test would disconnect the agent")
    assert "stop the agent, then covey check" in hint, "systemd does not run this agent"
    assert one.log.read_text().count("relay: connected") == 1  # undisturbed


@pytest.mark.broker
@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (
            "pattern readwrite #\npattern read $SYS/#\n",
            {"this device can read messages to other devices", "the broker shows this device its statistics ($SYS)"},
        ),
        ("pattern readwrite covey/1/in/+\n", {"this device can read messages to other devices"}),
        ("pattern readwrite covey/1/in/%u\n", {"the broker does not allow this device to send to others"}),
    ],
)
def test_a_broker_with_other_rules(tmp_path: Path, rules: str, says: set[str]) -> None:
    settings = {"acl_file": str(_write(tmp_path / "acl", rules)), "sys_interval": "1", "retain_available": "true"}
    with Broker(tmp_path / "broker", settings=settings) as broker:
        one = Gateway(tmp_path, "one", broker)
        found = _found(one, "acl")
        assert {line for _, line, _ in found} == says
        assert all("broker_conf/mosquitto/acl" in hint for _, _, hint in found)
        assert one.covey("check").returncode == 1


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.broker
def test_the_check_takes_nothing_away(broker: Broker, new_gateway: Callable[[str], Gateway]) -> None:
    """What waits at the broker for this device is still there when it comes back, and nothing else is."""
    one, two = new_gateway("one"), new_gateway("two")
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    one.invite(two)
    two.start("run", "--no-sensors")
    wait_until(lambda: two.json("status")["relay"]["state"] == "up", "the relay is up")
    wait_until(lambda: one.json("status")["outbox"]["messages"] == 0, "nothing else waits for it")
    two.end()
    one.ok("message", "send", "--text", "waits at the broker")
    wait_until(lambda: broker_has_answered(one), "the broker has it")
    one.end()
    assert [level for level, _, _ in _found(two, "acl")] == ["ok"]
    two.start("run", "--no-sensors")  # nobody is there to send it again
    assert two.ok("message", "receive", "--wait", "300") == "waits at the broker"
    assert not [name for name in two.counters() if name.startswith("dropped")]


def broker_has_answered(gateway: Gateway) -> bool:
    """Say whether a message has been handed over: its sender's relay is up, and it still waits for its recipient."""
    status = gateway.json("status")
    return bool(status["relay"]["state"] == "up" and status["outbox"]["messages"] == 1)


# -- other members ----------------------------------------------------------------------------------------------------


def _agreement(gateway: Gateway) -> list[Finding]:
    device = Examined(StateFolder.at(gateway.state), SystemClock())
    found = [each for each in examine(device, offline=True) if each.check == agreement.__name__]
    device.close()
    return found


class _LaterClock(SystemClock):
    """The machine's clock, some days ahead."""

    def __init__(self, days: int) -> None:
        super().__init__()
        self._ahead_us = days * 86_400_000_000

    def wall_us(self) -> int:
        """Return the date."""
        return super().wall_us() + self._ahead_us


@pytest.mark.parametrize(("days", "says"), [(2, "not seen yet"), (9, "nothing from other members for 9 days")])
def test_a_group_that_may_have_ended_without_this_device_is_named(tmp_path: Path, days: int, says: str) -> None:
    """As one that was destroyed, and forgotten by all others, before this state was restored."""
    folder = StateFolder.at(tmp_path / "state")
    folder.create({})
    ben, carl = Member(identity("ben").keys, "ben"), Member(identity("carl").keys, "carl")
    with open_device(folder) as device, device.store.transaction():
        now = device.now()
        group_id = device.node.membership.create("ann", (), now.wall_us).group_id
        device.node.membership.change(group_id, lambda draft, _: draft.adding(ben), now.wall_us)
        device.node.membership.change(group_id, lambda draft, _: draft.adding(carl), now.wall_us)
        device.store.heads.note(ben.keys.signing_public, GroupId(bytes(32)), None, now.wall_us)
    examined = Examined(folder, _LaterClock(days))
    [finding] = [each for each in examine(examined, offline=True) if each.check == agreement.__name__]
    examined.close()
    assert finding.level is Level.WARNING
    assert says in finding.line


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (119, "this device can make 99 more changes to it, then only remove members"),
        (20, "this device can make 0 more changes to it, then only remove members"),
        (120, "not seen yet"),
    ],
)
def test_a_device_that_has_used_up_its_allowance_is_named(tmp_path: Path, left: int, says: str) -> None:
    """In a group whose manifests have one page, 20 pages of an allowance are kept for removals."""
    folder = StateFolder.at(tmp_path / "state")
    folder.create({})

    def spend(draft: GroupManifest, _: EpochId) -> GroupManifest:
        ann, ben = replace(draft.members[0], allowance=left), Member(identity("ben").keys, "ben", since=draft.version)
        members = sorted((ann, ben), key=lambda each: each.keys.signing_public)
        return replace(draft, members=tuple(members), before=None)

    with open_device(folder) as device, device.store.transaction():
        now = device.now()
        group_id = device.node.membership.create("ann", (), now.wall_us).group_id
        device.node.membership.change(group_id, spend, now.wall_us)
    examined = Examined(folder, SystemClock())
    [finding] = [each for each in examine(examined, offline=True) if each.check == agreement.__name__]
    examined.close()
    assert finding.level is Level.WARNING
    assert says in finding.line


@pytest.mark.broker
def test_members_who_know_more(new_gateway: Callable[[str], Gateway]) -> None:
    one, two, three = new_gateway("one"), new_gateway("two"), new_gateway("three")
    one.ok("group", "create")
    one.start("run", "--no-sensors")
    one.invite(two)
    assert [each.level for each in _agreement(two)] == [Level.OK]
    one.invite(three)
    one.ok("group", "remove", "three", "--yes")
    one.end()

    store = SqliteStore(one.state / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    newest = [read_manifest(raw) for _, _, raw in store.groups.manifests()][-1]
    store.close()
    assert newest.version == 4
    store = SqliteStore(two.state / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    with store.transaction():  # as if version 3 had been lost on the way
        store.groups.keep_early_manifest(newest.group_id, newest.hash, newest.version, newest.raw)
    store.close()
    [finding] = _agreement(two)
    assert finding.level is Level.WARNING
    assert finding.line.endswith("members know version 4, this device 2")
    assert "requests what is missing" in finding.hint


def test_a_relay_that_takes_no_manifest_of_a_group(tmp_path: Path) -> None:
    one = Gateway(tmp_path, "one")
    one.ok("config", "set", "relay.url", "mqtt://localhost:9")
    one.ok("group", "create")
    store = SqliteStore(one.state / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    for payload, level in ((300, Level.WARNING), (100_000, Level.OK)):
        with store.transaction():  # as the agent notes it when that relay accepts it
            store.conditions.set("payload localhost:9", str(payload), 1)
        assert [each.level for each in _agreement(one)][:1] == [level]
        assert any("needs packets of" in each for each in one.json("status")["troubles"]) == (level is Level.WARNING)
        if level is Level.WARNING:
            assert "localhost:9 takes 3" in _agreement(one)[0].line
            assert "max_packet_size" in _agreement(one)[0].hint
    store.close()


# -- boards -----------------------------------------------------------------------------------------------------------


def test_boards(tmp_path: Path) -> None:
    alone = Gateway(tmp_path, "alone")
    assert _found(alone, "boards", "--offline") == [("skipped", "no board has been seen", "")]
    place = tmp_path / "port"
    place.touch()
    keys = DeviceKeys(DeviceKey(b"s" * 32), NoisePublic(b"n" * 32))
    store = SqliteStore(alone.state / "state.sqlite", Incarnation(bytes(8)), StorageKey(bytes(32)))
    for port, enrolled, up in [(f"{tmp_path}/gone", True, False), (str(place), True, False), (str(place), False, True)]:
        with store.transaction():
            store.boards.note(AttachedBoard(port, keys, "covey 1", enrolled, up, 1, {}))
        levels = [level for level, _, _ in _found(alone, "boards", "--offline")]
        assert levels == ["warning"] * len(levels)
    [gone, not_enrolled] = _found(alone, "boards", "--offline")
    assert gone[1].endswith("/gone is gone")
    assert not_enrolled[1].endswith("has no collector")
    with store.transaction():
        store.boards.note(AttachedBoard(str(place), keys, "covey 1", True, True, 1, {}))
    assert ("ok", f"{place}: covey 1", "") in _found(alone, "boards", "--offline")
    with store.transaction():
        store.boards.note(AttachedBoard(str(place), keys, "covey 1", True, True, 1, {}, "Scd41: OSError (19)"))
    found = [line for level, line, _ in _found(alone, "boards", "--offline") if level == "warning"]
    assert f"the board on {place} reports: Scd41: OSError (19)" in found
    assert "Scd41: OSError (19)" in alone.ok("mcu", "stats")
    assert any("reports: Scd41" in line for line in alone.json("status")["troubles"])
    assert all("identity.key" not in hint for _, _, hint in _found(alone, "boards", "--offline"))
    copy = tmp_path / "another port"
    copy.touch()
    with store.transaction():  # its flash was copied, with the identity
        store.boards.note(AttachedBoard(str(place), keys, "covey 1", True, True, 1, {}))
        store.boards.note(AttachedBoard(str(copy), keys, "covey 1", True, True, 1, {}, "it has the identity of ..."))
    hints = [hint for _, line, hint in _found(alone, "boards", "--offline") if f"{copy} reports" in line]
    assert [each.partition(",")[0] for each in hints] == ["on the copy: mpremote rm :identity.key"]
    store.close()


# -- the local API ----------------------------------------------------------------------------------------------------


@pytest.mark.broker
def test_an_api_that_is_set_but_not_served(new_gateway: Callable[[str], Gateway]) -> None:
    one = new_gateway("one")
    assert _found(one, "api", "--offline") == [("skipped", "api.socket is not set", "")]
    one.start("run", "--no-sensors")
    wait_until(lambda: one.json("status")["agent"] == "running", "the agent runs")
    one.ok("config", "set", "api.socket", "api.sock")
    [(level, line, hint)] = _found(one, "api", "--offline")
    assert (level, line) == ("error", f"no agent answers at {one.state / 'api.sock'}")
    assert "restart" in hint
