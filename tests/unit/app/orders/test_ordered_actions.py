"""`covey.app.orders.ordered_actions`: who obeys, from where on; what begins is durable, happens once, is reported."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.sqlite.file.salvage import salvage
from covey.app.orders.ordered_actions import OrderedActions
from covey.app.orders.pinned_commands import PinnedCommands
from covey.core.actions import results
from covey.core.actions.definition import MOVE_ACTION, ActionDefinition, Ends, Invocation, ProgramBounds
from covey.core.actions.execution import Execution
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import GroupManifest
from covey.core.history.history import Taken
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder, OperatorChange
from covey.core.ids import EpochId, GroupId, Incarnation, OperationId
from covey.core.link.queued import MessageClass
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.errors import ActionError, OutboxFullError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES
from covey.limits.storage import OUTBOX_BYTES
from covey.ports import ProgramEnd, RunningProgram
from tests.fleet import Device, admit, carry, found
from tests.staging import Unstaged


class _Program:
    """A program that ends when the test says so, or when its time is up."""

    def __init__(self, ends_at_us: int) -> None:
        self._ends_at_us = ends_at_us
        self.code: int | None = None
        self.output = b"oh"
        self.lost = False
        self.refusal: ActionError | None = None

    def look(self, now_us: int) -> ProgramEnd | None:
        if self.refusal is not None:
            raise self.refusal
        if self.lost:
            return ProgramEnd(None, b"", cut=False, timed_out=False)
        if self.code is not None:
            return ProgramEnd(self.code, self.output, cut=False, timed_out=False)
        return ProgramEnd(-9, b"here", cut=True, timed_out=True) if now_us >= self._ends_at_us else None

    def stop(self) -> ProgramEnd:
        return ProgramEnd(-15, b"here", cut=False, timed_out=False)


class Machine:
    """A device's actions, and one process of the agent after the other; `effects` is what really happened."""

    def __init__(self, device: Device, *operators: Device, threshold: int = 1) -> None:
        self.device = device
        self._pins = Pins(frozenset(each.key for each in operators), threshold)
        self.knows_the_time = True
        self.learns = True
        self.effects: list[str] = []
        self.programs: list[_Program] = []
        self.begin()

    def begin(self) -> None:
        """Begin a process of the agent; the one before has ended somehow."""
        store = self.device.store
        self.role = OrderedActions(
            *(store, store.commands),
            Execution(
                *(store.commands, self, self.device.identity.noise),
                Installing(store.installations, self, Unstaged()),
                Moving(store),
            ),
            PinnedCommands(store, lambda _: self._pins),
            self,
            self,
            lambda _level, _line: None,
            lambda: self.device.name,
            lambda: self.learns,
        )

    def restart(self) -> None:
        """Lose the process, as a power cut does."""
        self.device.restart()
        self.begin()

    def lose_records(self, incarnation: Incarnation) -> None:
        """Forget all commands, and go on in another incarnation."""
        with self.device.store.transaction():
            for table in ("command", "command_once"):
                self.device.store.database.run(f"DELETE FROM {table}")
            self.device.store.incarnations.renew(incarnation)
        self.restart()
        self.turn()
        self.turn()

    def turn(self, seconds: float = 61) -> None:
        """Let time go by, and take a turn."""
        self.device.wait(seconds)
        self.role.turn(self.device.node, self.device.now)

    def become(self, code: int = 0) -> None:
        """Have what runs end."""
        self.programs[-1].code = code
        self.turn()

    def start(self, invocation: Invocation, now_us: int) -> RunningProgram:
        """Start a program: the effect is at once."""
        [begun] = [each for each in self.device.store.commands.begun() if each.command.action != MOVE_ACTION]
        assert begun.command.action == invocation.action, "that it begins is stored"
        self.effects.append(invocation.action)
        self.programs.append(_Program(now_us + invocation.bounds.time_us))
        return self.programs[-1]

    def action(self, name: str) -> ActionDefinition:
        """Return what the owner has defined."""
        if name not in {"note", "note-again", "reboot"}:
            raise ActionError(name, results.NOT_ALLOWED)
        ends = Ends.MACHINE if name == "reboot" else Ends.NOTHING
        bounds = ProgramBounds(600_000_000)
        return ActionDefinition(name, name, ("/bin/note",), {}, name == "note-again", ends, bounds)

    defined = action

    def monotonic_us(self) -> int:
        return self.device.now.monotonic_us

    def wall_us(self) -> int:
        return self.device.now.wall_us

    def synchronised(self) -> bool:
        return self.knows_the_time

    def boot_id(self) -> bytes:
        return bytes(8)

    def result(self, order: OperationId) -> tuple[str, str] | None:
        """Return (state, code) of an order; None where it was not taken."""
        record = self.device.store.commands.record(order)
        return None if record is None else (record.state.name, record.result.code if record.result else "")

    def obeys_since(self) -> list[OperationId]:
        """Return the operations by which this device began to obey."""
        [group] = self.device.node.groups.joined()
        obeying = self.device.store.operations.of_kind(group.group_id, OperationKind.OBEYING)
        return [each.id for each in obeying if read_operation(each.raw).author == self.device.key]


class Fleet:
    """Ann operates, ben obeys her."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.ben = Device("ann", folder), Device("ben", folder)
        self.group_id: GroupId = found(self.ann, self.ben)
        self.machine = Machine(self.ben, self.ann)

    def order(
        self,
        action: str = "note",
        *,
        by: Device | None = None,
        once: bytes | None = None,
        selector: Selector = EVERYBODY,
        deadline_us: int | None = None,
        delivered: bool = True,
    ) -> OperationId:
        """Give a command, which comes at once unless it is not delivered."""
        author = by or self.ann
        body = CommandOrder(selector, action, {}, once or secrets.token_bytes(16), deadline_us)
        with author.store.transaction():
            operation = author.node.history.write(self.group_id, body, author.now).id
        if delivered:
            self.carry()
        return operation

    def give_remains(self) -> None:
        """Give ben only what remains of what it lacks, as if all that it met had deleted its content."""
        with self.ben.store.transaction():
            for _, remains, _ in self.ann.store.operations.remains(self.group_id):
                if self.ben.store.operations.held(self.group_id, remains.id) is None:
                    self.ben.node.history.remember(self.group_id, remains, Taken())

    def carry(self) -> None:
        carry(self.ann, self.ben)

    def change(self, device: Device, **how: Any) -> None:
        """Have ann give a member another label, or other capabilities."""

        def edit(draft: GroupManifest, _epoch: EpochId) -> GroupManifest:
            member = draft.member(device.key)
            assert member is not None
            return draft.changing(replace(member, **how))

        with self.ann.store.transaction():
            self.ann.node.actions.change(self.group_id, edit, self.ann.now)

    def obey(self) -> None:
        """Have ben begin to obey, and ann know it."""
        self.machine.turn()
        self.carry()


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    fleet = Fleet(tmp_path)
    fleet.obey()
    return fleet


def test_a_command_is_done_once_and_reported_once(fleet: Fleet) -> None:
    order = fleet.order()
    fleet.machine.turn()
    assert fleet.machine.result(order) == ("BEGUN", "")
    fleet.machine.become()
    assert fleet.machine.result(order) == ("DONE", "")
    assert fleet.ben.store.outbox.totals()[0] == 1
    fleet.carry()
    fleet.machine.restart()
    fleet.machine.turn()
    assert (fleet.machine.effects, fleet.ben.store.outbox.totals()[0]) == (["note"], 0)
    record = fleet.ben.store.commands.record(order)
    assert record is not None
    assert record.result is not None
    assert (record.result.exit, record.result.output) == (0, b""), "what it wrote is kept by whoever gave it"


@pytest.mark.slow
def test_collectors_are_to_know_too_and_boards_and_others_are_not(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    cleo, dan = Device("cleo", tmp_path, collects=True), Device("dan", tmp_path)
    admit(fleet.ann, cleo, fleet.group_id, fleet.ben)
    admit(fleet.ann, dan, fleet.group_id, fleet.ben, cleo)
    fleet.change(cleo, capabilities=("collector",))
    carry(fleet.ann, fleet.ben, cleo, dan)
    fleet.obey()
    carry(fleet.ann, fleet.ben, cleo, dan)
    fleet.order("gone", delivered=False)
    carry(fleet.ann, fleet.ben, cleo, dan)
    waited = fleet.ben.store.outbox.totals()[0]
    fleet.machine.turn()
    assert fleet.ben.store.outbox.totals()[0] == waited + 2


def test_one_runs_at_a_time(fleet: Fleet) -> None:
    orders = [fleet.order(), fleet.order()]
    fleet.machine.turn()
    fleet.machine.turn()
    assert [fleet.machine.result(each) for each in orders] == [("BEGUN", ""), ("WAITING", "")]
    fleet.machine.turn(601)
    fleet.machine.turn(1)
    assert [fleet.machine.result(each) for each in orders] == [("STOPPED", results.TIME), ("BEGUN", "")]


def test_only_operators_commands_run(fleet: Fleet, tmp_path: Path) -> None:
    mallory = Device("mallory", tmp_path)
    admit(fleet.ann, mallory, fleet.group_id, fleet.ben)
    with mallory.store.transaction():
        mallory.node.history.write(fleet.group_id, OperatorChange(mallory.key, "me", added=True), mallory.now)
    order = fleet.order(by=mallory, delivered=False)
    carry(fleet.ann, fleet.ben, mallory)
    mallory.wait(60)
    mallory.maintain()
    carry(fleet.ann, fleet.ben, mallory)
    assert fleet.ben.store.operations.raw(fleet.group_id, order)
    fleet.machine.turn()
    assert (fleet.machine.effects, fleet.machine.result(order)) == ([], None)


def test_a_device_ignores_commands_for_others(fleet: Fleet) -> None:
    order = fleet.order(selector=Selector(SelectorKind.DEVICES, devices=(fleet.ann.key,)))
    fleet.machine.turn()
    assert (fleet.machine.effects, fleet.machine.result(order)) == ([], None)


def test_a_renamed_device_ignores_earlier_orders_for_its_new_label(fleet: Fleet) -> None:
    order = fleet.order(selector=Selector(SelectorKind.LABEL, name="pump"))
    fleet.change(fleet.ben, label="pump")
    fleet.carry()
    fleet.machine.turn()
    assert (fleet.machine.effects, fleet.machine.result(order)) == ([], None)
    fleet.order(selector=Selector(SelectorKind.LABEL, name="pump"))
    fleet.machine.turn()
    assert fleet.machine.effects == ["note"]


def test_a_newcomer_does_nothing_that_was_ordered_before(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    before = fleet.order()
    beside = fleet.order(delivered=False)
    fleet.machine.turn()
    fleet.carry()
    after = fleet.order()
    fleet.machine.turn()
    assert [fleet.machine.result(each) for each in (before, beside)] == [None, None]
    assert (fleet.machine.effects, fleet.machine.result(after)) == (["note"], ("BEGUN", ""))
    assert len(fleet.machine.obeys_since()) == 1


def test_a_command_is_reported_whose_content_was_deleted_before_it_came(fleet: Fleet) -> None:
    """Nothing comes with it that bears on orders: a group with one operator approves nothing."""
    order = fleet.order(delivered=False)
    fleet.give_remains()
    fleet.machine.turn()
    assert fleet.machine.result(order) == ("REFUSED", "action_forgotten")


def test_a_device_that_lost_its_records_reports_a_command_whose_content_was_deleted(fleet: Fleet) -> None:
    """The operator's device waits for a result, and so has not deleted it."""
    order = fleet.order(delivered=False)
    fleet.give_remains()
    fleet.machine.lose_records(Incarnation(bytes(8)))
    assert fleet.machine.result(order) == ("UNKNOWN", "action_records_lost")
    fleet.carry()
    [kept] = fleet.ann.store.order_results.of_order(fleet.group_id, order)
    assert kept.device == fleet.ben.key


def test_without_operators_no_device_obeys(tmp_path: Path) -> None:
    ann, ben, cleo = (Device(name, tmp_path) for name in ("ann", "ben", "cleo"))
    found(ann, ben)
    machine = Machine(ben, cleo)
    machine.turn()
    assert machine.obeys_since() == []


@pytest.mark.parametrize("deadline", [None, "later", "past"])
def test_a_device_that_lost_its_records_says_so_and_repeats_nothing(fleet: Fleet, deadline: str | None) -> None:
    wall_us = fleet.ben.now.wall_us
    deadline_us = {None: None, "later": wall_us + 3_600_000_000, "past": wall_us + 1_000_000}[deadline]
    order = fleet.order(deadline_us=deadline_us)
    fleet.machine.turn(0)
    fleet.machine.become()
    fleet.machine.lose_records(Incarnation(b"another "))
    unknown = ("UNKNOWN", results.RECORDS_LOST)
    assert (fleet.machine.effects, fleet.machine.result(order)) == (["note"], None if deadline == "past" else unknown)
    assert len(fleet.machine.obeys_since()) == 2
    fleet.carry()
    fleet.order()
    fleet.machine.turn()
    assert fleet.machine.effects == ["note", "note"]


def test_a_device_that_lost_its_records_twice_reports_all_orders(fleet: Fleet) -> None:
    orders = []
    for incarnation in (b"second  ", b"third   "):
        orders.append(fleet.order())
        fleet.machine.turn(0)
        fleet.machine.become()
        fleet.machine.lose_records(Incarnation(incarnation))
        fleet.carry()
    assert len(fleet.machine.obeys_since()) == 3
    assert [fleet.machine.result(each) for each in orders] == [("UNKNOWN", results.RECORDS_LOST)] * 2
    assert fleet.machine.effects == ["note", "note"]


def test_after_a_salvage_earlier_orders_are_unknown_and_do_not_run(fleet: Fleet) -> None:
    order = fleet.order()
    fleet.machine.turn()
    waits = fleet.order()
    fleet.machine.turn()
    fleet.ben.stop()
    salvage(fleet.ben.path, fleet.ben.identity, Incarnation(b"another "), OUTBOX_BYTES, 1)
    fleet.machine.restart()
    fleet.machine.turn()
    fleet.machine.turn()
    unknown = {("UNKNOWN", results.RECORDS_LOST), ("UNKNOWN", results.WENT_DOWN)}
    assert {fleet.machine.result(order), fleet.machine.result(waits)} == unknown
    assert fleet.machine.effects == ["note"]
    assert len(fleet.machine.obeys_since()) == 2


@pytest.mark.parametrize(("action", "effects"), [("note", 1), ("note-again", 2)])
def test_after_a_power_cut_only_what_may_be_repeated_is(fleet: Fleet, action: str, effects: int) -> None:
    order = fleet.order(action)
    fleet.machine.turn()
    fleet.machine.restart()
    fleet.machine.turn()
    assert fleet.machine.effects == [action] * effects
    assert fleet.machine.result(order) == (("UNKNOWN", results.WENT_DOWN) if effects == 1 else ("BEGUN", ""))


def test_a_program_that_the_agent_ends_is_reported(fleet: Fleet) -> None:
    order = fleet.order()
    fleet.machine.turn()
    fleet.machine.role.stop(fleet.ben.node, fleet.ben.now)
    assert fleet.machine.result(order) == ("STOPPED", results.AGENT_ENDED)
    assert fleet.ben.store.outbox.totals()[0] == 1


def test_results_of_commands_are_counted(fleet: Fleet) -> None:
    for code in (0, 3):
        fleet.order()
        fleet.machine.turn()
        fleet.machine.become(code)
    fleet.order("gone")
    fleet.machine.turn()
    for end in (fleet.machine.restart, lambda: fleet.machine.role.stop(fleet.ben.node, fleet.ben.now)):
        fleet.order()
        fleet.machine.turn()
        end()
    counters = fleet.ben.store.counters.values()
    found = {name: value for name, value in counters.items() if name.startswith("commands_")}
    assert found == {"commands_done": 1, "commands_failed": 2, "commands_refused": 1, "commands_unknown": 1}


def test_the_next_agent_finds_out_whether_the_machine_restarted(fleet: Fleet) -> None:
    order = fleet.order("reboot")
    fleet.machine.turn()
    fleet.machine.role.stop(fleet.ben.node, fleet.ben.now)
    assert fleet.machine.result(order) == ("BEGUN", "")
    fleet.machine.restart()
    fleet.machine.turn()
    assert fleet.machine.result(order) == ("UNKNOWN", results.WENT_DOWN), "the machine has not gone down"
    assert fleet.machine.effects == ["reboot"]


def test_a_repeatable_order_survives_the_loss_of_its_record(fleet: Fleet) -> None:
    order = fleet.order("reboot")
    fleet.machine.turn()
    fleet.machine.programs[-1].lost = True
    fleet.machine.turn()
    assert fleet.machine.result(order) == ("BEGUN", "")
    assert fleet.machine.effects == ["reboot"]


def test_an_unknown_outcome_is_reported_and_the_action_not_repeated(fleet: Fleet) -> None:
    order = fleet.order("note-again")
    fleet.machine.turn()
    fleet.machine.programs[-1].lost = True
    fleet.machine.turn()
    assert fleet.machine.result(order) == ("UNKNOWN", results.WENT_DOWN)
    assert fleet.machine.effects == ["note-again"]


@pytest.mark.parametrize("stops", [False, True])
def test_a_program_that_did_not_start_is_reported_as_refused(fleet: Fleet, stops: bool) -> None:
    order = fleet.order()
    fleet.machine.turn()
    fleet.machine.programs[-1].refusal = ActionError("root does not allow it", results.NOT_ALLOWED)
    if stops:
        fleet.machine.role.stop(fleet.ben.node, fleet.ben.now)
    else:
        fleet.machine.turn()
    assert fleet.machine.result(order) == ("REFUSED", results.NOT_ALLOWED)


def test_a_former_operators_commands_do_not_run(fleet: Fleet) -> None:
    first, waits = fleet.order(), fleet.order()
    fleet.machine.turn()
    with fleet.ann.store.transaction():
        fleet.ann.node.actions.leave(fleet.group_id, fleet.ann.now)
    fleet.carry()
    fleet.machine.turn()
    fleet.machine.become()
    fleet.machine.turn()
    assert fleet.machine.result(first) == ("DONE", "")
    assert fleet.machine.result(waits) == ("REFUSED", results.REVOKED)


def test_a_result_waits_until_there_is_room_for_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutboxFullError("full")

    order = fleet.order()
    fleet.machine.turn()
    with monkeypatch.context() as patch:
        patch.setattr(fleet.ben.node.results, "queue", full)
        fleet.machine.become()
    unreported = fleet.ben.store.commands.next_unreported()
    assert unreported is not None
    assert unreported.command.operation == order
    assert isinstance(unreported.result, OrderResult)
    assert unreported.state is CommandState.DONE
    fleet.machine.turn(1)
    assert fleet.ben.store.outbox.totals()[0] == 1
    assert fleet.ben.store.commands.next_unreported() is None


@pytest.mark.slow
def test_outputs_fill_no_queue_of_an_operator_that_is_away(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 4 * MAXIMUM_ACTION_OUTPUT_BYTES
    monkeypatch.setattr("covey.core.actions.reporting.RESULT_OUTPUT_BYTES_OF_ONE", bound)
    orders = [fleet.order() for _ in range(12)]
    for _ in orders:
        fleet.machine.turn()
        fleet.machine.programs[-1].output = bytes(MAXIMUM_ACTION_OUTPUT_BYTES)
        fleet.machine.become()
    assert fleet.ben.store.outbox.waiting_bytes(fleet.ann.key, MessageClass.CONTROL) < 2 * bound
    fleet.ben.wait(600)
    fleet.carry()
    kept = [each for order in orders for each in fleet.ann.store.order_results.of_order(fleet.group_id, order)]
    assert [each.result.state for each in kept] == [CommandState.DONE] * len(orders), "all results are there"
    assert {bool(each.output_bytes) for each in kept if not each.result.cut} == {True}
    assert any(each.result.cut and not each.output_bytes for each in kept), "of some, that there was an output"


def test_a_group_that_is_forgotten_leaves_nothing_but_once_ids(fleet: Fleet) -> None:
    once = secrets.token_bytes(16)
    order = fleet.order(once=once)
    fleet.machine.turn()
    with fleet.ben.store.transaction():
        fleet.ben.store.groups.forget(fleet.group_id)
    commands = fleet.ben.store.commands
    assert (commands.record(order), commands.obeyed_groups(), commands.used(once)) == (None, [], True)


def test_a_devices_order_to_itself_is_kept_like_others_orders(fleet: Fleet) -> None:
    fleet.machine = Machine(fleet.ben, fleet.ann, fleet.ben)
    order = fleet.order(by=fleet.ben)
    fleet.machine.turn()
    fleet.machine.become()
    [kept] = fleet.ben.store.order_results.of_order(fleet.group_id, order)
    assert (kept.device, kept.result.exit) == (fleet.ben.key, 0)
    assert fleet.ben.store.order_results.output(kept.id) == b"oh"


def test_the_operator_and_the_device_speak_of_the_same(fleet: Fleet) -> None:
    order = fleet.order()
    fleet.machine.turn()
    fleet.machine.become(3)
    fleet.carry()
    [kept] = fleet.ann.store.order_results.of_order(fleet.group_id, order)
    assert (kept.device, kept.result.exit, kept.result.state) == (fleet.ben.key, 3, CommandState.DONE)
    assert fleet.ann.store.order_results.output(kept.id) == b"oh"
