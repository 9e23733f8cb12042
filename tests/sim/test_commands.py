"""Commands over a bad network: power fails beside each step of doing one, states are restored and lost, sticks replay.

Whatever happens: what is not to be repeated has one effect on a device at most, what nobody may order has none, nothing
is done that was ordered before a device began to obey; and whoever gave a command is told what became of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.sqlite.orders.commands import CommandTables
from covey.adapters.sqlite.orders.order_results import SentReportTable
from covey.app.orders.ordered_actions import OrderedActions
from covey.core.actions import execution as execution_module
from covey.core.actions import given as given_module
from covey.core.actions import secrets as action_secrets
from covey.core.actions.definition import Ends
from covey.core.actions.execution import Execution
from covey.core.actions.obeying import obeyers
from covey.core.actions.results import REPEATED, CommandState
from covey.core.group.manifest import COLLECTOR, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval, CommandOrder, OperatorChange
from covey.core.orders import authority as authority_module
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.limits.actions import ACTION_TRIES
from tests.examples import beginning_with, parameters
from tests.proof import a_world_notices
from tests.sim.commanded import ACTIONS, Commanded
from tests.sim.obedient import Obedient
from tests.sim.test_orders import OrderWorld

_ROUNDS = 8
_LOOKED_AT = 6
"""Changes of a log that are looked at here, as in the world of settings."""
_SEEDS_OF_MISTAKES = (*range(7), 18)
"""Seeds of which each mistake fails one."""
_SEED_OF_MISTAKE = {
    "a secret may be copied": 6,
    "a program's output is kept as it is": 2,
    "a removed operator's waiting command still runs": 1,
}
"""The first that notices, where the first of all does not."""
_ONCE_BYTES = 16
_ANSWER_STEPS = 240
"""Within these, who lacks something has said so, and is answered; when that comes is up to the link."""


class CommandWorld(OrderWorld):
    """The world of orders, in which operators command: each command has a number, and its device notes it when done."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.orders: list[CommandOrder] = []
        super().__init__(folder, seed, Commanded)
        for device in self.commanded:
            device.watch = self._check_effect

    @property
    def commanded(self) -> list[Commanded]:
        """Those that obey."""
        return [each for each in self.obedient if isinstance(each, Commanded)]

    def demand(self, value: str) -> CommandOrder:
        """Return what somebody hostile orders of everybody."""
        return self._command(EVERYBODY, value.encode().ljust(_ONCE_BYTES)[:_ONCE_BYTES])

    def order(self) -> None:
        """Have an operator command something, or once more what it or another one has commanded already."""
        selectors = (
            EVERYBODY,
            EVERYBODY,
            Selector(SelectorKind.LABEL, name=self.chance.choice(("pump", "valve"))),
            Selector(SelectorKind.CAPABILITY, name=COLLECTOR),
            Selector(SelectorKind.DEVICES, devices=(self.chance.choice(self.obedient).key,)),
        )
        operator = self.chance.choice(self.operators)
        order = self._command(self.chance.choice(selectors), self.chance.randbytes(_ONCE_BYTES))
        if order.action in {"once", "again"} and len(self.orders) % 2:
            order = self.secrets.hide(operator, self.group(operator), order, f"hush-{order.action}")
            self.orders[-1] = order
        self.say(operator, order)
        if self.chance.random() < 0.3:
            self.say(self.chance.choice(self.operators), order)

    def _command(self, selector: Selector, once: bytes) -> CommandOrder:
        deadline = self.now_us + self.chance.randrange(20_000_000) if self.chance.random() < 0.3 else None
        action = self.chance.choice(("once", "once", "again", "restart", "reboot", "unknown"))
        number = {"number": str(len(self.orders))}
        self.orders.append(CommandOrder(selector, action, number, once, deadline))
        return self.orders[-1]

    def lasting(self, device: Obedient) -> CommandOrder:
        """Return a command for one device that keeps it busy for a while."""
        selector = Selector(SelectorKind.DEVICES, devices=(device.key,))
        number = {"number": str(len(self.orders))}
        self.orders.append(CommandOrder(selector, "once", number, self.chance.randbytes(_ONCE_BYTES)))
        return self.orders[-1]

    @property
    def now_us(self) -> int:
        """The date, on which all agree."""
        return self.network.now.wall_us

    def fail(self) -> None:
        """End something, or have it lose some of its state, or all of it; the first operator loses some at the end."""
        fault = self.chance.random()
        device = self.chance.choice(self.commanded[0 if fault < 0.5 else 1 :])
        if fault < 0.3:
            device.restart()
        elif fault < 0.5:
            device.end_tidily()
        elif fault < 0.75:
            device.back_up()
        elif fault < 0.93:
            was_restored, device.was_restored = device.was_restored, False
            device.restore()
            device.first_number = len(self.orders) if device.was_restored else device.first_number
            device.was_restored |= was_restored
        else:
            device.odds = 0
            device.lose_state()
            self.admit(device)
            device.first_number = len(self.orders)

    def _check_effect(self, device: Commanded, number: int, read: bytes) -> None:
        order = self.orders[number]
        secret = self.secrets.of(order)
        if secret is not None:
            assert read == f"{secret.value}\n".encode(), "something else is read than was given"
            assert device.key in secret.recipients, "a secret is read by whom it is not for"
            found = list(device.store.commands.begun())
            assert len(found) == 1, "what begins is not stored before"
            [begun] = found
            assert begun.command.author == secret.author, "a secret is read out of a copy"
        assert number >= device.first_number, "what was ordered before a device began to obey is done"
        times = 1 + device.effects.count(number)
        assert times <= (ACTION_TRIES if ACTIONS[order.action].idempotent else 1), "it is done twice"
        assert order.deadline_us is None or device.now.wall_us <= order.deadline_us, "it is done after its deadline"
        assert number in {_number(each) for each in self._counting(device)}, "who may not order has something done"

    def _counting(self, device: Commanded) -> list[Operation]:
        return [each for each in self.judged(device).counting if isinstance(read_body(each), CommandOrder)]

    # -- at rest ------------------------------------------------------------------------------------------------------

    def unreported(self) -> list[str]:
        """Return which command's author does not know what became of it on which device."""
        found = []
        known = obeyers(self.idle.store.operations.nodes(self.group_id))
        for each in self._counting(self.commanded[0]):
            author = next(device for device in self.devices if device.key == each.author)
            if not isinstance(author, Commanded):
                continue
            for device in self.commanded:
                owed = device.key in known.of(each.id) and self._is_owed(device, each)
                if owed and not self._has_reported(author, device, each):
                    found.append(f"{device.name} has not told {author.name} of {_number(each)}")
        return found

    def _has_reported(self, author: Commanded, device: Commanded, operation: Operation) -> bool:
        """Say whether an author knows what became of its command on a device, and check that it is true."""
        kept = author.store.order_results.of_order(self.group_id, operation.id)
        result = next((each.result for each in kept if each.device == device.key), None)
        if result is None:
            return False
        number = _number(operation)
        done, repeated = number in device.effects, result.code == REPEATED
        if result.state is CommandState.DONE and ACTIONS[_order(operation).action].ends is Ends.NOTHING:
            assert done, "what is told as done is not"
        assert result.state is not CommandState.REFUSED or repeated or not done, "what is told as refused is done"
        return True

    def _is_owed(self, device: Commanded, operation: Operation) -> bool:
        """Say whether a device has to tell what became of a command.

        It has not where it is addressed by another name than then, nor if it has lost its records of what is past.
        """
        order, now = _order(operation), self.group(device).member(device.key)
        raw = device.store.groups.manifest(self.group_id, operation.manifest)
        assert now is not None
        assert raw is not None
        then = read_manifest(raw, verify=False).member(device.key)
        addressed = then is not None and order.selector.selects(now) and order.selector.selects(then)
        return addressed and not (order.deadline_us is not None and device.was_restored)


def _order(operation: Operation) -> CommandOrder:
    order = read_body(operation)
    assert isinstance(order, CommandOrder)
    return order


def _number(operation: Operation) -> int:
    return int(_order(operation).arguments["number"])


def _run(folder: Path, seed: int) -> CommandWorld:
    world = CommandWorld(folder, seed)
    chance = world.chance
    world.sticks.append(tuple(world.idle.operations(world.group_id)))
    removal_at = chance.randrange(2, _ROUNDS)
    world.operators[0].back_up()
    _removed_while_its_commands_wait(world)
    for number in range(_ROUNDS):
        world.network.apart = set(chance.sample(world.devices, chance.choice((0, 0, 1))))
        for device in world.obedient:
            device.odds = chance.choice((0, 0.002, 0.02))
        if number == removal_at:
            _thief_orders_unheard(world)
        if number == 0:
            world.change_operator(added=True)
        world.order()
        world.approve()
        chance.choice(world.hostile).act(chance.choice(world.obedient))
        chance.choice((world.relabel, world.carry_sticks, world.order, world.order))()
        world.steps(chance.randint(0, 16))
        world.fail()
        world.steps(chance.randint(0, 2))
        world.fail()
    _become_quiet(world)
    return world


def _thief_orders_unheard(world: CommandWorld) -> None:
    """Have the thief order more than can be done before its removal comes, by somebody who has not heard of it."""
    before, world.network.apart = world.network.apart, set(world.operators)
    for _ in range(4):
        world.hostile[0].order(world.idle)
    world.steps(world.chance.randint(2, 5))
    world.change_operator(added=False)
    world.network.apart = before


def _removed_while_its_commands_wait(world: CommandWorld) -> None:
    """Have the thief be an operator, order what has to wait, and be removed by who has not heard of that."""
    first, second = world.operators
    idle, group_id = world.idle, world.group_id
    world.steps(1)
    _say_together(world, OperatorChange(world.thief.key, "thief", added=True))
    _bring(idle.operations(group_id), first)
    world.say(first, world.lasting(idle))
    _bring(first.operations(group_id), idle, second)
    world.network.apart = {first, second}
    _bring([world.hostile[0].signed(world.lasting(idle), idle) for _ in range(2)], idle)
    world.steps(2)
    _say_together(world, OperatorChange(world.thief.key, "", added=False))
    _bring(second.operations(group_id), idle)
    world.network.apart = set()


def _say_together(world: CommandWorld, body: OperatorChange) -> None:
    """Have the operators agree on something, the first one having said it."""
    first, second = world.operators
    said = world.say(first, body)
    assert said is not None
    _bring(first.operations(world.group_id), second)
    world.say(second, Approval(said.id))


def _bring(operations: list[Operation], *receivers: Obedient) -> None:
    """Carry operations to devices by hand."""
    for each in receivers:
        with each.store.transaction():
            raws = tuple(operation.raw for operation in operations)
            each.node.history_import.take_operations(operations[0].group_id, raws, each.now)


def _become_quiet(world: CommandWorld) -> None:
    """Mend everything, remove who is to be removed, and let everybody do and tell what there is to."""
    world.network.apart = set()
    for device in world.obedient:
        device.odds = 0
    hostile = (world.thief, world.stranger)
    world.network.run(lambda: not any(each.store.outbox.totals()[0] for each in hostile))
    first, second = world.operators
    removal = world.say(first, OperatorChange(world.thief.key, "", added=False))
    assert removal is not None
    world.network.run(lambda: second.store.operations.held(world.group_id, removal.id) is not None)
    world.say(second, Approval(removal.id))
    _settle(world)
    first.restore()  # to before it gave any command, and yet it is to know what became of all
    _settle(world)
    for device in world.commanded:
        world.secrets.check_kept(device, ())


def _settle(world: CommandWorld) -> None:
    world.converge()
    world.network.run(lambda: not any(_works(each) for each in world.commanded))
    _carry_all(world)
    if world.unreported():
        world.steps(_ANSWER_STEPS)
        _carry_all(world)
    unreported = world.unreported()
    assert not unreported, unreported


def _carry_all(world: CommandWorld) -> None:
    """Let what is queued come: after losses in a row a link waits for minutes, up to `RETRY_US_MAX` each time."""
    world.network.run(lambda: not any(each.store.outbox.totals()[0] for each in world.commanded))


def _works(device: Commanded) -> bool:
    commands = device.store.commands
    return bool(commands.waiting() or commands.begun() or commands.next_unreported())


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the bounds be such that a world meets them."""
    monkeypatch.setattr(authority_module, "CHANGES_OF_A_LOG", _LOOKED_AT)


@pytest.mark.parametrize("seed", parameters(range(2), quick=0, plain=1))
def test_devices_do_what_operators_command_once_and_tell(tmp_path: Path, seed: int) -> None:
    _run(tmp_path, seed)


_CHANGE, _CHECK = CommandTables.change, execution_module._check


def _change_but_beginnings(self: Any, record: Any) -> None:
    if record.state is not CommandState.BEGUN:
        _CHANGE(self, record)


def _repeats(self: Any, moment: Any) -> list[Any]:
    for record in self._records.begun():
        self._records.change(replace(record, state=CommandState.WAITING))
    return []


def _follows_everything(nodes: Any, _own: Any, _since: Any) -> tuple[frozenset[Any], None]:
    return frozenset(node.id for node in nodes), None


def _without_deadline(command: Any, moment: Any, *, counts: bool) -> None:
    _CHECK(replace(command, deadline_us=None), moment, counts=counts)


def _whoever_ordered(command: Any, moment: Any, *, counts: bool) -> None:
    _CHECK(command, moment, counts=True)


_MISTAKES: dict[str, tuple[object, str, object]] = {
    "what begins is not stored before": (CommandTables, "change", _change_but_beginnings),
    "what may be done is done again": (Execution, "recover", _repeats),
    "old commands are done": (given_module, "_ancestry", _follows_everything),
    "once-ids are nothing": (CommandTables, "used", lambda *_: False),
    "a removed operator's waiting command still runs": (execution_module, "_check", _whoever_ordered),
    "deadlines are nothing": (execution_module, "_check", _without_deadline),
    "a secret may be copied": (action_secrets, "_binding", lambda *_: b""),
    "a program's output is kept as it is": (execution_module, "redacted", lambda output, *_, **__: output),
    "results are not told": (OrderedActions, "_queue", lambda *_: None),
    "what was told once is not told again": (SentReportTable, "note_lacking", lambda *_: None),
}
"""Of whom a command is for, queues, tries and lost records `unit/core/actions` knows, of forgotten ones
`unit/app/history/test_forgetting.py`, of waves `test_release_waves.py`."""


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_commands_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, beginning_with(_SEED_OF_MISTAKE.get(mistake), _SEEDS_OF_MISTAKES))
