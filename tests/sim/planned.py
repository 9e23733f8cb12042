"""Worlds with plans: an operator's laptop and phone order what several groups are to do, and move devices between them.

Power fails inside of commits and between them, messages are lost, repeated and reordered, members are away, one member
is hostile, and the laptop may die in mid-flight; then the phone continues. The ledger knows what was ordered, and what
devices really did. It checks:

1. A plan's order is obeyed by every device that it is for, also if that device moves to another group later; by nobody
   twice, and by nobody whom the hostile member alone orders anything. A device that was moving when the order was given
   obeys it at most once, and is shown as one that did if it did, and not otherwise. So does one that was moved by an
   operator's device which did not hold the order: the device may be out of the group before it hears of the order.
   One whose group's order, and with it the plan, nobody else had heard of when the laptop died need not obey it. One
   that alone had heard of the order, obeyed, and left need not be shown: no member takes the result.
2. A release is installed at most once on each device. A further wave begins only if, of each earlier wave that its
   operator knows of, no more devices than the bound are on another version. A release that no device can bear is on no
   device of a second wave, and none stays on it.
3. A roll-out that has finished, by an operator's device that knows of it in all of its groups, stays finished, also if
   all its devices go silent later. A device that obeys only later, as it was between two groups, is one more to give
   it to.
4. No device is ever in none of the groups. Once the moves have ended each is in one group, all members agree who is in
   it, and nobody is in a group of the hostile member.
"""

from __future__ import annotations

import os
import random
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from covey.app.orders import continuing, moved_devices
from covey.app.orders.command_reports import CommandReport
from covey.app.orders.commands import give_command
from covey.app.orders.continuing import announce_release, continue_plan
from covey.app.orders.fleet import Scope, administered, shared_groups
from covey.app.orders.group_moves import finish_here, known_moves, order_move
from covey.app.orders.plans import KnownPlan, plan_report, plans
from covey.app.orders.release_reports import Release, pick_release, release
from covey.app.orders.releases import PlannedPart, abort, begin, go_on, pause, plan_release, read_waves, resume
from covey.core.actions.commands import CommandRecord
from covey.core.actions.definition import MOVE_ACTION
from covey.core.actions.obeying import obeyers
from covey.core.actions.results import CommandState, OrderResult
from covey.core.group.manifest import GroupManifest
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder, OperatorChange
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import DeviceKey, GroupId, OperationId, Place
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import Message, MessageType, read_message
from covey.core.wire.topics import inbox_topic
from covey.errors import LocalError
from tests.fleet import Device
from tests.sealed import sealed
from tests.sim.disk import Disk
from tests.sim.ledger import ViolationError, check
from tests.sim.memory import Memory
from tests.sim.planned_devices import EVE, INSTALLER, LABELS, LAPTOP, PHONE, Gateway, Own, planned_template
from tests.sim.unlucky import Unlucky

_STEPS, _STEP_S = 90, 5.0
_ROUNDS = 2
"""How often messages go there and back in one step of the settling."""
_SETTLE = (*(20.0,) * 30, *(400.0,) * 60)
"""Seconds of each step in which nothing fails any more: invitations are asked for once an hour."""
_LOST_AFTER = 10
"""Steps of the settling after which an operator takes a release's first wave for lost with the device that had it."""
_SILENT_S = 86_400.0
_STOP_PERCENT = 30
_PATIENCE_US = 300_000_000
_HOSTILE = 1_000
"""Numbers from here on are of commands that only the hostile member has given."""
_LOOK_EVERY = 4
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class PlannedPlan:
    """What a world draws: its groups, how much fails, and what is ordered in which step."""

    sites: int
    gateways: int
    loss: float
    cuts: float
    away: float
    orders: tuple[int, ...]
    releases: tuple[int, ...]
    moves: tuple[int, ...]
    hostile: tuple[int, ...]
    laptop_dies: int | None


def draw_planned(source: random.Random) -> PlannedPlan:
    """Draw a world."""

    def share(most: float) -> float:
        return source.uniform(0, most) if source.random() < 0.6 else 0.0

    def steps(least: int, most: int) -> tuple[int, ...]:
        return tuple(sorted(source.randrange(_STEPS) for _ in range(source.randint(least, most))))

    sites, gateways = source.choice(((2, 1), (2, 2), (2, 3), (3, 1), (3, 2)))
    return PlannedPlan(
        *(sites, gateways, share(0.4), share(0.01), share(0.2)),
        *(steps(1, 4), steps(0, 2), steps(0, 3), steps(0, 8)),
        source.randrange(_STEPS) if source.random() < 0.5 else None,
    )


@dataclass(frozen=True, slots=True)
class PlannedSummary:
    """What a world did: orders, releases and moves that were accepted; and what orders did not reach in mid-move."""

    accepted: int
    missed_in_moves: int


@dataclass(slots=True)
class _Ordered:
    """A command with a number: the devices that must obey it, and those that were moving when it was given."""

    must: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)
    where: dict[str, GroupId] = field(default_factory=dict)
    """In which group those that must obey it were then."""


@dataclass(slots=True)
class _Rolled:
    """A release: its version, its groups, the gateways that were moving in it, and where it was seen to be finished."""

    id: str
    version: str
    groups: frozenset[str]
    moving: set[str]
    finished: set[str] = field(default_factory=set)


class PlannedWorld:
    """Everything of one seed."""

    def __init__(self, seed: int, folder: Path, trace: Callable[[str], None] | None) -> None:
        self.chance = chance = random.Random(f"planned {seed}")
        self.plan = plan = draw_planned(chance)
        self._trace = trace
        made = planned_template(plan.sites, plan.gateways)
        self.groups = made.groups
        self._disks = {name: Disk(state) for name, state in made.states.items()}
        self.laptop, self.phone, self.eve = (
            Own(name, folder, chance, self._disks[name]) for name in (LAPTOP, PHONE, EVE)
        )
        self.gateways = {name: Gateway(name, folder, chance, self._disks[name]) for name in made.gateways}
        collectors = [Own(name, folder, chance, self._disks[name]) for name in made.states if name.startswith("coll")]
        self.devices: list[Unlucky] = [self.laptop, self.phone, self.eve, *collectors, *self.gateways.values()]
        self._names = {each.key: each.name for each in self.devices}
        self._where = dict(made.gateways)
        self.away: set[Device] = set()
        self.ordered: dict[int, _Ordered] = {}
        self.rolled: list[_Rolled] = []
        self._taken_over: set[str] = set()
        """Moves that the phone was told to end, once each."""
        self._moving: set[str] = set()
        """Gateways of which a move was ordered that has not been seen to end."""
        self._step = self._number = self._versions = self.accepted = 0
        self._is_settling = False
        self.loss = plan.loss
        with self.eve.store.transaction():
            self.lure = self.eve.node.membership.create(EVE, (), self.eve.now.wall_us).group_id

    @property
    def living(self) -> list[Own]:
        """The operator's devices that are left, the one that looks after things first."""
        return [each for each in (self.laptop, self.phone) if each in self.devices]

    def trace(self, text: str) -> None:
        """Tell what happens."""
        if self._trace is not None:
            self._trace(f"{self._step:>4} {text}")

    # -- time and network ---------------------------------------------------------------------------------------------

    def run(self) -> PlannedSummary:
        """Live through the plan.

        Raises:
            ViolationError: something does not hold.
        """
        self.trace(str(self.plan))
        for device in self.devices:
            device.odds = self.plan.cuts
        for self._step in range(_STEPS):
            self._act()
            self._pass(_STEP_S, rounds=1)
        self._settle()
        missed = self._judge()
        self._stay_silent()
        return PlannedSummary(self.accepted, missed)

    def _act(self) -> None:
        plan, step = self.plan, self._step
        if step == plan.laptop_dies:
            self.trace("the laptop dies")
            self.devices.remove(self.laptop)
        self.away = {each for each in self.devices if self.chance.random() < plan.away}
        for steps, act in (
            (plan.orders, self._order),
            (plan.releases, self._release),
            (plan.moves, self._move),
            (plan.hostile, self._be_hostile),
        ):
            for _ in range(steps.count(step)):
                act()
        if step % _LOOK_EVERY == 0:
            self._look_after()

    def _pass(self, seconds: float, rounds: int) -> None:
        for device in self.devices:
            device.wait(seconds)
            device.maintain()
        by_topic = {inbox_topic(device.key): device for device in self.devices}
        for _ in range(rounds):
            if not self._exchange(by_topic):
                break
        for name, gateway in self.gateways.items():
            joined = {each.group_id for each in gateway.node.groups.joined()}
            check(bool(joined & set(self.groups)), f"{name} is in none of the operator's groups")
            check(self.lure not in joined, f"{name} is in the hostile member's group")

    def _exchange(self, by_topic: dict[str, Unlucky]) -> int:
        sent = []
        for device in self.devices:
            device.node.make_acknowledgements_due(device.now)
            device.maintain()
            outgoing = device.sends()
            if device not in self.away and not (isinstance(device, Gateway) and device.is_cut_off):
                sent += outgoing
        if self.loss:
            self.chance.shuffle(sent)
        for each in sent:
            receiver = by_topic.get(each.topic)
            if receiver is None or receiver in self.away or (isinstance(receiver, Gateway) and receiver.is_cut_off):
                continue
            for _ in range(self.chance.choices((0, 1, 2), (self.loss, 1, self.loss))[0] if self.loss else 1):
                receiver.receive(each.envelope)
        return len(sent)

    def _settle(self) -> None:
        """Go on without faults until nothing is under way."""
        self.trace("faults cease")
        self.loss, self.away, self._is_settling = 0.0, set(), True
        for device in self.devices:
            device.odds = 0.0
        for seconds in _SETTLE:
            self._step += 1
            self._pass(seconds, _ROUNDS)
            self._look_after()
            if self._is_quiet():
                return
        waits = [f"{each.name}: {each.store.outbox.totals()[0]}" for each in self.devices]
        raise ViolationError(f"the world does not become quiet: {[*self._open()]}; outboxes {waits}")

    def _is_quiet(self) -> bool:
        return not any(self._waits(each) for each in self.devices) and next(self._open(), None) is None

    def _waits(self, device: Unlucky) -> bool:
        """Say whether something waits for a device that can take it: one that is listed, and will not come, cannot."""
        for each in self.devices:
            queued = device.store.outbox.queued(each.key, Place(0), _LOOKED_AT, _LOOKED_AT * 65_536)
            messages = (read_message(raw, verify=False) for _, raw in queued)
            if any(each.node.groups.is_in(message.group_id) and self._can_be_taken(message) for message in messages):
                return True
        return False

    def _can_be_taken(self, message: Message) -> bool:
        """Say whether a message that waits can be taken: a result cannot while no member holds its order."""
        if message.type is not MessageType.ORDER_RESULT:
            return True
        return self._is_held(message.group_id, OrderResult.from_wire(message.body).order)

    def _open(self) -> Iterator[str]:
        """Yield what is under way, as the device that looks after things sees it; first what is quickly looked at."""
        for gateway in self.gateways.values():
            records = gateway.store.commands
            if records.waiting() or records.begun() or gateway.store.installations.all():
                yield f"{gateway.name} is busy"
            joined = {each.group_id for each in gateway.node.groups.joined()} & set(self.groups)
            if any(records.obeyed_since(each) is None for each in joined):
                yield f"{gateway.name} does not obey yet where it was let in again"
        opened = self.living[0].opened
        for move in known_moves(opened, shared_groups(opened)):
            if any(each.is_open for each in move.devices):
                yield f"move {move.id[:8]}: {[(each.name, each.state) for each in move.devices]}"
        for each in self.rolled:
            state = self._standing(self.living[0], each)
            if state is not None and state.state in {"under way", "ready"}:
                yield f"release of {each.version}: {state.state}"
        for plan in plans(opened, shared_groups(opened)).values():
            for group, operation in plan.orders:
                for gateway in self.gateways.values():
                    is_in = gateway.node.groups.is_in(group.group_id)
                    if is_in and gateway.store.operations.raw(group.group_id, operation.id) is None:
                        yield f"{gateway.name} lacks an order of {plan.name[:8]}"
        yield from self._orders_to_come()
        yield from self._groups_to_settle()

    def _orders_to_come(self) -> Iterator[str]:
        """Yield whether the device that looks after things lacks an order of a group that another member holds."""
        own = self.living[0]
        for each in self.devices:
            for group_id in self.groups:
                held = each.store.operations.of_kind(group_id, OperationKind.COMMAND)
                if each.node.groups.is_in(group_id) and any(
                    own.store.operations.raw(group_id, order.id) is None for order in held
                ):
                    yield f"{own.name} lacks an order that {each.name} holds"

    # -- what the operator does ---------------------------------------------------------------------------------------

    def _does(self, own: Own, what: str, work: Callable[[Any], object]) -> bool:
        """Have an own device do something; return whether it was done, and the power lasted."""
        refused: list[LocalError] = []

        def attempt() -> None:
            try:
                work(own.opened)
            except LocalError as error:
                refused.append(error)

        lasted = own.does(attempt)
        if own.node.discarded:
            own.replace_node()
        self.trace(f"{own.name}: {what}{'' if lasted else '; the power goes'}{''.join(map(str, refused))}")
        return lasted and not refused

    def _order(self) -> None:
        """Give a command to the fleet; whoever is in one group and not about to leave it must obey."""
        own = self.chance.choice(self.living)
        self._number += 1
        number = self._number
        label = self.chance.choice(("", *LABELS))
        note = self.ordered[number] = _Ordered()

        def give(opened: Any) -> None:
            scope = Scope(administered(opened), fleet=True)
            for group in scope.groups:
                obeying = obeyers(opened.store.operations.nodes(group.group_id)).bits.keys()
                for member in group.members:
                    key = member.keys.signing_public
                    name = self._names.get(key, "")
                    if name in self.gateways and (not label or member.label == label):
                        is_settled = key in obeying and name not in self._moving and self._where[name] == group.group_id
                        (note.must if is_settled else note.may).add(name)
                        if is_settled:
                            note.where[name] = group.group_id
            give_command(opened, scope, "once", {"number": str(number)}, f"label:{label}" if label else "all", None)

        self.accepted += self._does(own, f"order {number} for {label or 'all'}", give)
        note.may -= note.must

    def _release(self) -> None:
        """Begin a release; of one whose power goes at that moment the phone does not know more either."""
        own = self.living[0]
        self._versions += 1  # also if the power goes: the release may have been stored
        version = f"{self.chance.choice(('good', 'good', 'bad', 'deaf'))} {self._versions}"
        seen_within_us = self.chance.choice((None, 0))

        def give(opened: Any) -> None:
            scope = Scope(administered(opened), fleet=True)
            waves = read_waves("1,50%,100%")
            planned = plan_release(
                opened, scope.groups, "all", waves, _STOP_PERCENT, _PATIENCE_US, 10_000_000, seen_within_us
            )
            parts = [PlannedPart(group, each, sealed(opened, group, version)) for group, each in planned]
            found = begin(opened, scope, INSTALLER, parts, "all")
            self.rolled.append(_Rolled(found.id, version, frozenset(found.groups), set(self._moving)))

        self.accepted += self._does(own, f"release {version}", give)

    def _move(self) -> None:
        """Split a group, or merge it into another one."""
        own = self.chance.choice(self.living)
        source, target = self.chance.sample(self.groups, 2)
        listed = {member.keys.signing_public for member in own.node.groups.group(source).members}
        here = [name for name, gateway in self.gateways.items() if gateway.key in listed]
        moves = set(here)
        selector = None
        if here and self.chance.random() < 0.6:
            one = self.chance.choice(here)
            moves, selector = {one}, self.gateways[one].key.hex()

        def give(opened: Any) -> None:
            self._moving |= moves  # whatever the power leaves of it
            for each in self.rolled:
                each.moving |= moves
            for number in self.ordered.keys() - self._numbers_held(opened, source):
                missing = self.ordered[number].must & moves
                self.ordered[number].must -= missing
                self.ordered[number].may |= missing
            order_move(opened, opened.node.groups.group(source), opened.node.groups.group(target), selector)

        self.accepted += self._does(
            own, f"move {sorted(moves)} from {self.groups.index(source)} to {self.groups.index(target)}", give
        )

    def _numbers_held(self, opened: Any, group: GroupId) -> set[int | None]:
        """Return the numbers of the orders that an own device holds in a group."""
        found = plans(opened, shared_groups(opened)).values()
        return {_number_of(each) for each in found if any(given.group_id == group for given, _ in each.orders)}

    def _look_after(self) -> None:
        """Have the operator's first living device look at everything, as its agent and its person do."""
        own = self.living[0]
        for each in self.rolled:
            self._continue_release(own, each)
        if own is self.phone:
            self._take_over(own)
        self._note_ended_moves()

    def _continue_release(self, own: Own, rolled: _Rolled) -> None:
        before = self._standing(own, rolled)
        if before is None:
            return
        is_known = rolled.groups <= {*before.groups} - {*before.missing}
        if before.state == "finished" and is_known and not self._moving:
            rolled.finished.add(own.name)  # else it goes on when a further group's order comes, or a device obeys again
        is_late = before.state == "under way" and self._step > _STEPS + _LOST_AFTER
        if is_late and before.missing and own is self.phone and self._announce(own, rolled):
            return
        is_lost = is_late and not before.devices
        if is_lost or (before.state == "stopped" and before.said and self._is_settling):
            scope = Scope(administered(own.opened), fleet=True)
            self._does(own, f"abort {rolled.version}", lambda opened: abort(opened, scope, rolled.id))
            return
        if before.state != "ready" and not (before.state == "stopped" and not before.said):
            if before.state == "paused" and self.chance.random() < 0.5:
                self._does(
                    own,
                    f"resume {rolled.version}",
                    lambda opened: resume(*self._of(opened, rolled), None, accept=False),
                )
            elif before.state == "under way" and self.loss and self.chance.random() < 0.05:
                scope = Scope(administered(own.opened), fleet=True)
                self._does(own, f"pause {rolled.version}", lambda opened: pause(opened, scope, rolled.id))
            return
        if before.state == "ready":
            self._check_waves(own, rolled)
        self._does(own, f"continue {rolled.version} ({before.state})", lambda opened: go_on(*self._of(opened, rolled)))

    def _announce(self, own: Own, rolled: _Rolled) -> bool:
        """Announce a release in groups in which nobody knows of it, as the laptop died before; its file is at hand.

        Return whether there were any.
        """
        groups: list[GroupManifest] = []

        def announce(opened: Any) -> None:
            groups.extend(announce_release(opened, pick_release(*self._of(opened, rolled)).known, lambda _: None))

        with patch.object(continuing, "_file", lambda opened, _, group, __: sealed(opened, group, rolled.version)):
            return self._does(own, f"announce {rolled.version} where it lacks", announce) and bool(groups)

    def _of(self, opened: Any, rolled: _Rolled) -> tuple[Any, Any, str]:
        return opened, administered(opened), rolled.id

    def _standing(self, own: Own, rolled: _Rolled) -> Release | None:
        """Return how an own device sees a release; None where it has not heard of it."""
        try:
            return release(*self._of(own.opened, rolled))
        except LocalError:
            return None

    def _check_waves(self, own: Own, rolled: _Rolled) -> None:
        """Check, before a further wave, what has really become of those that its operator knows of (rule 2)."""
        given = pick_release(*self._of(own.opened, rolled))
        by_wave: dict[int, set[DeviceKey]] = {}
        earlier: set[DeviceKey] = set()
        waves = [(part, wave) for part in given.parts for wave in part.waves]
        for part, wave in sorted(waves, key=lambda each: each[1].order.wave):
            named = {each for each in wave.order.selector.devices if each in self._names} - earlier
            reported = {
                each.device for each in own.store.order_results.of_order(part.group.group_id, wave.operation.id)
            }
            named -= {each for each in named - reported if part.group.member(each) is None}
            by_wave.setdefault(wave.order.wave, set()).update(named)
            earlier |= named
        for number, keys in by_wave.items():
            bad = [self._names[key] for key in keys if rolled.version not in self.gateways[self._names[key]].stayed]
            text = f"a wave follows wave {number} of {rolled.version}, of which {bad} are not on it"
            check(len(bad) * 100 <= _STOP_PERCENT * len(keys), text)

    def _take_over(self, own: Own) -> None:
        """Have the phone do what the laptop began: give plans where they lack, and end its moves."""
        opened = own.opened
        for plan in plans(opened, shared_groups(opened)).values():
            if plan.once is None and plan.kept is not None and plan.missing:
                self._does(own, f"continue plan {plan.name[:8]}", lambda opened, plan=plan: continue_plan(opened, plan))
        for move in known_moves(opened, shared_groups(opened)):
            is_open = any(each.is_open or each.never_enters for each in move.devices)
            if move.id in self._taken_over or not is_open:
                continue
            if self._does(own, f"finish move {move.id[:8]}", lambda opened, move=move: finish_here(opened, move)):
                self._taken_over.add(move.id)

    def _note_ended_moves(self) -> None:
        """Note where gateways are whose moves have ended."""
        for name in sorted(self._moving):
            gateway = self.gateways[name]
            joined = {each.group_id for each in gateway.node.groups.joined()} & set(self.groups)
            if len(joined) == 1 and not gateway.actions._moving.under_way() and not self._may_move(gateway):
                self._moving.discard(name)
                [self._where[name]] = joined

    def _may_move(self, gateway: Gateway) -> bool:
        """Say whether a move of a gateway is open, as one of the own devices sees it."""
        for each in self.living:
            for move in known_moves(each.opened, shared_groups(each.opened)):
                if any(device.is_open and device.device == gateway.key.hex() for device in move.devices):
                    return True
        return False

    # -- what the hostile member does ---------------------------------------------------------------------------------

    def _be_hostile(self) -> None:
        """Order something, change who orders, copy an operator's order, stop a release, or lure devices away."""
        eve = self.eve
        group = self.groups[0]
        known = [
            read_operation(each.raw, verify=False)
            for each in eve.store.operations.of_kind(group, OperationKind.COMMAND)
        ]
        orders = [body for each in known if isinstance(body := read_body(each), CommandOrder)]
        number = _HOSTILE + self._step
        choices: list[Any] = [
            CommandOrder(EVERYBODY, "once", {"number": str(number)}, eve.rng(16)),
            OperatorChange(eve.key, EVE, added=True),
            OperatorChange(self.phone.key, PHONE, added=False),
            CommandOrder(EVERYBODY, MOVE_ACTION, {"group": self.lure.hex()}, eve.rng(16)),
        ]
        if orders:
            copied = self.chance.choice(orders)
            choices += [copied, CommandOrder(EVERYBODY, "once", {"number": str(number)}, copied.once)]
            state = self.chance.choice(tuple(ReleaseState))
            choices.append(ReleaseChange(copied.once, state, "says eve", stop_percent=100 if state == 0 else None))
        body = self.chance.choice(choices)
        self.trace(f"eve: {type(body).__name__} {getattr(body, 'action', '')}")
        eve.write_operation(group, body)
        if getattr(body, "action", "") == MOVE_ACTION:
            for gateway in self.gateways.values():
                self._lure(gateway)

    def _lure(self, gateway: Gateway) -> None:
        def invite() -> None:
            with self.eve.store.transaction():
                self.eve.node.actions.invite_member(self.lure, gateway.key, (), self.eve.now)

        try:
            self.eve.does(invite)
        except LocalError:
            self.eve.replace_node()

    # -- the ledger ---------------------------------------------------------------------------------------------------

    def _judge(self) -> int:
        """Check what has become of everything; return how many devices an order has missed as they were moving."""
        own = self.living[0]
        missed = self._judge_orders(own)
        for rolled in self.rolled:
            self._judge_release(own, rolled)
        return missed

    def _judge_orders(self, own: Own) -> int:
        missed = 0
        effects = {name: Counter(gateway.effects) for name, gateway in self.gateways.items()}
        for name, counts in effects.items():
            check(max(counts.values(), default=0) <= 1, f"{name} has obeyed an order twice: {counts}")
            check(not any(each >= _HOSTILE for each in counts), f"{name} has obeyed the hostile member")
        opened = own.opened
        for plan in plans(opened, shared_groups(opened)).values():
            number = _number_of(plan)
            if plan.once is not None or number is None:
                continue
            note, shown = self.ordered[number], plan_report(opened, plan)
            assert isinstance(shown, CommandReport), "commands are reported"
            outcomes = {self._names[DeviceKey(bytes.fromhex(each.device))]: each.outcome for each in shown.devices}
            for name in sorted(note.must | note.may):
                record = self._record(name, plan)
                state = None if record is None else record.state
                did = effects[name][number] == 1
                is_shown = outcomes.get(name) in {"done", "failed", "unknown"} or self._is_held_by_nobody(name, number)
                is_lost = plan.kept is None and note.where.get(name) not in plan.groups  # the laptop died with it
                if name in note.must and not is_lost:
                    check(did or state is CommandState.UNKNOWN, f"{name} has not obeyed order {number}: {state}")
                    check(is_shown, f"order {number} is {outcomes.get(name)} on {name}, which has obeyed it")
                missed += not did and state is not CommandState.UNKNOWN
                check(did or outcomes.get(name) not in {"done", "failed"}, f"{name} is said to have obeyed {number}")
                check(not did or is_shown, f"{name} has obeyed order {number}, which is {outcomes.get(name)} there")
        return missed

    def _is_held_by_nobody(self, name: str, number: int) -> bool:
        """Say whether no member of its group holds the order by which a gateway obeyed, which has left that group."""
        records = self.gateways[name].store
        for group in self.groups:
            for each in records.operations.of_kind(group, OperationKind.COMMAND):
                body, record = read_body(read_operation(each.raw, verify=False)), records.commands.record(each.id)
                is_it = isinstance(body, CommandOrder) and body.arguments.get("number") == str(number)
                if is_it and record is not None and record.state is CommandState.DONE:
                    return not self._is_held(group, each.id)
        return False

    def _is_held(self, group: GroupId, order: OperationId) -> bool:
        members = (each for each in self.devices if each.node.groups.is_in(group))
        return any(each.store.operations.raw(group, order) is not None for each in members)

    def _record(self, name: str, plan: KnownPlan) -> CommandRecord | None:
        """Return what a gateway made of a plan's order; it refuses further ones with the same once-id."""
        records = [self.gateways[name].store.commands.record(operation.id) for _, operation in plan.orders]
        known = [each for each in records if each is not None]
        return min(known, key=lambda each: each.state is CommandState.REFUSED, default=None)

    def _judge_release(self, own: Own, rolled: _Rolled) -> None:
        for name, gateway in self.gateways.items():
            check(gateway.installs[rolled.version] <= 1, f"{name} has installed {rolled.version} twice")
            is_good = rolled.version.startswith("good")
            check(is_good or gateway.version != rolled.version, f"{name} has stayed on {rolled.version}")
        tried = [name for name, gateway in self.gateways.items() if gateway.installs[rolled.version]]
        if not rolled.version.startswith("good"):
            stayed = [name for name in tried if name not in rolled.moving]  # one that leaves may not be able to tell
            check(len(stayed) <= 1, f"{rolled.version} has reached {tried}: more than its first wave")
        found = self._standing(own, rolled)
        if found is not None and own.name in rolled.finished:
            check(found.state == "finished", f"{rolled.version} was finished, and is {found.state}")

    def _groups_to_settle(self) -> Iterator[str]:
        """Yield which gateways are not in one group as the operator sees it, and of which groups members disagree."""
        own = self.living[0]
        for name, gateway in self.gateways.items():
            joined = [each.group_id for each in gateway.node.groups.joined() if each.group_id in self.groups]
            if len(joined) != 1:
                yield f"{name} is in {len(joined)} groups after its moves have ended"
            elif own.node.groups.group(joined[0]).member(gateway.key) is None:
                yield f"{name} is lost: the operator's device does not list it"
        for number, group_id in enumerate(self.groups):
            seen = {each.node.groups.group(group_id).hash for each in self.devices if each.node.groups.is_in(group_id)}
            if len(seen) != 1:
                yield f"members of group {number} disagree on who is in it"

    def _stay_silent(self) -> None:
        """Let all gateways be silent for a day, and check what was finished (rule 3)."""
        own = self.living[0]
        finished = [each for each in self.rolled if (found := self._standing(own, each)) and found.state == "finished"]
        own.wait(_SILENT_S)
        own.maintain()
        for each in finished:
            found = self._standing(own, each)
            check(found is not None and found.state == "finished", f"{each.version} was finished, and is not any more")

    def close(self) -> None:
        """Throw everything away."""
        for device in (self.laptop, *self.devices):
            device.stop()
        for disk in self._disks.values():
            disk.close()


def _number_of(plan: KnownPlan) -> int | None:
    """Return the number of a plan's command."""
    for _, operation in plan.orders:
        body = read_body(operation)
        if isinstance(body, CommandOrder) and "number" in body.arguments:
            return int(body.arguments["number"])
    return None


def run_planned(seed: int, trace: Callable[[str], None] | None = None) -> PlannedSummary:
    """Run one seed in a world of its own.

    Raises:
        ViolationError: something does not hold; the seed replays it.
    """
    drawn = draw_planned(random.Random(f"planned {seed}"))
    planned_template(drawn.sites, drawn.gateways)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memory = Memory()
        stack.enter_context(memory.applied())
        stack.enter_context(memory.reading_applied())
        drawn_bytes = random.Random(f"drawn {seed}").randbytes
        stack.enter_context(patch.object(secrets, "token_bytes", drawn_bytes))
        stack.enter_context(patch.object(os, "urandom", drawn_bytes))
        stack.enter_context(patch.object(moved_devices, "report", lambda _level, _text: None))
        world = PlannedWorld(seed, folder, trace)
        stack.callback(world.close)
        try:
            return world.run()
        except ViolationError:
            raise
        except Exception as error:
            raise ViolationError(f"a device fell over: {error!r}") from error
