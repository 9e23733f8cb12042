"""A person's devices over a bad network: power and disks fail, states are restored and lost, and one device is stolen.

Groups are made, joined, left, erased and destroyed on whichever device is at hand. A friend shares some of them. The
stolen device is removed, and goes on ordering, from before its removal as far as anybody can see, by sticks.

Whatever came first and to whom: the devices end with the same marks and preferences, as the rules say when they are
applied in another way; each is in every group that is held and that nobody left, and in no other one; of what was
erased no device has a secret or a word, anywhere in its file; and nothing was left that nobody of the person had left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.membership.groups import GroupTables
from covey.core.group.manifest import GroupManifest, Mode
from covey.core.history.bodies import Note, read_body
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.personal import Holding, OwnGroup, Preference
from covey.core.ids import GroupId, Incarnation, OperationId
from covey.core.own.own_devices import OwnDevices
from covey.core.own.state import PersonalState, personal_state
from covey.core.pairing.invite import Invite
from covey.core.wire.message import MessageType, read_message
from covey.errors import LocalError
from tests.examples import parameters
from tests.fleet import Device
from tests.proof import a_world_notices
from tests.sim.unlucky import Unlucky
from tests.split_network import SplitNetwork

_ROUNDS = 8
_BEAT_US = 30_000_000
_CYCLES, _CYCLE_STEPS, _CYCLE_S = 40, 8, 120
"""Towards the end little happens for long: some is due after ten minutes, some after an hour."""
_PAGES_OF_WORDS = 100
_SEEDS_OF_MISTAKES = (3, 4, 0, 1)
"""Seeds of which each mistake fails one, unless it has one of its own."""
_UNANSWERED = "who was never answered is not invited again"
_READABLE = "what was deleted can be read"
_SEED_OF_MISTAKE = {_UNANSWERED: 2, _READABLE: 0}
_Marks = dict[GroupId, tuple[Holding, OperationId]]


class Person(Unlucky):
    """A device at which somebody sits."""

    def wants(self, work: Callable[[], object]) -> bool:
        """Let the person do something here, in one commit; say whether it is done."""
        done: list[bool] = []

        def committed() -> None:
            with self.store.transaction():
                work()
            done.append(True)

        try:
            self.does(committed)
        except LocalError:
            self.replace_node()
        return bool(done)


class OwnDevice(Person):
    """One of the person's devices: it does what the role would have it do, at each turn."""

    def own(self) -> OwnDevices:
        """Return the product's machine over the node as it is."""
        node = self.node
        return OwnDevices(node.identity, node.groups, node.history, node.actions, self.store)

    def state(self) -> PersonalState:
        """Return what the personal group's history comes to here."""
        personal = self.own().group()
        return PersonalState({}, {}) if personal is None else self.own().state(personal)

    def _maintain(self) -> None:
        super()._maintain()
        self._turn()

    def _turn(self) -> None:
        try:
            with self.store.transaction():
                list(self.own().turn(self.name, self.now))
        except LocalError:
            self.replace_node()


class PersonalWorld:
    """A laptop, a phone and a tablet of one person, one that is stolen, and a friend."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.own = [OwnDevice(name, folder, chance, presence_us=_BEAT_US) for name in ("laptop", "phone", "tablet")]
        self.stolen = OwnDevice("stolen", folder, chance, presence_us=_BEAT_US)
        self.friend = Person("friend", folder, chance, presence_us=_BEAT_US)
        self.devices: list[Device] = [*self.own, self.stolen, self.friend]
        self.network = SplitNetwork(self.devices, chance, loss=0.2)
        self.run = self.network.run
        self.left: set[GroupId] = set()
        """Groups that the person has left, erased or destroyed somewhere, or the stolen device before its removal."""
        self.ordered_by_thief: set[GroupId] = set()
        """Groups that it ordered to be erased while some had not heard of its removal: these were right to obey."""
        self.made: list[GroupId] = []
        self.secrets: dict[tuple[str, GroupId], set[bytes]] = {}
        """The secrets of epochs that each device was in."""
        self.words: dict[GroupId, set[bytes]] = {}
        self.known: GroupManifest | None = None
        """The personal group as it was when the stolen device was in it."""
        self._found()

    def _found(self) -> None:
        laptop = self.own[0]
        self.personal = self.create(laptop, Mode.PERSONAL)
        for each in (*self.own, self.stolen):
            with each.store.transaction():
                each.store.personal.pin(self.personal)
        for each in (*self.own[1:], self.stolen):
            self.admit(laptop, each, self.personal)
        self.run(lambda: all(len(self.members(each, self.personal)) == 4 for each in (*self.own, self.stolen)))

    # -- what people do -----------------------------------------------------------------------------------------------

    def create(self, device: Device, mode: Mode) -> GroupId:
        """Make a group."""
        with device.store.transaction():
            return device.node.membership.create(device.name, (), device.now.wall_us, mode).group_id

    def admit(self, inviter: Person, joiner: Person, group_id: GroupId) -> None:
        """Let a device ask to be let in."""
        made: list[Invite] = []

        def invite() -> None:
            made.append(inviter.node.joining.invite(group_id, (), "", inviter.now.wall_us))

        if inviter.wants(invite):
            joiner.wants(lambda: joiner.node.actions.request_join(made[-1], joiner.name, joiner.now))

    def make(self) -> None:
        """Make a group on one of the person's devices, and let the friend in, perhaps."""
        device = self.chance.choice(self.own)
        made: list[GroupId] = []

        def work() -> None:
            manifest = device.node.membership.create(device.name, (), device.now.wall_us, Mode.INVITES_ONLY)
            made.append(manifest.group_id)
            self.words[manifest.group_id] = set()

        if device.wants(work):
            self.made += made
            self.talk(device, made[-1])
            if self.chance.random() < 0.6:
                self.admit(device, self.friend, made[-1])

    def talk(self, device: OwnDevice, group_id: GroupId) -> None:
        """Say something that can be found again."""
        word = self.chance.randbytes(48).hex().encode()
        note = Note("text/plain", word * _PAGES_OF_WORDS)  # a page that SQLite frees whole keeps what was in it
        if device.wants(lambda: device.node.history.write(group_id, note, device.now)):
            self.words[group_id].add(word)

    def befriend(self) -> None:
        """Have the friend make a group, and let one of the person's devices in, or let one in again."""
        theirs = [each.group_id for each in self.friend.node.groups.joined()]
        group_id = self.chance.choice(theirs) if theirs and self.chance.random() < 0.6 else None
        if group_id is None:
            group_id = self.create(self.friend, Mode.INVITES_ONLY)
            self.made.append(group_id)
            self.words[group_id] = set()
        self.admit(self.friend, self.chance.choice(self.own), group_id)

    def leave(self, device: OwnDevice) -> None:
        """Leave a group on all of the person's devices, or destroy it for everybody."""
        joined = [each.group_id for each in device.node.groups.joined() if each.group_id != self.personal]
        if not joined:
            return
        group_id, how = self.chance.choice(joined), self.chance.random()
        if how < 0.6:
            done = device.wants(lambda: device.own().leave(group_id, device.now))
        elif how < 0.8:
            done = device.wants(lambda: device.own().leave(group_id, device.now, at_once=True))
        else:
            done = device.wants(lambda: device.node.actions.destroy(group_id, device.now))
        self.left.add(group_id)  # also where the power went behind the commit
        assert done or device.odds

    def prefer(self) -> None:
        """Set or unset a preference."""
        device = self.chance.choice(self.own)
        group_id = self.chance.choice((None, *self.made)) if self.made else None
        body = Preference(group_id, self.chance.choice("ab"), self.chance.choice((None, "x", "y")))
        device.write_operation(self.personal, body)

    def chat(self) -> None:
        """Say something in some group."""
        device = self.chance.choice(self.own)
        joined = [each.group_id for each in device.node.groups.joined() if each.group_id in self.words]
        if joined:
            self.talk(device, self.chance.choice(joined))

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """Restart something, or lose some of its state; who has lost all of it is linked again by its person."""
        device, fault = self.chance.choice(self.own), self.chance.random()
        if fault < 0.4:
            device.restart()
        elif fault < 0.6:
            device.back_up()
        elif fault < 0.8:
            device.restore()
        elif fault < 0.9:
            self.lose(device)

    def lose(self, device: OwnDevice) -> None:
        """Lose a device's state, and link it again."""
        device.lose_state()
        device.odds = 0
        with device.store.transaction():
            device.store.personal.pin(self.personal)
        others = [each for each in self.own if each is not device and each.own().group() is not None]
        assert others, "one of them has the personal group"
        self.admit(self.chance.choice(others), device, self.personal)

    def order_by_the_thief(self) -> None:
        """Have the stolen device leave or erase something for all, as it can until it is removed."""
        held = [each.group_id for each in self.stolen.node.groups.joined() if each.group_id != self.personal]
        if held and self.stolen.own().group() is not None:
            group_id = self.chance.choice(held)
            self.left.add(group_id)
            self.stolen.write_operation(
                self.personal, OwnGroup(group_id, self.chance.choice((Holding.LEFT, Holding.ERASED)))
            )

    def remove_the_thief(self) -> None:
        """Remove the stolen device from the personal group; what it says from now on orders nothing."""
        remover = self.chance.choice([each for each in self.own if each.own().group() is not None])
        self.known = remover.own().group()
        key = self.stolen.key
        while not remover.wants(
            lambda: remover.node.actions.change(
                self.personal, lambda draft, epoch: draft.removing(key, epoch), remover.now
            )
        ):
            if key not in self.members(remover, self.personal):
                break

    def order_late(self) -> None:
        """Bring somebody, by a stick, orders of the removed device that look older than its removal."""
        assert self.known is not None
        device = self.chance.choice(self.own)
        heads = device.store.operations.heads(self.personal)
        parents = tuple(self.chance.sample(heads, 1)) if heads and self.chance.random() < 0.5 else ()
        held = [device.store.operations.held(self.personal, each) for each in parents]
        height = 1 + max((each.height for each in held if each is not None), default=0)
        log = Log(self.stolen.key, Incarnation(self.chance.randbytes(8)))
        group_id = self.chance.choice(self.made) if self.made else self.personal
        body = OwnGroup(group_id, Holding.ERASED)
        place = (self.personal, log, 1, None, parents, height, self.known.hash, 0)
        late = sign_operation(Operation(*place, int(body.kind), body.to_wire()), self.stolen.identity)
        if any(self.stolen.key in self.members(each, self.personal) for each in self.own):
            self.ordered_by_thief.add(group_id)

        def work() -> None:
            with device.store.transaction():
                device.node.history_import.take_operations(self.personal, (late.raw,), device.now)

        device.does(work)

    # -- what there is ------------------------------------------------------------------------------------------------

    def members(self, device: Device, group_id: GroupId) -> set[bytes]:
        """Return whom a device believes to be in a group."""
        found = (each for each in device.node.groups.joined() if each.group_id == group_id)
        return {member.keys.signing_public for group in found for member in group.members}

    def look(self) -> None:
        """Note the secrets that there are."""
        for device in self.own:
            for group in device.node.groups.joined():
                secret = device.node.groups.secret(group.group_id)
                if secret is not None:
                    self.secrets.setdefault((device.name, group.group_id), set()).add(secret)

    def steps(self, count: int) -> None:
        """Let time go on."""
        for _ in range(count):
            self.network.step()
            self.look()


def run(folder: Path, seed: int) -> None:
    """Let a world go on for some rounds, and check what must hold at its end."""
    world = PersonalWorld(folder, seed)
    chance = world.chance
    removal_at = chance.randrange(2, _ROUNDS)
    for number in range(_ROUNDS):
        world.network.apart = set(chance.sample(world.devices, chance.choice((0, 1, 2))))
        for device in world.own:
            device.odds = chance.choice((0, 0.002, 0.02))
        chance.choice((world.make, world.befriend))()
        chance.choice((world.make, world.befriend, world.prefer, world.chat))()
        if chance.random() < 0.5:
            world.leave(chance.choice(world.own))
        if number == removal_at:
            world.order_by_the_thief()
            world.remove_the_thief()
        world.steps(chance.randint(0, 20))
        if number >= removal_at:
            world.order_late()
        world.fail()
    _become_quiet(world)
    _check(world)


def _become_quiet(world: PersonalWorld) -> None:
    world.network.apart = set()
    for device in world.own:
        device.odds = 0
    _repeat_what_was_lost(world)
    world.run(lambda: _knows_of_removal(world))
    world.order_late()
    for _ in range(_CYCLES):
        if _is_settled(world):
            break
        world.steps(_CYCLE_STEPS)
        for each in world.devices:
            each.wait(_CYCLE_S)
    assert _is_settled(world), "they never come to rest"
    world.look()


def _repeat_what_was_lost(world: PersonalWorld) -> None:
    """Have the person do again what was lost with the state of the device at which it was done."""
    inside = [each for each in world.own if each.own().group() is not None]
    for each in world.own:
        if each not in inside:  # whoever was to let it in has lost the invite
            world.admit(inside[0], each, world.personal)
    if all(world.stolen.key in world.members(each, world.personal) for each in inside):
        world.remove_the_thief()


def _knows_of_removal(world: PersonalWorld) -> bool:
    own = {each.key for each in world.own}
    return all(world.members(each, world.personal) == own for each in world.own)


def _is_settled(world: PersonalWorld) -> bool:
    """Say whether all believe the same, and have done all that follows of it."""
    if not _knows_of_removal(world) or len({each.node.history.digest(world.personal) for each in world.own}) > 1:
        return False
    marks = [each.state().groups for each in world.own]
    if not marks[0].keys() >= set(world.made) & _held(world):
        return False
    return all(each == marks[0] for each in marks) and all(
        _has_done(world, device, group_id, known.holding)
        for device in world.own
        for group_id, known in marks[0].items()
    )


def _has_done(world: PersonalWorld, device: OwnDevice, group_id: GroupId, holding: Holding) -> bool:
    """Say whether a device is in a group that is held, and else has no secret of it and nothing that was said in it."""
    if holding is Holding.HELD:
        inside = bool(world.members(device, group_id))
        if not inside and _obeyed_the_thief(world, device, group_id):
            return not any(world.members(each, group_id) for each in world.own)
        return inside or group_id in world.left or _is_lost(world, group_id)  # a leaving that crossed it was obeyed
    if holding is Holding.LEFT and not any(world.members(each, group_id) for each in (world.friend, world.stolen)):
        return not world.members(device, group_id)  # whoever it lists beside own devices never got in: nobody tells
    [[secrets]] = device.store.database.run("SELECT count(*) FROM epoch_secret WHERE group_id = ?", (group_id,))
    if _has_more_to_say(device, group_id):  # that goes when who was to hear it knows that this device has left
        return False
    return not world.members(device, group_id) and not secrets and not device.store.operations.heads(group_id)


def _obeyed_the_thief(world: PersonalWorld, device: OwnDevice, group_id: GroupId) -> bool:
    """Say whether the last word about a group that a device has heeded is the thief's, which does not count."""
    obeyed = device.store.personal.obeyed(group_id)
    return any(each.id == obeyed and each.author == world.stolen.key for each in device.operations(world.personal))


def _has_more_to_say(device: OwnDevice, group_id: GroupId) -> bool:
    waiting = (read_message(raw, verify=False) for (raw,) in device.store.database.run("SELECT message FROM outbox"))
    return any(each.type is MessageType.OPERATIONS and each.group_id == group_id for each in waiting)


def _is_lost(world: PersonalWorld, group_id: GroupId) -> bool:
    """Say whether nobody of the person can bring a group back.

    Only a life of an own device that is lost has known it, or it was left before it was known who ordered that.
    """
    nobody = not any(world.members(each, group_id) for each in world.own)
    return nobody and (group_id in world.ordered_by_thief or any(each.was_restored for each in world.own))


def _counting(world: PersonalWorld, device: OwnDevice) -> frozenset[OperationId]:
    void = device.node.history.standing(world.personal).void
    return frozenset(each.id for each in device.operations(world.personal)) - void


def _by_the_rules(world: PersonalWorld, device: OwnDevice) -> tuple[_Marks, dict[tuple[GroupId | None, str], str]]:
    """Return what the history comes to, found in another way."""
    own = {each.key for each in world.own}
    counting = _counting(world, device)
    marks: _Marks = {}
    preferences: dict[tuple[GroupId | None, str], str | None] = {}
    for each in sorted(device.operations(world.personal), key=lambda each: (each.height, each.id)):
        body = read_body(each)
        if each.id not in counting:
            continue
        if isinstance(body, OwnGroup) and (body.holding is Holding.HELD or each.author in own):
            marks[body.group_id] = body.holding, each.id
        elif isinstance(body, Preference):
            preferences[body.group_id, body.key] = body.value
    return marks, {place: value for place, value in preferences.items() if value is not None}


def _check(world: PersonalWorld) -> None:
    for device in world.own:
        device.restart()
        marks, preferences = _by_the_rules(world, device)
        state = device.state()
        assert {group_id: (each.holding, each.operation) for group_id, each in state.groups.items()} == marks
        assert state.preferences == preferences
        assert state.groups == world.own[0].state().groups, "they believe different things"
        for group_id, known in state.groups.items():
            if group_id not in world.left:
                assert known.holding is Holding.HELD, "a group was left that nobody of the person had left"
        _check_erased(world, device)
    assert world.own[0].state().groups.keys() >= set(world.made) & _held(world), "a group is held and not told of"


def _held(world: PersonalWorld) -> set[GroupId]:
    return {each.group_id for device in world.own for each in device.node.groups.joined()} - {world.personal}


def _check_erased(world: PersonalWorld, device: OwnDevice) -> None:
    """Check that a device's file holds nothing of what is not held any more."""
    gone = {group_id for group_id, known in device.state().groups.items() if known.holding is Holding.ERASED}
    device.stop()
    content = device.path.read_bytes()
    device.restart()
    for group_id in gone:
        assert not any(secret in content for secret in world.secrets.get((device.name, group_id), ())), (
            "a secret is kept"
        )
        assert not any(each in content for each in world.words.get(group_id, ())), "what was said is kept"


@pytest.mark.parametrize("seed", parameters([0, 19, 26, 31, 241, *range(1, 8)], quick=0, plain=2))
def test_a_persons_devices_end_with_the_same(tmp_path: Path, seed: int) -> None:  # accepts: 003.51, 003.54, 003.61
    run(tmp_path, seed)


def _by_anybody(devices: OwnDevices, personal: GroupManifest) -> PersonalState:
    operations = devices._records.operations
    authors = {log.author for log, _ in operations.logs(personal.group_id)}
    return personal_state(operations, personal.group_id, (), authors)


_MISTAKES: dict[str, tuple[object, str, object]] = {
    "who was removed orders on": (OwnDevices, "state", _by_anybody),
    "what was erased is kept": (GroupTables, "erase_content", lambda *_: None),
    _READABLE: (Database, "overwriting", lambda _: nullcontext()),
    _UNANSWERED: (OwnDevices, "_lacking", lambda *_: set()),
    "nobody accepts": (OwnDevices, "_accept", lambda *_: ()),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_with_own_devices_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    seeds = (_SEED_OF_MISTAKE[mistake],) if mistake in _SEED_OF_MISTAKE else _SEEDS_OF_MISTAKES
    a_world_notices(mistake, run, tmp_path, seeds)
