"""Orders over a bad network: operators come and go in mid-flight, power and disks fail, and two members are hostile.

One was never made an operator; the other one was, is removed, and goes on ordering. Whatever came first and to whom:
whoever holds the same operations judges alike, as the rules say when they are applied in another way (`judgement.py`);
what a device sets is what is wanted of it, or it has told why not; and nobody sets anything who may not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.sqlite.orders.order_results import SentReportTable
from covey.app.orders import setting_role
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member, read_manifest
from covey.core.history.bodies import Note, read_body
from covey.core.history.operation import Operation
from covey.core.history.orders import Approval, CommandOrder, OperatorChange, SettingOrder
from covey.core.ids import DeviceKey, OperationId
from covey.core.orders import authority as authority_module
from covey.core.orders.authority import Pins, WeighedOrders
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings import desired as desired_module
from covey.core.settings.desired import GroupSettings
from covey.core.settings.obedience import Desired, Obedience
from covey.core.settings.ordered import HeldValue
from covey.core.settings.states import SettingReport, SettingState
from covey.errors import LocalError, SettingError
from covey.limits.history import FORKS_OF_ONE, LOGS_OF_ONE
from tests.examples import beginning_with, parameters
from tests.fleet import Device, identity
from tests.proof import a_world_notices
from tests.sim.hostile_operator import HostileOperator
from tests.sim.judgement import Judgement
from tests.sim.obedient import BAD_RELAY, Obedient
from tests.sim.secrets import Secret, Secrets
from tests.split_network import SplitNetwork

_ROUNDS = 8
_LOOKED_AT = 6
"""Changes of a log that are looked at here: fewer than hostile members write."""
_SEEDS_OF_MISTAKES = (*range(3), 4)
"""Seeds of which each mistake fails one."""
_NOTICED_BY_SEED_1 = {
    "nothing is refused",
    "the first order holds",
    "no removal counts",
    "nothing is ever replaced",
    "what stands beside a removal counts",
    "what was reported once is not reported again",
}
"""Mistakes that seed 0 does not notice."""
_HEARINGS, _HEARING_STEPS = 8, 120
_LABELS = ("pump", "valve")


class OrderWorld:
    """A group of three that obey and two that are hostile, as if they had been in it for long."""

    keys: tuple[str, ...] = ("a.x", "app.y", "start.z", "local.k", "relay.url")
    values: tuple[object, ...] = (None, "one", "two", 3, True)
    secret_keys: tuple[str, ...] = ()
    """The texts that operators give these are secret."""

    def __init__(self, folder: Path, seed: int, makes: type[Obedient] = Obedient) -> None:
        self.chance = chance = random.Random(seed)
        pinned = frozenset(identity(name).signing_public for name in ("ann", "ben"))
        self.pins = Pins(pinned, chance.choice((1, 2)))
        self.obedient = [makes(name, folder, chance, self.pins) for name in ("ann", "ben", "idle")]
        self.operators, self.idle = self.obedient[:2], self.obedient[2]
        self.thief, self.stranger = (Device(name, folder, chance=chance) for name in ("thief", "stranger"))
        self.devices: list[Device] = [*self.obedient, self.thief, self.stranger]
        self.hostile = [HostileOperator(self, each, chance) for each in (self.thief, self.stranger)]
        self.network = SplitNetwork(self.devices, chance, loss=0.2)
        self.sticks: list[tuple[Operation, ...]] = []
        self.secrets = Secrets(seed)
        self.feud = False
        """Whether the thief has removed those who remove it: then nobody may be left."""
        self.written: list[tuple[Obedient, Operation]] = []
        self._found()

    def _found(self) -> None:
        first, *others = self.devices
        now, membership = first.now, first.node.membership
        with first.store.transaction():
            self.group_id = membership.create("ann", (), now.wall_us).group_id
            for other in others:
                capabilities = (COLLECTOR,) if other.name == "ben" else ()
                member = Member(other.identity.keys, "pump", capabilities=capabilities)
                membership.change(self.group_id, lambda draft, _, member=member: draft.adding(member), now.wall_us)
        for other in others:
            self.admit(other)
        self.say(first, Note("text/plain", b"in the beginning"))
        self.network.run(lambda: all(each.store.operations.heads(self.group_id) for each in self.devices))

    def admit(self, device: Device) -> None:
        """Give a device the group as some other member has it."""
        source = next(each for each in self.devices if each is not device)
        groups, membership = source.store.groups, source.node.membership.groups
        current, secret = membership.group(self.group_id), membership.secret(self.group_id)
        assert secret is not None
        with device.store.transaction():
            for _, manifest_hash, raw in groups.manifests():
                version = read_manifest(raw, verify=False).version
                device.store.groups.save_manifest(self.group_id, manifest_hash, version, raw, 0)
            device.store.groups.save_secret(self.group_id, current.epoch_id, secret, 0)
        device.restart()

    def group(self, device: Device) -> GroupManifest:
        """Return what a device believes the group to be."""
        return device.node.groups.group(self.group_id)

    def say(self, author: Device, body: Any) -> Operation | None:
        """Let an honest device say something."""
        assert isinstance(author, Obedient)
        operation = author.write_operation(self.group_id, body)
        if operation is not None:
            self.written.append((author, operation))
        return operation

    def judged(self, device: Obedient) -> Judgement:
        """Return what the operations that a device has come to."""
        members = {member.keys.signing_public for member in self.group(device).members}
        void = device.node.history.standing(self.group_id).void
        return Judgement(device.operations(self.group_id), self.pins, members, void, _LOOKED_AT)

    # -- what honest people do ----------------------------------------------------------------------------------------

    def demand(self, value: str) -> SettingOrder | CommandOrder:
        """Return what somebody hostile orders of everybody."""
        return SettingOrder(EVERYBODY, self.chance.choice(self.keys), value)

    def order(self) -> None:
        """Have an operator set or unset something for somebody."""
        key = self.chance.choice(self.keys)
        value: Any = self.chance.choice(self.values)
        if key == "relay.url":
            value = self.chance.choice((None, "mqtt://other", BAD_RELAY))
        selectors = (
            EVERYBODY,
            Selector(SelectorKind.LABEL, name=self.chance.choice(_LABELS)),
            Selector(SelectorKind.CAPABILITY, name=COLLECTOR),
            Selector(SelectorKind.DEVICES, devices=(self.chance.choice(self.obedient).key,)),
        )
        operator, selector = self.chance.choice(self.operators), self.chance.choice(selectors)
        order = SettingOrder(selector, key, value)
        if key in self.secret_keys and isinstance(value, str):
            order = self.secrets.give(operator, self.group(operator), selector, key)
        self.say(operator, order)

    def approve(self) -> None:
        """Have an operator agree with what the others who are pinned have said, perhaps."""
        operator = self.chance.choice(self.operators)
        own = operator.operations(self.group_id)
        agreed = {read_body(each).subject() for each in own if each.author == operator.key and each.kind == 7}
        for each in own:
            said = (
                isinstance(read_body(each), OperatorChange | SettingOrder | CommandOrder)
                and each.author in self.pins.operators
            )
            if said and each.author != operator.key and each.id not in agreed and self.chance.random() < 0.7:
                self.say(operator, Approval(each.id))

    def change_operator(self, *, added: bool) -> None:
        """Have an operator add the one who turns out to be a thief, or remove it."""
        self.say(self.chance.choice(self.operators), OperatorChange(self.thief.key, "thief", added=added))

    def remove_thief(self) -> None:
        """Have an operator remove the thief, which replaces beside that what it has ordered before: that is gone."""
        thief, victim = self.hostile[0], self.chance.choice(self.operators)
        thief.order(victim)
        self.steps(4)
        self.change_operator(added=False)
        thief.replace_own(victim)

    def relabel(self) -> None:
        """Have a device be called otherwise."""
        device = self.chance.choice(self.obedient)
        own, label = device.key, self.chance.choice(_LABELS)

        def edit(draft: GroupManifest, _epoch: object) -> GroupManifest:
            member = draft.member(own)
            assert member is not None
            return draft.changing(replace(member, label=label))

        def work() -> None:
            with device.store.transaction():
                device.node.actions.change(self.group_id, edit, device.now)

        try:
            device.does(work)
        except LocalError:
            device.replace_node()

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """Restart something, or lose some of its state."""
        device, fault = self.chance.choice(self.obedient), self.chance.random()
        if fault < 0.5:
            device.restart()
        elif fault < 0.7:
            device.back_up()
        elif fault < 0.85:
            device.restore()

    def carry_sticks(self) -> None:
        """Bring what lies on some stick, old or new, to somebody."""
        device = self.chance.choice(self.obedient)
        if self.chance.random() < 0.5:
            self.sticks.append(tuple(self.chance.choice(self.obedient).operations(self.group_id)))
        stick = self.chance.choice(self.sticks)

        def work() -> None:
            with device.store.transaction():
                device.node.history_import.take_operations(self.group_id, tuple(each.raw for each in stick), device.now)

        device.does(work)

    def converge(self) -> None:
        """Have all hold the same: of more than is bounded of a hostile member, that is what somebody has followed.

        What comes after that was said, to who had lost it, somebody is to follow as well.
        """
        for _ in range(_HEARINGS):
            for device in self.obedient:
                self.say(device, Note("text/plain", b"heard"))
            for _ in range(_HEARING_STEPS):
                if self._is_in_step():
                    return
                self.network.step()
        self.network.run(self._is_in_step)

    def _is_in_step(self) -> bool:
        hashes = {self.group(each).hash for each in self.obedient}
        return len(hashes) == 1 and len({ids_of(self, each) for each in self.obedient}) == 1

    def steps(self, count: int) -> None:
        """Let time go on."""
        for _ in range(count):
            self.network.step()


def run(folder: Path, seed: int, makes: type[OrderWorld] = OrderWorld) -> None:
    """Let a world go on for some rounds, and check what must hold."""
    world = makes(folder, seed)
    chance = world.chance
    world.sticks.append(tuple(world.idle.operations(world.group_id)))
    removal_at = chance.randrange(2, _ROUNDS)
    for number in range(_ROUNDS):
        world.network.apart = set(chance.sample(world.devices, chance.choice((0, 1, 2))))
        for device in world.obedient:
            device.odds = chance.choice((0, 0.002, 0.02))
        if number == removal_at:
            world.remove_thief()
        elif number == 0:
            world.change_operator(added=True)
        world.order()
        world.approve()
        chance.choice(world.hostile).act(chance.choice(world.obedient))
        chance.choice((world.relabel, world.carry_sticks, world.order, world.approve))()
        world.steps(chance.randint(0, 12))
        world.fail()
        _check_now(world)
    for hostile in world.hostile:
        hostile.act(chance.choice(world.obedient))
    if chance.random() < 0.3:
        world.feud = True
        for hostile in world.hostile:
            hostile.remove_the_others(chance.choice(world.obedient))
    _become_quiet(world)
    _check_end(world)


def _become_quiet(world: OrderWorld) -> None:
    """Mend the network, remove who is to be removed, and let everybody follow all that there is."""
    world.network.apart = set()
    for device in world.obedient:
        device.odds = 0
    hostile = (world.thief, world.stranger)
    world.network.run(lambda: not any(each.store.outbox.totals()[0] for each in hostile))
    first, second = world.operators
    second.back_up()
    removal = world.say(first, OperatorChange(world.thief.key, "", added=False))
    assert removal is not None
    world.network.run(lambda: second.store.operations.held(world.group_id, removal.id) is not None)
    world.say(second, Approval(removal.id))
    _settle(world)
    second.restore()  # nothing changes any more, and yet it is to know what became of all
    _settle(world)


def _settle(world: OrderWorld) -> None:
    world.converge()
    world.network.run(lambda: all(_has_reported(world, each) for each in world.obedient) and _obeys(world))


def ids_of(world: OrderWorld, device: Obedient) -> frozenset[OperationId]:
    """Return the operations that a device holds."""
    return frozenset(stored.id for stored in device.store.operations.in_order(world.group_id))


def _has_reported(world: OrderWorld, device: Obedient) -> bool:
    """Say whether a device tries nothing any more, and all who are to know its state do, whose was restored, too."""
    rows = device.store.ordered_settings.all()
    if any(each.unproven for each in rows):
        return False
    report = SettingReport(tuple(each.reported for each in rows)).to_wire()
    keys = device.operators.hearers(device.node, world.group_id)
    hearers = [each for each in world.operators if each.key in keys]
    kept = [each.store.setting_reports.of(world.group_id, device.key) for each in hearers]
    return all((each.body if each is not None else SettingReport(()).to_wire()) == report for each in kept)


def _obeys(world: OrderWorld) -> bool:
    """Say whether all that is wanted of each device has been judged by it: that costs most to find out."""
    return all(
        {each.key: each.operation for each in device.store.ordered_settings.all()}
        == {key: each.id for key, each in _wanted(world, device).items()}
        for device in world.obedient
    )


def _wanted(world: OrderWorld, device: Obedient) -> dict[str, Operation]:
    """Return by key the last order that counts, is not replaced by its author, and is for a device."""
    member = world.group(device).member(device.key)
    assert member is not None
    wanted = {}
    for each in world.judged(device).holding:
        order = read_body(each)
        if isinstance(order, SettingOrder) and order.selector.selects(member):
            wanted[order.key] = each
    return wanted


def _check_now(world: OrderWorld) -> None:
    """Check what holds at every moment: a device that has looked does what all that it has heard comes to."""
    for device in world.obedient:
        device.maintain()
        wanted = {key: each.id for key, each in _wanted(world, device).items()}
        desired = {each.key: each.operation for each in device.operators.desired(device.node)}
        assert desired == wanted, f"{device.name} wants other than the rules say"
        judged, by_id = world.judged(device), {each.id: each for each in device.operations(world.group_id)}
        removals = judged.removed.get(world.thief.key, [])
        for row in device.store.ordered_settings.all():
            assert row.author != world.stranger.key, "somebody orders whom nobody made an operator"
            if row.author == world.thief.key and row.operation in by_id:
                beside = [each for each in removals if not judged.follows(each, row.operation)]
                assert not beside, "a removed operator orders"


def _weighed(world: OrderWorld, device: Obedient) -> WeighedOrders:
    group = world.group(device)
    void = device.node.history.standing(world.group_id).void
    return GroupSettings(device.store.operations, group, world.pins, void).weighed


def _check_end(world: OrderWorld) -> None:
    for device in world.obedient:
        device.restart()
        judged, weighed = world.judged(device), _weighed(world, device)
        assert weighed.operators.keys() == judged.operators, "it takes others for operators than it should"
        counting = [each.id for each in judged.counting if each.kind == 5]
        assert [each.id for each in weighed.orders if each.counts] == counting, "other orders count than should"
        assert world.feud or judged.operators == world.pins.operators, "who was removed is an operator"
        _check_rows(world, device)
        _check_kept(world, device)
    assert len({str(_weighed(world, each)) for each in world.obedient}) == 1, "they judge differently"
    everywhere = ids_of(world, world.idle)
    restored = {each.key for each in world.obedient if each.was_restored}
    lost = [each for author, each in world.written if author.key not in restored and each.id not in everywhere]
    assert not lost, "what an honest member wrote is lost"


def _check_rows(world: OrderWorld, device: Obedient) -> None:
    """Check that what is wanted holds, or that it is told why not."""
    rows = {each.key: each for each in device.store.ordered_settings.all()}
    wanted = _wanted(world, device)
    assert rows.keys() == wanted.keys()
    for key, each in wanted.items():
        order, row = read_body(each), rows[key]
        assert isinstance(order, SettingOrder)
        assert row.operation == each.id, "another order is obeyed than the last one that counts"
        held = None if row.held is None else row.held.value
        secret = world.secrets.of(order)
        value = order.value if secret is None else secret.value
        assert row.state in _possible(device, order, secret), f"{key} is {row.state.name}"
        if row.state in {SettingState.APPLIED, SettingState.HANDED_OVER}:
            assert held == value, "what is told as set is not what is wanted"
        else:
            assert row.code, "nobody is told why"
            assert held is None or held != value or row.state is SettingState.REFUSED
    assert device.holds == {key: row.held.value for key, row in rows.items() if row.held is not None}
    world.secrets.check_kept(device, device.holds.values())


def _possible(device: Obedient, order: SettingOrder, secret: Secret | None) -> Collection[SettingState]:
    if order.sealed is not None and (secret is None or device.key not in secret.recipients):
        return {SettingState.REFUSED}
    try:
        device.check(order.key, order.value)
    except SettingError:
        return {SettingState.REFUSED}
    if order.value == BAD_RELAY:
        return {SettingState.REVERTED}
    if order.key.startswith("app."):
        return {SettingState.HANDED_OVER}
    restarts = order.key.startswith(("start.", "relay."))
    return {SettingState.APPLIED, SettingState.REVERTED} if restarts else {SettingState.APPLIED}


def _check_kept(world: OrderWorld, device: Obedient) -> None:
    """Check that no lie is kept, and no more of a hostile member than is bounded or somebody followed."""
    operations = device.operations(world.group_id)
    by_id = {each.id: each for each in operations}
    followed = {parent for each in operations for parent in each.parents if by_id[parent].author != each.author}
    for hostile in world.hostile:
        assert not by_id.keys() & hostile.lies, "a lie is kept"
        own = [each for each in operations if each.author == hostile.key]
        unfollowed = _unfollowed(own, followed)
        assert len({each.log for each in unfollowed}) <= LOGS_OF_ONE, "more logs of one than are bounded"
        numbers = [(each.log, each.number) for each in unfollowed]
        assert max(map(numbers.count, numbers), default=0) <= FORKS_OF_ONE, "more rivals than prove a fork"


def _unfollowed(own: list[Operation], followed: set[OperationId]) -> list[Operation]:
    """Return what no other author's operation follows, directly or by way of these."""
    wanted = set[OperationId]()
    for each in reversed(own):
        if each.id in followed or each.id in wanted:
            wanted |= {each.id, *each.parents}
    return [each for each in own if each.id not in wanted]


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the bounds be such that a world meets them."""
    monkeypatch.setattr(authority_module, "CHANGES_OF_A_LOG", _LOOKED_AT)
    monkeypatch.setattr(setting_role, "RELAY_TRIAL_US", 20_000_000)


@pytest.mark.parametrize("seed", parameters(range(5), quick=0, plain=1))
def test_devices_set_what_operators_order_and_nobody_else(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


def _first_wins(groups: GroupSettings, members: Iterable[Member]) -> Any:
    weighed = groups.weighed
    groups.weighed = replace(weighed, orders=weighed.orders[::-1])
    try:
        return _OF(groups, members)
    finally:
        groups.weighed = weighed


def _anybody_adds(self: Any, known: int, removals: Any) -> dict[DeviceKey, str]:
    found = _FIND_OPERATORS(self, known, removals)
    for signature in self._signatures[:-1]:
        if signature.change is not None and signature.change.added:
            found.setdefault(signature.change.key, "")
    return found


_OF = GroupSettings.of
_FIND_OPERATORS = authority_module._Weighing._find_operators
_WEIGH = authority_module.weigh_orders


def _weighing(threshold: int | None = None, **found: Any) -> Callable[..., WeighedOrders]:
    """Return weighing by another threshold, or which finds something else of each order."""

    def weigh(records: Any, group_id: Any, pins: Pins, *others: Any, **named: Any) -> WeighedOrders:
        weighed = _WEIGH(records, group_id, replace(pins, threshold=threshold or pins.threshold), *others, **named)
        return replace(weighed, orders=tuple(replace(each, **found) for each in weighed.orders))

    return weigh


def _unjudged(desired: Desired) -> HeldValue | None:
    return None if desired.value is None else HeldValue(desired.value, desired.author)


_MISTAKES: dict[str, tuple[object, str, object]] = {
    "one operator is enough": (desired_module, "weigh_orders", _weighing(threshold=1)),
    "who may be an operator is one": (desired_module, "weigh_orders", _weighing(counts=True)),
    "whoever is named in an addition is an operator": (
        authority_module._Weighing,
        "_find_operators",
        _anybody_adds,
    ),
    "what stands beside a removal counts": (
        authority_module,
        "_known_by",
        lambda _nodes, signatures, removals: [removals] * len(signatures),
    ),
    "no removal counts": (authority_module._Weighing, "_removals", lambda *_: 0),
    "nothing is ever replaced": (desired_module, "weigh_orders", _weighing(replaces=False)),
    "the first order holds": (GroupSettings, "of", _first_wins),
    "nothing is refused": (Obedience, "_judged", lambda _self, desired, _given: (_unjudged(desired), None)),
    "what was reported once is not reported again": (SentReportTable, "note_lacking", lambda *_: None),
}
"""Of present members (rule 5), bounds (6), waves (7) and what few have signed (8) `unit/core/orders/test_authority.py`
knows, of tries, groups and keys of settings `unit/core/settings`."""


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_in_orders_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    first = 1 if mistake in _NOTICED_BY_SEED_1 else None
    a_world_notices(mistake, run, tmp_path, beginning_with(first, _SEEDS_OF_MISTAKES))
