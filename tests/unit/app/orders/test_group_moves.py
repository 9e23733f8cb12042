"""An operator divides and merges groups: who moves, what is given along, what each device waits for, and the end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from covey.app.orders.moved_devices import MovedDevices
from covey.core.actions.results import NOT_ALLOWED, RECORDS_LOST, REVOKED, CommandState, OrderResult
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import Obeying
from covey.core.ids import DeviceKey, GroupId, OperationId, key_text
from covey.core.now import Now
from covey.core.orders.selector import SelectorKind
from covey.core.settings.desired import read_order
from covey.core.wire.heads import GroupHead, HeadsReport
from tests.command import Here
from tests.fleet import identity
from tests.operated_fleet import OperatedFleet

_MINUTE_US = 60_000_000


class Site(OperatedFleet):
    """Two groups with three devices each; the phone collects in both."""

    def __init__(self, folder: Path, *, threshold: int = 1) -> None:
        super().__init__(folder, groups=2, devices=3, threshold=threshold)
        self.old, self.new = self.groups
        for group in self.groups:
            self.laptop.ok("group", "profile", "phone", "--capability", "collector", "--group", group.hex())
        self.looks = 0

    def split(self, *words: str) -> dict[str, Any]:
        """Order devices to move to the second group."""
        where = ("--group", self.old.hex(), "--into", self.new.hex(), "--yes")
        found: dict[str, Any] = self.laptop.json("group", "split", *where, "--for", *words)
        return found

    def moved(self, own: Here, source: GroupId, target: GroupId, device: DeviceKey) -> str:
        """Have an own device order one device to move; return the order."""
        where = ("--group", source.hex(), "--into", target.hex(), "--yes", "--for", device.hex())
        order: str = own.json("group", "split", *where)["id"]
        return order

    def keys(self, own: Here, group: GroupId) -> set[DeviceKey]:
        """Return the members of a group, as an own device knows it."""
        with self.open(own) as opened:
            return {each.keys.signing_public for each in opened.node.groups.group(group).members}

    def members(self, group: GroupId) -> set[str]:
        return {each["label"] for each in self.laptop.json("group", "members", "--group", group.hex())}

    def versions(self, group: GroupId) -> int:
        with self.open(self.laptop) as opened:
            return opened.node.groups.group(group).version

    def results(
        self, order: str, devices: Iterable[DeviceKey], state: CommandState, code: str = "", *,
        group: GroupId | None = None, own: Here | None = None,
    ) -> None:  # fmt: skip
        """Have devices report the result of a move, to an own device: the laptop, if no other is named."""
        with self.open(own or self.laptop) as opened, opened.store.transaction():
            for key in devices:
                at_us = opened.now().wall_us
                exit_code = 0 if state is CommandState.DONE else None
                started_us = None if state is CommandState.REFUSED else at_us
                result = OrderResult(
                    *(OperationId(bytes.fromhex(order)), state, at_us, at_us, started_us, True, exit_code),
                    code=code,
                    why="" if state is CommandState.DONE else "it must not",
                )
                opened.node.order_results.keep(group or self.old, key, result, opened.now())

    def look(self) -> int | None:
        """Let the laptop's agent look once, a minute later than before."""
        self.looks += 1
        with self.open(self.laptop) as opened:
            now = Now(self.looks * 2 * _MINUTE_US, opened.now().wall_us)
            return self.role(opened).turn(opened.node, now)

    def role(self, opened: Any) -> MovedDevices:
        return MovedDevices(opened)

    def states(self) -> dict[str, str]:
        [move] = self.laptop.json("group", "moves")
        return {each["label"]: each["state"] for each in move["devices"]}


@pytest.fixture(scope="module")
def made_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def site(made_site: Site, tmp_path: Path) -> Site:
    return made_site.copied(tmp_path)


def test_a_split_adds_the_devices_by_one_manifest_and_orders_the_rest(site: Site) -> None:
    before = site.versions(site.new)
    found = site.split("device-0,device-1")
    assert found["devices"] == ["device-0", "device-1"]
    assert site.versions(site.new) == before + 1
    with site.open(site.laptop) as opened:
        group = opened.node.groups.group(site.new)
        assert all(group.member(key) is not None for key in site.devices[site.old][:2])
        assert group.member(site.devices[site.old][2]) is None
    assert site.states() == {"device-0": "waiting", "device-1": "waiting"}
    [order] = site.laptop.json("order", "list", "--group", site.old.hex())
    assert order["id"] == found["id"]


@pytest.mark.slow
def test_those_that_have_moved_are_removed_together_and_then_nothing_is_open(site: Site) -> None:
    order = site.split("all")["id"]
    keys = site.devices[site.old]
    version = site.versions(site.old)
    site.look()
    assert site.versions(site.old) == version
    site.results(order, keys, CommandState.DONE)
    assert set(site.states().values()) == {"leaving"}
    site.look()
    assert site.versions(site.old) == version + 1
    assert site.members(site.old) == {"laptop", "phone"}
    assert set(site.states().values()) == {"moved"}
    site.look()
    with site.open(site.laptop) as opened:
        assert opened.store.move_orders.all() == []
    assert site.look() is None


@pytest.mark.slow
def test_a_device_that_came_back_is_not_removed_once_more(site: Site) -> None:
    order = site.split("device-0")["id"]
    first = site.devices[site.old][0]
    site.results(order, [first], CommandState.DONE)
    site.look()
    assert "device-0" not in site.members(site.old)
    keys = [key_text(kind, key) for kind, key in (("sign", first), ("noise", identity("0 0").noise_public))]
    site.laptop.ok("group", "add", *keys, "--label", "device-0", "--group", site.old.hex())
    site.laptop.ok("group", "moves", "--continue", order[:8])
    site.look()
    assert "device-0" in site.members(site.old)
    assert site.states() == {"device-0": "moved"}


def test_a_device_that_does_not_move_is_taken_from_the_new_group_again(site: Site) -> None:
    order = site.split("device-0,device-1,device-2")["id"]
    first, second, third = site.devices[site.old]
    site.results(order, [first], CommandState.REFUSED, NOT_ALLOWED)
    site.results(order, [second], CommandState.STOPPED, REVOKED)
    site.results(order, [third], CommandState.DONE)
    site.look()
    with site.open(site.laptop) as opened:
        old, new = opened.node.groups.group(site.old), opened.node.groups.group(site.new)
        assert [old.member(key) is not None for key in (first, second, third)] == [True, True, False]
        assert [new.member(key) is not None for key in (first, second, third)] == [False, False, True]
    assert site.states() == {"device-0": "failed", "device-1": "failed", "device-2": "moved"}


@pytest.mark.parametrize("said", ["its head", "that it obeys"])
def test_a_device_that_was_in_the_new_group_before_and_does_not_move_is_taken_out(site: Site, said: str) -> None:
    """What it said there, it said in an earlier stay. It has lost its records, and so never moves."""
    first = site.devices[site.old][0]
    if said == "that it obeys":
        with site.open(site.laptop) as opened:
            site.say(opened, site.new, identity("0 0"), Obeying())
    order = site.split("device-0")["id"]
    with site.open(site.laptop) as opened, opened.store.transaction():
        report = HeadsReport(False, (GroupHead(site.new, 1, bytes(16)),) if said == "its head" else ())
        opened.store.heads.note(first, GroupId(bytes(32)), report.to_wire(), opened.now().wall_us)
    assert site.states() == {"device-0": "waiting"}
    site.results(order, [first], CommandState.UNKNOWN, RECORDS_LOST)
    site.look()
    with site.open(site.laptop) as opened:
        assert opened.node.groups.group(site.new).member(first) is None
    assert site.states() == {"device-0": "failed"}


@pytest.mark.slow
def test_a_device_that_moved_before_came_back_and_does_not_move_again_is_taken_out(site: Site) -> None:
    order = site.split("device-0")["id"]
    first = site.devices[site.old][0]
    site.results(order, [first], CommandState.DONE)
    site.look()
    keys = [key_text(kind, key) for kind, key in (("sign", first), ("noise", identity("0 0").noise_public))]
    site.laptop.ok("group", "add", *keys, "--label", "device-0", "--group", site.old.hex())
    site.laptop.ok("group", "remove", first.hex(), "--group", site.new.hex(), "--yes")
    second = site.split("device-0")["id"]
    site.results(second, [first], CommandState.REFUSED, NOT_ALLOWED)
    site.look()
    with site.open(site.laptop) as opened:
        assert opened.node.groups.group(site.new).member(first) is None


def test_one_that_a_second_order_moves_stays_listed(site: Site) -> None:
    order = site.split("device-0")["id"]
    site.split("device-0")
    first = site.devices[site.old][0]
    site.results(order, [first], CommandState.STOPPED, REVOKED)
    site.look()
    with site.open(site.laptop) as opened:
        assert opened.node.groups.group(site.new).member(first) is not None


def test_settings_hold_in_the_new_group_unless_it_has_its_own(site: Site) -> None:
    laptop, old, new = site.laptop, site.old.hex(), site.new.hex()
    laptop.ok("setting", "set", "telemetry.batch_seconds", "10", "--for", "all", "--group", old)
    laptop.ok("setting", "set", "sensors.interval_seconds", "30", "--for", "device-1", "--group", old)
    laptop.ok("setting", "set", "log.level", "warning", "--for", "all", "--group", old)
    laptop.ok("setting", "set", "log.level", "error", "--for", "all", "--group", new)
    laptop.ok("setting", "set", "app.key", "--secret", "--from", "-", "--for", "all", "--group", old, feed="hunter2")
    found = site.split("device-0,device-1")
    assert sorted(found["settings"]) == ["sensors.interval_seconds", "telemetry.batch_seconds"]
    assert found["lost_settings"] == ["app.key"]
    with site.open(laptop) as opened:
        stored = opened.store.operations.of_kind(site.new, OperationKind.SETTING)
        orders = {each.order.key: each.order for each in (read_order(one.raw) for one in stored)}
    assert orders["telemetry.batch_seconds"].value == 10
    assert orders["telemetry.batch_seconds"].selector.kind is SelectorKind.DEVICES
    assert set(orders["telemetry.batch_seconds"].selector.devices) == set(site.devices[site.old][:2])
    assert orders["sensors.interval_seconds"].selector.devices == (site.devices[site.old][1],)
    assert orders["log.level"].value == "error"


def test_a_merge_moves_all_that_can_and_names_the_others(site: Site) -> None:
    found = site.laptop.json("group", "merge", "--group", site.old.hex(), "--into", site.new.hex(), "--yes")
    assert found["devices"] == ["device-0", "device-1", "device-2"]
    assert {each["why"] for each in found["staying"]} == {"it is this device", "it is an operator"}
    said = site.laptop.ok("group", "moves")
    assert "3 waiting" in said
    assert "device-0" in said


def test_if_no_device_can_move_each_is_named_with_the_reason(site: Site) -> None:
    where = ("--group", site.old.hex(), "--into", site.new.hex(), "--yes", "--for", "laptop,phone")
    said = site.laptop.fails("group", "split", *where, code=1)
    assert "none of 2 devices can move: " in said
    assert "laptop: it is this device" in said
    assert "phone: it is an operator" in said


def test_another_device_of_the_operator_completes_a_move(site: Site) -> None:
    order = site.split("device-0")["id"]
    assert site.phone is not None
    site.carry([site.personal, *site.groups])
    [seen] = site.phone.json("group", "moves")
    assert (seen["id"], seen["finishes"]) == (order, False)
    assert f"covey group moves --continue {order[:8]}" in site.phone.ok("group", "moves")
    [seen] = site.phone.json("group", "moves", "--continue", order[:8])
    assert seen["finishes"]


@pytest.mark.slow
def test_another_device_of_the_operator_adds_the_devices_that_the_first_one_could_not(site: Site) -> None:
    """The laptop's order reached the old group, and then it died: nobody has its manifest of the new group."""
    site.laptop.ok("setting", "set", "log.level", "warning", "--for", "device-0", "--group", site.old.hex())
    order = site.split("device-0,device-1")["id"]
    assert site.phone is not None
    site.carry([site.personal, site.old])
    with site.open(site.phone) as opened:
        before = opened.node.groups.group(site.new)
        assert all(before.member(key) is None for key in site.devices[site.old])
    with site.open(site.phone) as opened, opened.store.transaction():  # device-0 was there before
        report = HeadsReport(False, (GroupHead(site.new, 1, bytes(16)),))
        opened.store.heads.note(site.devices[site.old][0], GroupId(bytes(32)), report.to_wire(), opened.now().wall_us)
    for _ in range(2):
        site.phone.ok("group", "moves", "--continue", order[:8])
    with site.open(site.phone) as opened:
        group = opened.node.groups.group(site.new)
        assert group.version == before.version + 1
        assert [group.member(key) is not None for key in site.devices[site.old]] == [True, True, False]
        [setting] = opened.store.operations.of_kind(site.new, OperationKind.SETTING)
        given = read_order(setting.raw).order
        assert (given.key, given.selector.devices) == ("log.level", (site.devices[site.old][0],))


def test_another_device_of_the_operator_adds_no_device_that_has_moved(site: Site) -> None:
    """An operator has taken it out of the new group since."""
    order = site.split("device-0")["id"]
    first = site.devices[site.old][0]
    site.results(order, [first], CommandState.DONE)
    site.laptop.ok("group", "remove", first.hex(), "--group", site.new.hex(), "--yes")
    site.laptop.ok("group", "moves", "--continue", order[:8])
    with site.open(site.laptop) as opened:
        assert opened.node.groups.group(site.new).member(first) is None


def test_nothing_is_ordered_that_cannot_be_done(site: Site) -> None:
    laptop, old, new = site.laptop, site.old.hex(), site.new.hex()
    where = ("--yes", "--for", "device-0")
    same = laptop.covey("group", "split", "--group", old, "--into", old, *where)
    assert (same.code, "the same group" in same.stderr) == (2, True)
    own = laptop.covey("group", "split", "--group", old, "--into", new, "--yes", "--for", "capability:collector")
    assert (own.code, "it is an operator" in own.stderr) == (1, True)
    nobody = laptop.covey("group", "split", "--group", old, "--into", new, "--yes")
    assert (nobody.code, "--for is missing" in nobody.stderr) == (2, True)
    third = laptop.json("group", "create")["group_id"]
    empty = laptop.covey("group", "split", "--group", old, "--into", third, *where)
    assert (empty.code, "has no collector" in empty.stderr) == (1, True)
    personal = laptop.covey("group", "split", "--group", old, "--into", site.personal.hex(), *where)
    assert personal.code == 1
    assert laptop.json("group", "moves") == []
    assert laptop.json("order", "list", "--group", old) == []


def test_a_device_that_still_says_it_is_in_the_new_group_is_left_out(site: Site) -> None:
    """It was removed there a moment ago, has not heard of it, and would refuse to move there."""
    key = site.devices[site.old][0]
    with site.open(site.laptop) as opened, opened.store.transaction():
        report = HeadsReport(False, (GroupHead(site.new, 1, bytes(16)),))
        opened.store.heads.note(key, GroupId(bytes(32)), report.to_wire(), opened.now().wall_us)
    found = site.split("device-0,device-1")
    assert found["devices"] == ["device-1"]
    [staying] = found["staying"]
    assert (staying["label"], staying["why"]) == ("device-0", "it has yet to say that it has left the new group")


def test_a_device_that_still_moves_out_of_the_new_group_is_left_out(site: Site) -> None:
    """The removal that completes the first move would take it out of the group that it returns to."""
    site.split("device-0")
    first, back = site.devices[site.old][0], site.devices[site.new][0]
    with site.open(site.laptop) as opened:
        site.say(opened, site.new, identity("0 0"), Obeying())
    where = ("--group", site.new.hex(), "--into", site.old.hex(), "--yes", "--for", f"{first.hex()},{back.hex()}")
    found = site.laptop.json("group", "split", *where)
    assert len(found["devices"]) == 1
    [staying] = found["staying"]
    assert (staying["device"], staying["why"]) == (first.hex(), "it is still moving out of the new group")


def test_a_device_that_was_taken_out_of_the_new_group_waits(site: Site) -> None:
    """Its last report names the group still; a person may continue the move, which adds it again."""
    order = site.split("device-0")["id"]
    first = site.devices[site.old][0]
    with site.open(site.laptop) as opened, opened.store.transaction():
        version = opened.node.groups.group(site.new).version
        report = HeadsReport(False, (GroupHead(site.new, version, bytes(16)),))
        opened.store.heads.note(first, GroupId(bytes(32)), report.to_wire(), opened.now().wall_us)
    assert site.states() == {"device-0": "delivering"}
    site.laptop.ok("group", "remove", first.hex(), "--group", site.new.hex(), "--yes")
    assert site.states() == {"device-0": "waiting"}
    site.look()
    assert first not in site.keys(site.laptop, site.new)
    site.laptop.ok("group", "moves", "--continue", order[:8])
    assert first in site.keys(site.laptop, site.new)


@pytest.mark.slow
def test_a_device_that_another_move_took_out_meanwhile_is_added_again_once(site: Site) -> None:
    """The phone orders it back, and has not heard that the laptop orders it away: for the phone it is there."""
    key, one, phone = site.devices[site.new][0], identity("1 0"), site.phone
    assert phone is not None
    site.carry([site.new])
    away = site.moved(site.laptop, site.new, site.old, key)
    with site.open(site.laptop) as opened:
        site.say(opened, site.old, one, Obeying())
    site.carry([site.personal, site.old])
    site.moved(phone, site.old, site.new, key)
    for own in (site.laptop, phone):
        site.results(away, [key], CommandState.DONE, group=site.new, own=own)
    site.look()
    site.carry([site.new])
    assert key not in site.keys(phone, site.new)
    with site.open(phone) as opened:
        role, actions, wall_us = site.role(opened), opened.node.actions, opened.now().wall_us
        with opened.store.transaction():
            report = HeadsReport(False, (GroupHead(site.new, 1, bytes(16)),))
            opened.store.heads.note(key, GroupId(bytes(32)), report.to_wire(), wall_us)
        role.turn(opened.node, Now(2 * _MINUTE_US, wall_us))
        assert opened.node.groups.group(site.new).member(key) is None, "it still says that it is there"
        with opened.store.transaction():
            opened.store.heads.note(key, GroupId(bytes(32)), HeadsReport(False, ()).to_wire(), wall_us)
        role.turn(opened.node, Now(4 * _MINUTE_US, wall_us))
        assert opened.node.groups.group(site.new).member(key) is not None
        with opened.store.transaction():
            actions.change(site.new, lambda draft, epoch: draft.removing(key, epoch), opened.now())
        role.turn(opened.node, Now(6 * _MINUTE_US, wall_us))
        assert opened.node.groups.group(site.new).member(key) is None, "a person has removed it"


@pytest.mark.slow
def test_a_device_that_a_person_removed_is_not_added_again_for_an_earlier_move(site: Site) -> None:
    key = site.devices[site.new][0]
    away = site.moved(site.laptop, site.new, site.old, key)
    with site.open(site.laptop) as opened:
        site.say(opened, site.old, identity("1 0"), Obeying())
    site.results(away, [key], CommandState.DONE, group=site.new)
    site.look()
    site.moved(site.laptop, site.old, site.new, key)
    assert key in site.keys(site.laptop, site.new)
    site.laptop.ok("group", "remove", key.hex(), "--group", site.new.hex(), "--yes")
    site.look()
    assert key not in site.keys(site.laptop, site.new)


def test_a_device_that_the_new_group_removed_again_stays_in_the_old_one(site: Site) -> None:
    """Else it would be in none: so it is if two operators' devices changed the new group at once, and a removal won."""
    order = site.split("device-0")["id"]
    first = site.devices[site.old][0]
    site.laptop.ok("group", "remove", first.hex(), "--group", site.new.hex(), "--yes")
    site.results(order, [first], CommandState.DONE)
    [move] = site.laptop.json("group", "moves")
    [shown] = move["devices"]
    assert (shown["state"], shown["why"]) == ("failed", "it was removed from the new group after it had moved")
    site.look()
    assert "device-0" in site.members(site.old)


@pytest.mark.slow
def test_where_several_operators_must_sign_nothing_moves_before_they_have(tmp_path: Path) -> None:
    site = Site(tmp_path, threshold=2)
    order = site.split("device-0")["id"]
    [entry] = site.laptop.json("order", "list", "--group", site.old.hex())
    assert (entry["id"], entry["counts"]) == (order, False)


@pytest.mark.slow
def test_a_move_ends_although_history_is_deleted_meanwhile(site: Site) -> None:
    order = site.split("device-0,device-1")["id"]
    first, second = site.devices[site.old][:2]
    site.results(order, [first], CommandState.DONE)
    site.results(order, [second], CommandState.REFUSED, NOT_ALLOWED)
    site.delete_covered(site.laptop, site.old)
    site.look()
    with site.open(site.laptop) as opened:
        old, new = opened.node.groups.group(site.old), opened.node.groups.group(site.new)
        assert (old.member(first), new.member(second)) == (None, None)
    site.look()
    site.delete_covered(site.laptop, site.old)
    assert "which a checkpoint covers" in site.laptop.fails("order", "show", order, "--group", site.old.hex(), code=1)
    assert site.look() is None


def test_a_move_of_a_former_operator_is_not_looked_at_for_ever(site: Site) -> None:
    order = site.split("device-0")["id"]
    assert site.phone is not None
    site.carry([site.personal, *site.groups])
    site.phone.ok("group", "moves", "--continue", order[:8])
    site.phone.ok("config", "set", "operations.operators", site.phone.json("key", "show")["signing_key"])
    assert site.phone.json("group", "moves") == []
    with site.open(site.phone) as opened:
        role, now_us = site.role(opened), opened.now().wall_us
        assert role.turn(opened.node, Now(_MINUTE_US, now_us)) is not None
        assert role.turn(opened.node, Now(2 * _MINUTE_US, now_us)) is None
