"""A device moves to another group as the operators that it obeys order, with its readings, and for nobody else."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.telemetry.publisher import telemetry_group
from covey.core.actions.definition import MOVE, ActionDefinition, LimitedText
from covey.core.actions.moves import MovePhase
from covey.core.actions.results import ARGUMENTS, NOT_ALLOWED, NOT_STARTED, QUEUE_FULL, REVOKED, WITHDRAWN
from covey.core.group.manifest import BOARD, COLLECTOR, Member
from covey.core.history.bodies import Note
from covey.core.history.orders import CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import GroupId, Incarnation, OperationId
from covey.core.membership.requests import decline
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.ordered import OrderedSetting
from covey.core.settings.states import SettingState
from covey.core.vault.landing import LandingPlan
from covey.core.wire.message import MessageType, read_message
from covey.limits.actions import MAXIMUM_GROUP_MOVES, MOVED_LEAVES_US
from covey.limits.board import BOARD_GONE_US
from covey.limits.history import GRAPH_WAIT_US
from covey.limits.pairing import INVITE_REQUEST_US
from covey.limits.personal import JOINED_UNASKED
from covey.ports import AttachedBoard
from tests.elector import Elector
from tests.fleet import Device, admit, carry, found, identity
from tests.unit.app.orders.test_ordered_actions import Fleet, Machine
from tests.unit.core.checkpoints.test_newcomers import deliver, forget

_ACTION = ActionDefinition("move-group", "move", (*MOVE, "{group}"), {"group": LimitedText(64, "0123456789abcdef")})


class Mover(Machine):
    """A device whose owner lets operators move it."""

    def action(self, name: str) -> ActionDefinition:
        return _ACTION if name == "move-group" else super().action(name)

    defined = action


class Site(Fleet):
    """Ann operates two groups; ben is in the first one, whose collector is cleo, and dora collects in the second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.machine = Mover(self.ben, self.ann)
        self.cleo, self.dora = Device("cleo", folder, collects=True), Device("dora", folder, collects=True)
        self.all = [self.ann, self.ben, self.cleo, self.dora]
        admit(self.ann, self.cleo, self.group_id, self.ben)
        self.target = found(self.ann, self.dora)
        for group, collector in ((self.group_id, self.cleo), (self.target, self.dora)):
            self.appoint(group, collector)
        self.carry()
        self.obey()

    def appoint(self, group: GroupId, device: Device) -> None:
        """Make a device a collector."""
        member = self.ann.node.groups.group(group).member(device.key)
        assert member is not None
        edited = replace(member, capabilities=(COLLECTOR,))
        with self.ann.store.transaction():
            self.ann.node.actions.change(group, lambda draft, _: draft.changing(edited), self.ann.now)

    def carry(self) -> None:
        carry(*getattr(self, "all", (self.ann, self.ben)))

    def list_ben(self, by: Device | None = None, group: GroupId | None = None) -> None:
        """Add ben to the second group by its keys."""
        by, group = by or self.ann, group or self.target
        with by.store.transaction():
            newcomer = Member(self.ben.identity.keys, "ben")
            by.node.actions.change(group, lambda draft, _: draft.adding(newcomer), by.now)

    def move(self, target: GroupId | None = None, by: Device | None = None, group: str = "") -> OperationId:
        """Order everybody to move to a group."""
        author, named = by or self.ann, group or (target or self.target).hex()
        body = CommandOrder(EVERYBODY, "move-group", {"group": named}, secrets.token_bytes(16))
        with author.store.transaction():
            operation = author.node.history.write(self.group_id, body, author.now).id
        self.carry()
        return operation

    def turn(self, times: int = 1) -> None:
        """Let ben take turns, and messages arrive."""
        for _ in range(times):
            self.machine.turn()
            self.carry()

    def land(self, collector: Device) -> list[bytes]:
        """Let a collector put everything into its vault, and say so; return the readings' messages."""
        landing = collector.store.landing
        waiting = landing.waiting(1 << 20, 100)
        if waiting is None:
            return []
        with collector.store.transaction():
            found = landing.until(waiting[0])
            for each in found:
                collector.node.landing.landed(each.author, each.incarnation, {each.link_seq}, collector.now)
            plan = LandingPlan(1, Incarnation(b"incarnat"), waiting[0], 1, bytes(24))
            landing.begin(plan)
            landing.finish(plan, 1)
        self.carry()
        messages = [read_message(each.message) for each in found]
        return [each.body for each in messages if each.type is MessageType.TELEMETRY]

    def is_in(self, group: GroupId | None = None) -> bool:
        return self.ben.node.groups.is_in(group or self.target)

    def readings_go_to(self, configured: GroupId | None = None) -> GroupId:
        return telemetry_group(configured, self.ben.store.group_moves.targets)(self.ben.node)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_device_joins_the_group_of_an_operator_that_it_obeys_and_reports_that(site: Site) -> None:
    site.list_ben()
    site.carry()
    site.turn(2)
    assert not site.is_in(), "being listed makes nobody a member: there is no order"
    order = site.move()
    site.turn(3)
    assert site.is_in()
    assert site.machine.result(order) == ("DONE", "")
    [kept] = site.ann.store.order_results.of_order(site.group_id, order)
    assert (kept.device, kept.result.exit, kept.result.why) == (site.ben.key, 0, f"in group {site.target.hex()[:8]}")
    assert site.is_in(site.group_id), "until an operator removes it"


def test_readings_go_to_the_new_group_and_those_that_wait_still_to_the_old_one(site: Site) -> None:
    site.list_ben()
    site.ben.batch(site.group_id, b"early")
    site.all.remove(site.cleo)
    order = site.move()
    site.turn(3)
    assert site.is_in()
    assert site.machine.result(order) == ("BEGUN", ""), "a batch waits for the old group's collector"
    assert site.readings_go_to() == site.target
    assert site.readings_go_to(site.group_id) == site.target, "also where the configuration names the old group"
    assert site.readings_go_to(site.target) == site.target
    site.ben.batch(site.readings_go_to(), b"late")
    site.turn()
    assert [b"late" in each for each in site.land(site.dora)] == [True]
    site.all.append(site.cleo)
    site.turn(9)
    assert site.machine.result(order) == ("BEGUN", ""), "it is in no vault yet"
    assert [b"early" in each for each in site.land(site.cleo)] == [True]
    site.turn()
    assert site.machine.result(order) == ("DONE", "")


def test_readings_stay_where_they_were_until_the_new_group_has_a_collector(site: Site) -> None:
    member = site.ann.node.groups.group(site.target).member(site.dora.key)
    assert member is not None
    with site.ann.store.transaction():
        retired = replace(member, capabilities=())
        site.ann.node.actions.change(site.target, lambda draft, _: draft.changing(retired), site.ann.now)
    site.list_ben()
    order = site.move()
    site.turn(3)
    assert (site.is_in(), site.readings_go_to()) == (True, site.group_id)
    assert site.machine.result(order) == ("BEGUN", "")
    site.appoint(site.target, site.dora)
    site.carry()
    site.turn(2)
    assert (site.readings_go_to(), site.machine.result(order)) == (site.target, ("DONE", ""))


def test_power_cuts_lose_no_move(site: Site) -> None:
    site.list_ben()
    order = site.move()
    for _ in range(6):
        site.machine.turn()
        site.machine.restart()
        site.carry()
        site.machine.restart()
    site.turn()
    assert (site.is_in(), site.machine.result(order)) == (True, ("DONE", ""))


def test_no_invitation_counts_but_of_an_operator_that_the_device_obeys(site: Site, tmp_path: Path) -> None:
    eve = Device("eve", tmp_path)
    site.all.append(eve)
    admit(site.ann, eve, site.group_id, *site.all)
    evil = found(eve)
    site.carry()
    with eve.store.transaction():
        eve.node.actions.invite_member(evil, site.ben.key, (), eve.now)
    site.carry()
    site.turn(2)
    assert not site.is_in(evil), "nobody has ordered anything"
    order = site.move(evil, by=eve)
    site.turn(2)
    assert (site.machine.result(order), site.is_in(evil)) == (None, False), "eve is no operator"
    order = site.move(evil)
    site.turn(3)
    assert (site.machine.result(order), site.is_in(evil)) == (("BEGUN", ""), False), "the invitation is not ann's"


def test_in_the_new_group_the_device_obeys_only_those_that_it_obeyed_in_the_old_one(site: Site) -> None:
    site.list_ben()
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, OperatorChange(site.cleo.key, "cleo", added=True), site.ann.now)
    site.carry()
    site.move()
    site.turn(3)
    pinned = {each.operator for each in site.ben.store.invited_operators.of(site.target)}
    assert pinned == {site.ann.key, site.cleo.key}
    assert site.dora.key not in pinned, "an admin of the new group"


def test_a_removed_operator_is_not_obeyed_in_the_new_group(site: Site) -> None:
    site.list_ben()
    site.machine = Mover(site.ben, site.ann, site.cleo)
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, OperatorChange(site.cleo.key, "cleo", added=False), site.ann.now)
    site.carry()
    site.move()
    site.turn(3)
    assert {each.operator for each in site.ben.store.invited_operators.of(site.target)} == {site.ann.key}


def test_where_the_configuration_names_operators_a_move_brings_none(site: Site) -> None:
    site.list_ben()
    site.machine.learns = False
    site.machine.begin()
    site.move()
    site.turn(3)
    assert (site.is_in(), site.ben.store.invited_operators.of(site.target)) == (True, [])


def test_a_move_whose_order_no_longer_counts_ends_before_the_device_is_in(site: Site) -> None:
    order = site.move()
    site.turn(2)
    assert site.machine.result(order) == ("BEGUN", "")
    with site.ann.store.transaction():
        site.ann.node.actions.leave(site.group_id, site.ann.now)
    site.carry()
    site.turn(2)
    assert site.machine.result(order) == ("STOPPED", REVOKED)
    assert site.ben.store.group_moves.all() == []


def test_a_device_that_is_removed_before_it_is_in_the_new_group_ends_its_move(site: Site) -> None:
    site.move()
    site.turn(2)
    with site.ann.store.transaction():
        gone = site.ben.key
        site.ann.node.actions.change(site.group_id, lambda draft, new: draft.removing(gone, new), site.ann.now)
    site.carry()
    site.turn(2)
    assert site.ben.store.group_moves.all() == []


def test_another_operator_is_asked_if_the_first_one_is_gone(site: Site) -> None:
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, OperatorChange(site.cleo.key, "cleo", added=True), site.ann.now)
    admit(site.ann, site.cleo, site.target, *site.all)
    site.list_ben()
    site.carry()
    order = site.move()
    site.all.remove(site.ann)
    site.turn(3)
    assert not site.is_in()
    site.machine.turn(INVITE_REQUEST_US / 1e6)
    site.carry()
    site.turn(3)
    assert site.is_in()
    assert site.machine.result(order) == ("DONE", "")


def test_another_operator_is_asked_if_the_first_one_is_gone_after_it_has_invited(site: Site) -> None:
    """The device has accepted the invitation, and nobody answers its request to join."""
    with site.ann.store.transaction():
        site.ann.node.history.write(site.group_id, OperatorChange(site.cleo.key, "cleo", added=True), site.ann.now)
    admit(site.ann, site.cleo, site.target, *site.all)
    with site.ann.store.transaction():
        site.ann.node.actions.invite_member(site.target, site.ben.key, (), site.ann.now)
    order = site.move()
    site.all.remove(site.ann)
    site.turn(3)
    assert [each.inviter.signing_public for each in site.ben.store.joins.pending()] == [site.ann.key]
    site.list_ben(by=site.cleo)
    for _ in range(2):
        site.machine.turn(INVITE_REQUEST_US / 1e6)
        site.carry()
    site.turn(3)
    assert site.is_in()
    assert site.machine.result(order) == ("DONE", "")
    assert site.ben.store.joins.pending() == []


def test_an_operator_that_is_away_is_asked_once_however_long_it_takes(site: Site) -> None:
    site.all.remove(site.ann)
    site.all.remove(site.cleo)
    with site.ann.store.transaction():
        site.ann.node.history.write(
            site.group_id,
            CommandOrder(EVERYBODY, "move-group", {"group": site.target.hex()}, bytes(16)),
            site.ann.now,
        )
    carry(site.ann, site.ben)
    site.machine.turn()
    for _ in range(5):
        site.machine.turn(INVITE_REQUEST_US / 1e6)
    [move] = site.ben.store.group_moves.all()
    assert move.asks > 1
    waiting = [read_message(raw) for _, raw in site.ben.store.outbox.control_messages(site.ann.key)]
    assert [each.group_id for each in waiting if each.type is MessageType.INVITE_REQUEST] == [site.target]


def test_a_declined_group_stays_declined(site: Site) -> None:
    with site.ann.store.transaction():
        site.ann.node.actions.invite_member(site.target, site.ben.key, (), site.ann.now)
    site.carry()
    [request] = site.ben.store.requests.pending()
    with site.ben.store.transaction():
        decline(site.ben.store.requests, request, site.ben.now.wall_us)
    site.list_ben()
    order = site.move()
    site.turn(3)
    assert (site.machine.result(order), site.is_in()) == (("STOPPED", NOT_ALLOWED), False)


def test_a_device_in_many_groups_enters_no_further_one_by_itself(site: Site) -> None:
    for _ in range(JOINED_UNASKED - 1):
        with site.ben.store.transaction():
            site.ben.node.membership.create("ben", (), site.ben.now.wall_us)
    site.list_ben()
    order = site.move()
    site.turn(3)
    assert (site.machine.result(order), site.is_in()) == (("STOPPED", NOT_STARTED), False)


@pytest.mark.parametrize(
    ("up", "silent_us", "stays"), [(True, BOARD_GONE_US, True), (False, 1, True), (False, BOARD_GONE_US, False)]
)
def test_a_gateway_with_boards_stays_with_them(site: Site, *, up: bool, silent_us: int, stays: bool) -> None:
    board = identity("board")
    with site.ann.store.transaction():
        listed = Member(board.keys, "board", capabilities=(BOARD,))
        site.ann.node.actions.change(site.group_id, lambda draft, _: draft.adding(listed), site.ann.now)
    with site.ben.store.transaction():
        seen_us = site.ben.now.wall_us - silent_us
        site.ben.store.boards.note(AttachedBoard("/dev/ttyACM0", board.keys, "a board", True, up, seen_us, {}))
    site.list_ben()
    order = site.move()
    site.turn(3)
    assert (site.machine.result(order) == ("STOPPED", NOT_STARTED), site.is_in()) == (stays, not stays)


def test_an_order_names_another_group(site: Site) -> None:
    wrong = [site.move(group="beef"), site.move(site.group_id)]
    site.turn(3)
    assert [site.machine.result(each) for each in wrong] == [("REFUSED", ARGUMENTS)] * 2


def test_a_later_order_replaces_an_earlier_one(site: Site) -> None:
    first = site.move(GroupId(bytes([7]) * 32))
    site.turn(2)
    site.list_ben()
    second = site.move()
    site.turn()
    site.land(site.cleo)
    site.turn(3)
    assert site.machine.result(first) == ("STOPPED", WITHDRAWN)
    assert (site.machine.result(second), site.is_in()) == (("DONE", ""), True)


@pytest.mark.slow
def test_a_device_that_has_entered_the_new_group_is_moved_from_there(site: Site) -> None:
    third = found(site.ann, site.cleo)
    site.list_ben()
    site.ben.batch(site.group_id, b"early")
    site.all.remove(site.cleo)
    first = site.move()
    site.turn(3)
    assert (site.is_in(), site.machine.result(first)) == (True, ("BEGUN", "")), "a batch waits for the old collector"
    site.list_ben(group=third)
    second = site.move(third)
    site.turn(3)
    assert site.machine.result(second) == ("REFUSED", NOT_STARTED)
    site.all.append(site.cleo)
    site.turn(9)
    site.land(site.cleo)
    site.turn()
    assert (site.machine.result(first), site.is_in(third)) == (("DONE", ""), False)
    later = site.move(third)
    site.turn(3)
    assert (site.machine.result(later), site.is_in(third)) == (("REFUSED", NOT_STARTED), False), (
        "it is still listed here"
    )


def test_a_device_goes_back_only_after_it_has_left(site: Site) -> None:
    site.list_ben()
    first = site.move()
    site.turn(3)
    assert (site.machine.result(first), site.is_in(site.group_id)) == (("DONE", ""), True), "nobody has removed it yet"
    with site.ann.store.transaction():
        body = CommandOrder(EVERYBODY, "move-group", {"group": site.group_id.hex()}, secrets.token_bytes(16))
        back = site.ann.node.history.write(site.target, body, site.ann.now).id
    site.carry()
    site.turn(3)
    assert (site.machine.result(back), site.is_in()) == (("REFUSED", NOT_STARTED), True)


def test_moves_have_a_bound(site: Site) -> None:
    order = site.move()
    site.machine.turn()
    [move] = site.ben.store.group_moves.all()
    with site.ben.store.transaction():
        site.ben.store.group_moves.remove(move.source)
        for number in range(MAXIMUM_GROUP_MOVES):
            source = GroupId(bytes([number]) * 32)
            site.ben.store.group_moves.put(replace(move, source=source, operation=OperationId(source)))
    further = site.move()
    site.machine.turn(1)
    site.machine.turn(1)
    assert site.machine.result(further) == ("REFUSED", QUEUE_FULL)
    assert site.machine.result(order) is not None


def test_a_device_that_nobody_removes_leaves_the_old_group_by_itself(site: Site) -> None:
    site.list_ben()
    site.move()
    site.turn(3)
    site.machine.turn(MOVED_LEAVES_US / 1e6 - 3_600)
    assert site.is_in(site.group_id)
    site.machine.turn(7_200)
    assert (site.is_in(site.group_id), site.is_in()) == (False, True)
    assert site.readings_go_to(site.group_id) == site.target


def test_a_device_that_the_new_group_removed_again_does_not_leave_the_old_one(site: Site) -> None:
    site.list_ben()
    site.move()
    site.turn(3)
    with site.ann.store.transaction():
        gone = site.ben.key
        site.ann.node.actions.change(site.target, lambda draft, new: draft.removing(gone, new), site.ann.now)
    site.carry()
    assert (site.is_in(site.group_id), site.is_in()) == (True, False)
    assert site.readings_go_to() == site.readings_go_to(site.group_id) == site.group_id
    site.machine.turn(MOVED_LEAVES_US / 1e6 + 3_600)
    assert site.is_in(site.group_id)


def test_a_device_can_go_back(site: Site) -> None:
    site.list_ben()
    site.move()
    site.turn(3)
    with site.ann.store.transaction():
        gone = site.ben.key
        site.ann.node.actions.change(site.group_id, lambda draft, new: draft.removing(gone, new), site.ann.now)
    site.carry()
    assert not site.is_in(site.group_id)
    site.list_ben(group=site.group_id)
    site.turn(2)
    body = CommandOrder(EVERYBODY, "move-group", {"group": site.group_id.hex()}, bytes(16))
    with site.ann.store.transaction():
        back = site.ann.node.history.write(site.target, body, site.ann.now).id
    site.carry()
    site.turn(4)
    assert site.machine.result(back) == ("DONE", "")
    assert (site.is_in(site.group_id), site.readings_go_to(site.group_id)) == (True, site.group_id)
    [move] = site.ben.store.group_moves.all()
    assert (move.source, move.phase) == (site.target, MovePhase.MOVED)


def _remove_ben(site: Site) -> None:
    with site.ann.store.transaction():
        gone = site.ben.key
        site.ann.node.actions.change(site.group_id, lambda draft, new: draft.removing(gone, new), site.ann.now)


def _results(device: Device, site: Site, order: OperationId) -> list[str]:
    return [each.result.state.name for each in device.store.order_results.of_order(site.group_id, order)]


def _second_operator(site: Site, *, in_both: bool) -> Device:
    """Let zoe operate the first group with ann, and be in the second one as well or not."""
    zoe = Device("zoe", site.folder)
    site.all.append(zoe)
    for group in (site.group_id, site.target) if in_both else (site.group_id,):
        admit(site.ann, zoe, group, *site.all)
    site.machine = Mover(site.ben, site.ann, zoe)
    return zoe


@pytest.mark.parametrize("restarts", [False, True])
def test_an_operator_that_was_away_when_a_device_left_has_its_results_later(site: Site, *, restarts: bool) -> None:
    zoe = _second_operator(site, in_both=True)
    site.list_ben()
    first = site.order()
    site.carry()
    site.all.remove(zoe)
    site.machine.turn()
    site.machine.become()
    move = site.move()
    site.turn()
    site.land(site.cleo)
    site.turn(3)
    assert (_results(site.ann, site, first), site.machine.result(move)) == (["DONE"], ("DONE", ""))
    _remove_ben(site)
    site.carry()
    assert not site.is_in(site.group_id)
    if restarts:
        site.machine.restart()
    site.all.append(zoe)
    for _ in range(2):
        for device in site.all:
            device.wait(301)
            device.maintain()
        site.carry()
    assert [_results(zoe, site, each) for each in (first, move)] == [["DONE"], ["DONE"]]
    assert zoe.key not in site.ben.store.outbox.recipients()


def test_a_device_leaves_after_its_orders_in_the_old_group_have_ended(site: Site) -> None:
    site.list_ben()
    site.carry()
    move = site.move()
    site.turn()
    order = site.order()
    site.carry()
    site.machine.turn(1)
    site.turn(3)
    assert (site.is_in(), site.machine.result(order)) == (True, ("BEGUN", ""))
    assert site.machine.result(move) == ("BEGUN", ""), "an order of the old group is under way"
    site.machine.become()
    site.carry()
    site.land(site.cleo)
    site.turn()
    assert (site.machine.result(order), site.machine.result(move)) == (("DONE", ""), ("DONE", ""))


@pytest.mark.parametrize("restarts", [False, True])
def test_an_order_that_ends_after_its_device_has_left_is_reported(site: Site, *, restarts: bool) -> None:
    zoe = _second_operator(site, in_both=True)
    site.list_ben()
    site.carry()
    site.move()
    site.turn(3)
    order = site.order()
    site.carry()
    site.machine.turn()
    _remove_ben(site)
    site.carry()
    assert (site.is_in(site.group_id), site.machine.result(order)) == (False, ("BEGUN", ""))
    if restarts:
        site.machine.restart()
        site.machine.turn()
    else:
        site.machine.become()
    for _ in range(4):
        site.carry()
        for device in site.all:
            device.wait(301)
    said = ["UNKNOWN" if restarts else "DONE"]
    assert [_results(each, site, order) for each in (site.ann, zoe)] == [said, said]


def test_a_result_for_a_device_outside_the_new_group_is_delivered_before_the_device_leaves(site: Site) -> None:
    site.list_ben()
    site.carry()
    order = site.order()
    site.all.remove(site.cleo)
    site.machine.turn()
    site.machine.become()
    move = site.move()
    site.turn(4)
    assert (site.is_in(), site.machine.result(move)) == (True, ("BEGUN", "")), "the old collector lacks a result"
    site.all.append(site.cleo)
    for device in site.all:
        device.wait(301)
    site.carry()
    site.land(site.cleo)
    site.turn()
    assert (_results(site.cleo, site, order), site.machine.result(move)) == (["DONE"], ("DONE", ""))


def test_a_device_waits_for_no_operator_that_is_lost(site: Site) -> None:
    zoe = _second_operator(site, in_both=False)
    site.list_ben()
    site.order()
    site.all.remove(zoe)
    site.machine.turn()
    site.machine.become()
    move = site.move()
    site.turn(4)
    site.machine.turn(MOVED_LEAVES_US / 1e6 - 3_600)
    assert site.machine.result(move) == ("BEGUN", "")
    site.machine.turn(7_200)
    site.turn()
    assert site.machine.result(move) == ("DONE", "")


def test_a_device_waits_for_no_operator_that_shares_a_further_group(site: Site) -> None:
    zoe = _second_operator(site, in_both=False)
    found(site.ann, site.ben, zoe)
    site.list_ben()
    site.order()
    site.all.remove(zoe)
    site.machine.turn()
    site.machine.become()
    move = site.move()
    site.turn()
    site.land(site.cleo)
    site.turn(3)
    assert site.machine.result(move) == ("DONE", "")


def _readmit(site: Site) -> None:
    """Remove ben from the group that it has left, and let it in again, which it hears by itself."""
    _remove_ben(site)
    site.carry()
    assert not site.is_in(site.group_id)
    site.list_ben(group=site.group_id)
    for _ in range(5):
        site.carry()
        for device in site.all:
            device.wait(301)
            device.maintain()
    assert site.is_in(site.group_id)


def test_a_device_that_was_readmitted_before_it_heard_the_order_goes_back(site: Site) -> None:
    site.list_ben()
    site.move()
    site.turn(3)
    _readmit(site)
    with site.ann.store.transaction():
        body = CommandOrder(EVERYBODY, "move-group", {"group": site.group_id.hex()}, secrets.token_bytes(16))
        back = site.ann.node.history.write(site.target, body, site.ann.now).id
    site.carry()
    site.turn()
    site.land(site.cleo)
    site.turn(3)
    assert (site.machine.result(back), site.is_in(site.group_id)) == (("DONE", ""), True)


def test_a_device_that_was_readmitted_stays_in_both_groups(site: Site) -> None:
    site.list_ben()
    site.move()
    site.turn(3)
    _readmit(site)
    site.turn()
    assert site.ben.store.group_moves.all() == []
    site.machine.turn(MOVED_LEAVES_US / 1e6)
    site.turn()
    assert (site.is_in(site.group_id), site.is_in()) == (True, True)
    assert site.readings_go_to(site.group_id) == site.group_id


@pytest.mark.slow
def test_a_device_keeps_its_settings_until_those_of_the_new_group_have_come(site: Site) -> None:
    """All members of the new group have deleted its history, so a newcomer waits for somebody who has kept it."""
    pins = Pins(frozenset({site.ann.key}))
    site.ben.nodes.pins = pins
    site.machine.restart()
    electors = [Elector(each, pins) for each in (site.ann, site.dora)]
    for _ in range(3):
        electors[0].say(site.target, Note("text/plain", b"tank 3 is empty"))
    electors[0].propose(site.target, lie=lambda state: state)
    deliver(site.ann, site.dora)
    electors[1].turn()
    deliver(site.ann, site.dora)
    assert [forget(each, site.target) > 0 for each in electors] == [True, True]
    setting = SettingOrder(EVERYBODY, "app.mode", "eco")
    before = electors[0].say(site.group_id, setting)
    with site.ben.store.transaction():
        held = OrderedSetting("app.mode", site.group_id, before.id, site.ann.key, SettingState.APPLIED, None)
        site.ben.store.ordered_settings.put(held, site.ben.now.wall_us)
    site.list_ben()
    given = electors[0].say(site.target, setting)
    order = site.move()
    for _ in range(60):
        for each in (site.ann, site.dora, site.cleo):
            each.wait(61)
        for each in site.all:
            each.maintain()
        site.turn()
        if site.machine.result(order) == ("DONE", ""):
            break
    assert site.machine.result(order) == ("DONE", "")
    assert site.ben.store.operations.raw(site.target, given.id) is not None


def test_a_device_with_settings_moves_to_a_group_in_which_nobody_has_said_anything(site: Site) -> None:
    with site.ben.store.transaction():
        order = OperationId(bytes(32))
        held = OrderedSetting("app.token", site.group_id, order, site.ann.key, SettingState.APPLIED, None)
        site.ben.store.ordered_settings.put(held, site.ben.now.wall_us)
    site.list_ben()
    move = site.move()
    site.turn(6)
    assert (site.is_in(), site.machine.result(move)) == (True, ("BEGUN", ""))
    site.turn(int(GRAPH_WAIT_US / 60_000_000))
    assert site.machine.result(move) == ("DONE", "")
