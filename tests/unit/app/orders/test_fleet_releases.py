"""Releases over several groups: waves of the whole fleet, one stop, one approval, and the operator's other device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.app.agent.completion_words import completion_words
from covey.app.orders.continuing import announce_release, lacking
from covey.app.orders.fleet import Scope, administered, remove_everywhere, shared_groups
from covey.app.orders.plans import find_plan
from covey.app.orders.release_reports import Release, release
from covey.app.orders.releases import PlannedPart, abort, begin, go_on, pause, plan_release, read_waves, resume
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import Member
from covey.core.history.bodies import read_body
from covey.core.history.history import History
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import CommandOrder, Obeying, OperatorChange
from covey.core.ids import DeviceKey, GroupId, key_text
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.presence.status import PeerPresence, State
from covey.errors import LocalError
from tests.command import Here
from tests.fleet import identity
from tests.operated_fleet import OperatedFleet
from tests.sealed import sealed

_HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def made_fleet(tmp_path_factory: pytest.TempPathFactory) -> OperatedFleet:
    return OperatedFleet(tmp_path_factory.mktemp("fleet"), groups=3, devices=4)


@pytest.fixture
def fleet(made_fleet: OperatedFleet, tmp_path: Path) -> OperatedFleet:
    return made_fleet.copied(tmp_path)


class Operator:
    """One of the operator's devices, and what it does about releases."""

    def __init__(self, opened: Any) -> None:
        self.opened = opened
        self.scope = Scope(administered(opened), fleet=True)

    def begin(
        self,
        waves: str = "1,50%,100%",
        stop: int = 30,
        selector: str = "all",
        seen_within_us: int | None = 0,
        patience_us: int = _HOUR_US,
    ) -> Release:
        bounds = stop, patience_us, 0, seen_within_us
        plans = plan_release(self.opened, self.scope.groups, selector, read_waves(waves), *bounds)
        parts = [PlannedPart(group, plan, sealed(self.opened, group)) for group, plan in plans]
        return begin(self.opened, self.scope, "install", parts, selector)

    def go_on(self, name: str) -> Release:
        return go_on(self.opened, self.scope.groups, name)


@contextmanager
def _operator(fleet: OperatedFleet, own: Here) -> Iterator[Operator]:
    with fleet.open(own) as opened:
        yield Operator(opened)


def _given(fleet: OperatedFleet, own: Here) -> Counter[DeviceKey]:
    """Return how often each device was named in a wave."""
    found: Counter[DeviceKey] = Counter()
    with fleet.open(own) as opened:
        for group_id in fleet.groups:
            for order in _orders(opened, group_id):
                found.update(set(order.selector.devices) & set(fleet.devices[group_id]))
    return found


def _orders(opened: Any, group_id: GroupId) -> list[CommandOrder]:
    stored = opened.store.operations.of_kind(group_id, OperationKind.COMMAND)
    bodies = [read_body(read_operation(each.raw, verify=False)) for each in stored]
    return [each for each in bodies if isinstance(each, CommandOrder)]


def _end(fleet: OperatedFleet, own: Here, name: str, failing: Collection[DeviceKey] = ()) -> Release:
    """Continue a release until it ends or stops; every device reports at once."""
    while True:
        fleet.report(own, failing)
        with _operator(fleet, own) as operator:
            found = operator.go_on(name)
        if found.state != "under way":
            return found


@pytest.mark.slow
def test_waves_count_the_devices_of_all_groups(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
        assert (found.state, found.waves_given, len(found.devices), found.others) == ("under way", 1, 1, 11)
        assert len(found.groups) == 3
        assert [len(_orders(laptop.opened, each)) for each in fleet.groups] == [1, 1, 1], "announced in every group"
    fleet.report(fleet.laptop)
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.go_on(found.id)
        assert (found.waves_given, len(found.devices), found.others) == (2, 6, 6)
    found = _end(fleet, fleet.laptop, found.id)
    assert (found.state, found.waves_given, len(found.devices)) == ("finished", 3, 12)
    assert set(_given(fleet, fleet.laptop).values()) == {1}


@pytest.mark.slow
def test_the_failures_of_a_wave_count_over_all_groups_and_stop_it_in_each(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("6,100%", stop=30)
    given = sorted(_given(fleet, fleet.laptop))
    fleet.report(fleet.laptop, failing=given[:1])
    with _operator(fleet, fleet.laptop) as laptop:
        assert laptop.go_on(found.id).waves_given == 2, "1 of 6 is below the bound, whatever its share of a group is"
    later = sorted(set(_given(fleet, fleet.laptop)) - set(given))
    fleet.report(fleet.laptop, failing=later[:2])
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.go_on(found.id)
        assert (found.state, len(found.failed)) == ("stopped", 3)
        [word] = found.said
        assert (word.state, len(word.groups)) == ("paused", 3)
        assert word.why.startswith("3 failed: ")
        kept = resume(laptop.opened, laptop.scope.groups, found.id, None, accept=False)
        assert kept.state == "stopped"
        found = resume(laptop.opened, laptop.scope.groups, found.id, None, accept=True)
        assert (found.state, len(found.accepted), found.failed) == ("finished", 3, ())


@pytest.mark.slow
def test_a_device_that_leaves_before_it_reports_lets_no_further_wave_begin(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
        [first] = [DeviceKey(bytes.fromhex(each.device)) for each in found.devices]
        [left] = [group for group, keys in fleet.devices.items() if first in keys]
        remove_everywhere(laptop.opened, first, [laptop.opened.node.groups.group(left)], "pump")
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.go_on(found.id)
        assert (found.state, found.waves_given, len(found.devices), found.others) == ("under way", 1, 1, 10)
    assert _given(fleet, fleet.laptop).total() == 2, "another device is the first"
    found = _end(fleet, fleet.laptop, found.id)
    assert (found.state, len(found.devices)) == ("finished", 11)


@pytest.mark.slow
def test_a_release_whose_only_device_has_left_has_not_finished(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        one = fleet.devices[fleet.groups[0]][0]
        found = laptop.begin(selector=one.hex())
        remove_everywhere(laptop.opened, one, [laptop.opened.node.groups.group(fleet.groups[0])], "pump")
    assert _states(fleet, fleet.laptop, found.id) == ("under way", 0, 0)
    assert f"covey release abort {found.id[:8]}" in fleet.laptop.ok("release", "show", found.id)


@pytest.mark.slow
@pytest.mark.parametrize(("began_us", "state"), [(_HOUR_US, "finished"), (-1, "stopped")])
def test_a_finished_release_stays_finished_when_devices_go_silent_later(
    fleet: OperatedFleet, began_us: int, state: str
) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("12", seen_within_us=None)
    fleet.report(fleet.laptop)
    with _operator(fleet, fleet.laptop) as laptop:
        found = release(laptop.opened, laptop.scope.groups, found.id)
        assert found.state == "finished"
        ended_us = max(each.received_at_us or 0 for each in found.devices)
        with laptop.opened.store.transaction():
            for keys in fleet.devices.values():
                for key in keys:
                    gone = PeerPresence(1, State.GONE, 60, (), ended_us + began_us, ended_us - 1)
                    laptop.opened.store.presence.note(key, gone)
        assert release(laptop.opened, laptop.scope.groups, found.id).state == state
        assert laptop.go_on(found.id).state == state


@pytest.mark.slow
def test_the_lowest_bound_that_operators_named_holds_for_all_groups(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("6,100%", stop=30)
        given = {each.device for each in found.devices}
        # One with a device of the wave: seen alone, another one would be ready for the next wave.
        group = next(
            each for each in laptop.scope.groups if given & {key.hex() for key in fleet.devices[each.group_id]}
        )
        resume(laptop.opened, [group], found.id, 10, accept=False)
    fleet.report(fleet.laptop, failing=sorted(_given(fleet, fleet.laptop))[:1])
    with _operator(fleet, fleet.laptop) as laptop:
        assert laptop.go_on(found.id).state == "stopped", "1 of 6"


@pytest.mark.slow
def test_the_phone_continues_after_the_second_wave_and_nobody_gets_it_twice(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
    fleet.report(fleet.laptop)
    with _operator(fleet, fleet.laptop) as laptop:
        assert laptop.go_on(found.id).waves_given == 2
    fleet.carry([fleet.personal, *fleet.groups])
    fleet.report(fleet.phone)
    ended = _end(fleet, fleet.phone, found.id[:8])
    assert (ended.state, ended.waves_given, len(ended.devices), ended.missing) == ("finished", 3, 12, ())
    assert set(_given(fleet, fleet.phone).values()) == {1}


@pytest.mark.slow
def test_a_pause_in_one_group_holds_all_and_an_abort_takes_one_group_out(fleet: OperatedFleet) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
        alone = Scope((laptop.opened.node.groups.group(fleet.groups[0]),))
        pause(laptop.opened, alone, found.id, "not here")
    fleet.report(fleet.laptop)
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.go_on(found.id)
        assert (found.state, len(found.said[0].groups)) == ("paused", 1)
        abort(laptop.opened, alone, found.id)
        found = laptop.go_on(found.id)
        assert found.waves_given == 2
    found = _end(fleet, fleet.laptop, found.id)
    outside = set(fleet.devices[fleet.groups[0]])
    given = set(_given(fleet, fleet.laptop))
    assert (found.state, len(given - outside), len(given & outside) <= 1) == ("finished", 8, True)
    with _operator(fleet, fleet.laptop) as laptop:
        assert abort(laptop.opened, laptop.scope, found.id).state == "aborted"
        with pytest.raises(LocalError, match="was aborted by"):
            resume(laptop.opened, laptop.scope.groups, found.id, None, accept=False)


@pytest.mark.slow
def test_the_phone_announces_a_release_where_that_is_missing(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
    has_first = next(each for each in fleet.groups if len(_wave(fleet, each)) > 0)
    lost = next(each for each in fleet.groups if each != has_first)
    fleet.carry([fleet.personal, *(each for each in fleet.groups if each != lost)])
    fleet.carry([lost], [int(OperationKind.FILE)])
    assert fleet.phone.json("release", "show", found.id)["missing"] == [lost.hex()]
    assert "covey release resume" in fleet.phone.fails("order", "continue", found.id[:8], code=1)
    with fleet.open(fleet.phone) as phone:
        known = find_plan(phone, administered(phone), found.id)
        assert known is not None
        [announced] = announce_release(phone, known, lambda _: None)
        assert announced.group_id == lost
        [order] = _orders(phone, lost)
        [of_laptop] = _wave_orders(fleet, lost)
        assert order.arguments == of_laptop.arguments, "the laptop had put the file there already"
    ended = _end(fleet, fleet.phone, found.id)
    assert (ended.state, len(ended.devices), ended.missing) == ("finished", 12, ())
    assert set(_given(fleet, fleet.phone).values()) == {1}


@pytest.mark.slow
def test_the_phone_gives_no_first_wave_while_that_of_the_laptop_may_be_on_its_way(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
    has_first = next(each for each in fleet.groups if _wave(fleet, each))
    for command, come in (
        ("abort", [each for each in fleet.groups if each != has_first]),
        ("resume", [fleet.personal]),
    ):
        fleet.carry(come)
        with _operator(fleet, fleet.phone) as phone:
            assert phone.go_on(found.id).state == "under way"
        assert not _given(fleet, fleet.phone)
        assert f"covey release {command} {found.id[:8]}" in fleet.phone.ok("release", "show", found.id)
    fleet.carry([has_first])
    ended = _end(fleet, fleet.phone, found.id)
    assert (ended.state, len(ended.devices)) == ("finished", 12)
    assert set(_given(fleet, fleet.phone).values()) == {1}


@pytest.mark.slow
def test_a_release_has_not_finished_while_a_group_lacks_its_order(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("12")
    *here, late = fleet.groups
    fleet.carry([fleet.personal, *here])
    ended = _states(fleet, fleet.phone, found.id)
    assert ended == ("under way", 8, 4)
    assert f"covey release resume {found.id[:8]}" in fleet.phone.ok("release", "show", found.id)
    fleet.carry([late])
    assert _states(fleet, fleet.phone, found.id) == ("finished", 12, 0)


def _states(fleet: OperatedFleet, own: Here, name: str) -> tuple[str, int, int]:
    """Have all devices report; return the state, and how many devices were given the release and how many not."""
    fleet.report(own)
    with _operator(fleet, own) as operator:
        found = operator.go_on(name)
    return found.state, len(found.devices), found.others


@pytest.mark.slow
@pytest.mark.parametrize(("patience_us", "state"), [(_HOUR_US, ("under way", 11, 1)), (0, ("finished", 11, 0))])
def test_a_release_awaits_a_device_between_two_groups_for_its_patience(
    fleet: OperatedFleet, patience_us: int, state: tuple[str, int, int]
) -> None:
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("11,100%", patience_us=patience_us)
        given = {bytes.fromhex(each.device) for each in found.devices}
        moving = next(
            each
            for number in range(3)
            for place in range(4)
            if (each := identity(f"{number} {place}")).signing_public not in given
        )
        [source] = [group for group, keys in fleet.devices.items() if moving.signing_public in keys]
        target = next(each for each in fleet.groups if each != source)
        with laptop.opened.store.transaction():
            laptop.opened.node.actions.change(
                target, lambda draft, _: draft.adding(Member(moving.keys, since=draft.version)), laptop.opened.now()
            )
        remove_everywhere(laptop.opened, moving.signing_public, [laptop.opened.node.groups.group(source)], "pump")
    assert _states(fleet, fleet.laptop, found.id) == state
    with fleet.open(fleet.laptop) as opened:
        fleet.say(opened, target, moving, Obeying())
    with _operator(fleet, fleet.laptop) as laptop:
        assert release(laptop.opened, laptop.scope.groups, found.id).state == "ready"


@pytest.mark.slow
def test_an_abort_holds_in_a_group_whose_order_comes_later(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
    has_first = next(each for each in fleet.groups if _wave(fleet, each))
    fleet.carry([fleet.personal, *(each for each in fleet.groups if each != has_first)])
    with _operator(fleet, fleet.phone) as phone:
        assert abort(phone.opened, phone.scope, found.id).state == "aborted"
    fleet.carry([has_first])
    with _operator(fleet, fleet.phone) as phone:
        assert phone.go_on(found.id).state == "aborted"
    assert fleet.phone.json("release", "show", found.id)["missing"] == []


@pytest.mark.slow
def test_a_release_is_aborted_where_this_device_is_no_operator_in_a_group_that_lacks_its_order(
    fleet: OperatedFleet,
) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
    lost = next(each for each in fleet.groups if not _wave(fleet, each))
    fleet.carry([fleet.personal, *(each for each in fleet.groups if each != lost)])
    with fleet.open(fleet.phone) as phone, fleet.open(fleet.laptop) as other, other.store.transaction():
        removal = OperatorChange(phone.node.identity.signing_public, "phone", added=False)
        other.node.history.write(lost, removal, other.now())
    fleet.carry([lost], [int(OperationKind.OPERATOR)])
    with fleet.open(fleet.phone) as phone:
        assert abort(phone, Scope(shared_groups(phone)), found.id).state == "aborted"
        assert list(phone.store.operations.of_kind(lost, OperationKind.RELEASE)) == []


@pytest.mark.slow
def test_a_release_is_given_where_an_order_for_the_same_devices_was_deleted(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    fleet.laptop.ok("order", "run", "greet", "--fleet", "--for", "label:device-0")
    fleet.laptop.ok("history", "post", "the last of its log stays", "--fleet")
    fleet.carry(fleet.groups)
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin(selector="label:device-0")
    lost = next(each for each in fleet.groups if not _wave(fleet, each))
    fleet.carry([fleet.personal, *(each for each in fleet.groups if each != lost)])
    with fleet.open(fleet.phone) as phone, phone.store.transaction():
        [order] = phone.store.operations.of_kind(lost, OperationKind.COMMAND)
        done = OrderResult(order.id, CommandState.DONE, 4, 7, 5, synchronised=True, exit=0)
        phone.node.order_results.keep(lost, fleet.devices[lost][0], done, phone.now())
    fleet.delete_covered(fleet.phone, lost)
    assert fleet.phone.json("order", "list", "--group", lost.hex()) == []
    with fleet.open(fleet.phone) as phone:
        known = find_plan(phone, administered(phone), found.id)
        assert known is not None
        assert [each.group_id for each in lacking(phone, known)] == [lost]


def _wave_orders(fleet: OperatedFleet, group_id: GroupId) -> list[CommandOrder]:
    with fleet.open(fleet.laptop) as laptop:
        return _orders(laptop, group_id)


def _wave(fleet: OperatedFleet, group_id: GroupId) -> set[DeviceKey]:
    named = (key for each in _wave_orders(fleet, group_id) for key in each.selector.devices)
    return set(named) & set(fleet.devices[group_id])


@pytest.mark.slow
def test_what_a_removed_laptop_gave_is_not_given_again(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
    fleet.report(fleet.laptop)
    with _operator(fleet, fleet.laptop) as laptop:
        laptop.go_on(found.id)
        own = laptop.opened.node.identity.signing_public
    fleet.carry([fleet.personal, *fleet.groups])
    fleet.report(fleet.phone)
    fleet.phone.ok("group", "remove", own.hex(), "--fleet", "--yes")
    with fleet.open(fleet.phone) as phone:
        known = find_plan(phone, administered(phone), found.id)
        assert known is not None
        assert len(announce_release(phone, known, lambda _: None)) == 3
    ended = _end(fleet, fleet.phone, found.id)
    assert (ended.state, len(ended.devices), ended.failed) == ("finished", 12, ())
    assert set(_given(fleet, fleet.phone).values()) == {1}


@pytest.mark.slow
def test_the_phone_gives_a_setting_where_that_is_missing_unless_a_later_one_is_there(fleet: OperatedFleet) -> None:
    assert fleet.phone is not None
    plan = fleet.laptop.json("setting", "set", "app.mode", "eco", "--fleet", "--for", "label:device-1")["id"]
    first, *others = fleet.groups
    fleet.carry([fleet.personal, first])
    assert sorted(fleet.phone.json("order", "show", plan)["missing"]) == sorted(each.hex() for each in others)
    fleet.phone.ok("setting", "set", "app.mode", "full", "--group", others[0].hex())
    done = fleet.phone.json("order", "continue", plan[:8])
    assert (done["given"], done["later"], done["absent"]) == ([others[1].hex()], [others[0].hex()], [])
    shown = fleet.phone.json("order", "show", plan)
    assert (shown["missing"], shown["counts"]) == ([others[0].hex()], True)
    assert fleet.phone.json("order", "continue", plan[:8])["given"] == []
    settings = fleet.phone.json("setting", "diff", "--for", "label:device-1")
    assert sorted(str(each["wanted"]) for each in settings) == ["eco", "eco", "full"]


@pytest.mark.slow
def test_nothing_of_a_wave_is_written_where_one_group_fails(
    fleet: OperatedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = History.write, 0

    def failing(self: History, *words: Any) -> Operation:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return write(self, *words)

    with _operator(fleet, fleet.laptop) as laptop:
        monkeypatch.setattr(History, "write", failing)
        with pytest.raises(KeyboardInterrupt):
            laptop.begin()
        monkeypatch.undo()
        assert [_orders(laptop.opened, each) for each in fleet.groups] == [[], [], []]
        found = laptop.begin("100%")
        assert len(found.devices) == 12


@pytest.mark.slow
def test_one_approval_agrees_with_the_release_in_all_groups(tmp_path: Path) -> None:
    fleet = OperatedFleet(tmp_path, groups=3, devices=2, threshold=2)
    assert fleet.phone is not None
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
        assert (found.state, found.needed, len(found.signers)) == ("awaits approval", 2, 1)
    fleet.carry([fleet.personal, *fleet.groups])
    approved = fleet.phone.json("order", "approve", found.id[:8])
    assert (approved["id"], approved["counts"], len(approved["signers"])) == (found.id, True, 2)
    assert "already signed" in fleet.phone.fails("order", "approve", found.id[:8], code=1)
    ended = _end(fleet, fleet.phone, found.id)
    assert (ended.state, ended.waves_given, len(ended.devices)) == ("finished", 3, 6)
    [row] = fleet.phone.json("order", "list")
    assert (row["id"], row["counts"], len(row["groups"])) == (found.id, True, 3)


@pytest.mark.slow
def test_a_copy_by_another_operator_is_not_taken_for_the_release(fleet: OperatedFleet) -> None:
    group_id, mallory = fleet.groups[0], identity("0 0")
    operators = fleet.laptop.json("config", "get", "operations.operators")["value"]
    fleet.laptop.ok(
        "config", "set", "operations.operators", ",".join([*operators, key_text("sign", mallory.signing_public)])
    )
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin("1,100%")
        [order] = _orders(laptop.opened, group_id)
        everybody = Selector(SelectorKind.DEVICES, devices=tuple(sorted(fleet.devices[group_id])))
        other_file = {**order.arguments, "file": "e" * 64}
        fleet.say(laptop.opened, group_id, mallory, replace(order, selector=everybody, arguments=other_file))
        found = laptop.go_on(found.id)
        assert len(found.devices) == 1, "the copy is another release"
        orders = fleet.laptop.json("order", "list")
        assert [each["author"] for each in orders].count(mallory.signing_public.hex()) == 1
    assert {each["id"] for each in fleet.laptop.json("release", "list")} == {found.id}


@pytest.mark.slow
def test_a_shell_completes_releases_and_plans(fleet: OperatedFleet) -> None:
    plan = fleet.laptop.json("setting", "set", "app.mode", "eco", "--fleet")["id"]
    with _operator(fleet, fleet.laptop) as laptop:
        found = laptop.begin()
    assert completion_words("releases", fleet.laptop.state) == [found.id[:8]]
    assert completion_words("plans", fleet.laptop.state) == [plan[:8]]
    assert plan[:8] in completion_words("orders", fleet.laptop.state)
