"""Groups of whole nodes over a bad network: split, merged, restarted. All honest members end with the same manifest."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.group.manifest import GroupManifest, Mode, sign_manifest
from covey.core.group.messages import Bundle, GroupSend
from covey.core.history.heads import HeadsExchange
from covey.core.membership import maintenance
from covey.core.membership.events import RemovedFromGroup
from covey.core.membership.public_joins import PublicJoins
from covey.core.pairing.uri import GroupUri
from covey.core.wire.heads import HeadsReport
from covey.core.wire.message import NO_GROUP, MessageType
from covey.errors import LocalError, RemoteError
from covey.limits.group import MAXIMUM_OPEN_MANIFESTS, RIVALS_OF_ONE
from tests.examples import parameters
from tests.fleet import Device
from tests.proof import a_world_notices
from tests.split_network import SplitNetwork

_TALK_STEPS = 20
"""Between two messages of traffic that goes on."""


class World:
    """A group on a bad network."""

    def __init__(self, folder: Path, seed: int, count: int, *, public: bool = False) -> None:
        self._folder, self._chance = folder, random.Random(seed)
        first, *others = self.devices = [self.device(f"node {number}") for number in range(count)]
        self.network = SplitNetwork(self.devices, self._chance, loss=0.2)
        self.run = self.network.run
        with first.store.transaction():
            mode = Mode.PUBLIC if public else Mode.INVITES_ONLY
            self.group_id = first.node.membership.create("node 0", (), first.now.wall_us, mode).group_id
        for device in others:
            (self.visit if public else self.pair)(first, device)
        self.run(lambda: self.agreed(self.devices))

    def device(self, name: str) -> Device:
        """Return a device whose chance the seed decides."""
        return Device(name, self._folder, chance=self._chance)

    def group(self, device: Device) -> GroupManifest | None:
        """Return what a device believes the group to be."""
        return next((each for each in device.node.groups.joined() if each.group_id == self.group_id), None)

    def pair(self, inviter: Device, joiner: Device) -> None:
        """Let a device ask to be let in."""
        with inviter.store.transaction():
            invite = inviter.node.joining.invite(self.group_id, (), "", inviter.now.wall_us)
        with joiner.store.transaction():
            joiner.node.actions.request_join(invite, "", joiner.now)

    def visit(self, contact: Device, visitor: Device) -> None:
        """Let a device ask a member for the manifest of a public group, to let itself in."""
        uri = GroupUri(self.group_id, (contact.identity.keys,), "")
        with visitor.store.transaction():
            visitor.node.actions.request_visit(uri, visitor.name, visitor.now)

    def change(self, device: Device, verb: str, target: Device) -> bool:
        """Let a device issue a change, if it may think itself a member."""
        key, now = target.key, device.now
        try:
            with device.store.transaction():
                if verb == "remove":
                    device.node.actions.change(self.group_id, lambda draft, epoch: draft.removing(key, epoch), now)
                else:
                    device.node.actions.leave(self.group_id, now)
        except (LocalError, RemoteError):
            return False
        return True

    def rotate(self, device: Device) -> None:
        """Let a device draw a new noise key; what a crash would leave undone it tells its group by itself."""
        old = device.identity.noise.keys
        retired = [replace(key, retired_at_us=device.now.wall_us) for key in old]
        device.identity.noise.take((NoiseKey.of(device.rng(32)), *retired))

    def agreed(self, members: list[Device]) -> bool:
        """Say whether these, and nobody else, hold the same signed manifest, the secret, and an empty outbox."""
        keys = sorted(device.key for device in members)
        raws = set()
        for device in members:
            group = self.group(device)
            if group is None or [member.keys.signing_public for member in group.members] != keys:
                return False
            if device.node.groups.secret(self.group_id) is None:
                return False
            raws.add(group.raw)
        return len(raws) == 1 and b"" not in raws


@pytest.mark.parametrize("seed", parameters(range(3)))
def test_both_sides_are_meant(tmp_path: Path, seed: int) -> None:  # accepts: 000.17, 000.18, 000.20, 000.21, 001.18
    """A removes B while C lets D in: B is out, and knows it; D is in."""
    world = World(tmp_path, seed, 4)
    a, b, c, _ = world.devices
    d = world.device("newcomer")
    d.now = a.now
    world.devices.append(d)
    before = a.node.groups.secret(world.group_id)
    world.network.apart = {a, b}
    assert world.change(a, "remove", b)
    world.pair(c, d)
    world.run(lambda: world.group(d) is not None)
    world.network.apart = set()
    legitimate = [device for device in world.devices if device is not b]
    world.run(lambda: world.agreed(legitimate) and any(isinstance(event, RemovedFromGroup) for event in b.events()))
    secrets = {device.node.groups.secret(world.group_id) for device in legitimate}
    assert len(secrets) == 1
    assert before not in secrets
    final = world.group(a)
    assert final is not None
    assert b.store.groups.secret(world.group_id, final.epoch_id) is None


@pytest.mark.parametrize("seed", parameters(range(4), plain=2))
def test_a_group_that_was_split_converges(tmp_path: Path, seed: int) -> None:  # accepts: 000.16, 001.09, 001.10
    """Six devices in two camps change things and keys at random, restart, lose a third of all, and meet again."""
    world = World(tmp_path, seed, 6)
    chance = random.Random(seed)
    world.network.apart = {device for device in world.devices if chance.randint(0, 1)}
    removed: set[int] = set()
    for _ in range(4):
        actor, target = chance.sample(range(6), 2)
        if actor in removed or target in removed or len(removed) == 3:
            continue
        world.rotate(world.devices[chance.randrange(6)])
        verb = chance.choice(["remove", "leave"])
        if world.change(world.devices[actor], verb, world.devices[target]):
            removed.add(target if verb == "remove" else actor)
        for _ in range(chance.randint(0, 6)):
            world.network.step()
        chance.choice(world.devices).restart()
    world.network.apart = set()
    for device in world.devices:
        device.restart()

    def settled() -> bool:
        views = [group for device in world.devices if (group := world.group(device)) is not None]
        inside = [device for device in world.devices if views[0].member(device.key)]
        listed = {member.keys for view in views for member in view.members}
        return world.agreed(inside) and listed == {device.identity.keys for device in inside}

    world.run(settled)


@pytest.mark.parametrize("seed", parameters(range(4), plain=2))
def test_devices_that_are_restored_with_keys_of_before_rotations_are_members_again(tmp_path: Path, seed: int) -> None:
    """Everybody may have rotated, and wiped the keys of before, since the backups were made."""
    world, chance = World(tmp_path, seed, 4), random.Random(seed)

    def settled() -> bool:
        group = world.group(world.devices[0])
        listed = {member.keys for member in group.members} if group is not None else set()
        return world.agreed(world.devices) and listed == {device.identity.keys for device in world.devices}

    restored = chance.sample(world.devices, chance.randint(1, 2))
    backups = {device: (device.copy_state(), device.identity.noise.keys) for device in restored}
    for device in {*restored, *chance.sample(world.devices, chance.randint(0, 4))}:
        world.rotate(device)
    world.run(settled)
    for device in world.devices:
        device.nodes.identity = replace(device.identity, noise=NoiseKeys((device.identity.noise.current,)))
        device.restart()
    for device, (copy, keys) in backups.items():
        device.nodes.identity = replace(device.identity, noise=NoiseKeys(keys))
        device.return_to(copy)
    world.run(settled, steps=16_000)  # of half a second


def _come_and_go(folder: Path, seed: int) -> None:
    """Let devices of a public group leave it, rotate keys, and let themselves in again, while they are in two camps."""
    world, chance = World(folder, seed, 5, public=True), random.Random(seed)
    world.network.apart = set(chance.sample(world.devices, 2))
    left: list[Device] = []
    for _ in range(4):
        world.rotate(chance.choice(world.devices))
        leaver = chance.choice(world.devices)
        if leaver not in left and len(left) < 2 and world.change(leaver, "leave", leaver):
            left.append(leaver)
        for _ in range(chance.randint(0, 6)):
            world.network.step()
        chance.choice(world.devices).restart()
    world.network.apart = set()
    inside = [device for device in world.devices if device not in left]
    world.run(lambda: world.agreed(inside))
    for device in left:
        world.visit(chance.choice(inside), device)
    world.run(lambda: world.agreed(world.devices))
    listed = {member.keys for member in world.devices[0].node.groups.group(world.group_id).members}
    assert listed == {device.identity.keys for device in world.devices}


@pytest.mark.parametrize("seed", parameters(range(4), plain=2))
def test_a_public_group_is_left_and_joined_while_keys_rotate(tmp_path: Path, seed: int) -> None:
    # accepts: 003.05, 003.07, 003.09, 003.51
    _come_and_go(tmp_path, seed)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("owner", "attribute", "mistake"),
    [
        (PublicJoins, "answers", lambda *_: False),
        (PublicJoins, "lets_wait", lambda *_: True),
        (maintenance, "outdated", lambda *_: []),
    ],
)
def test_a_mistake_in_joining_or_rotating_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, attribute: str, mistake: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, attribute, mistake)
    a_world_notices(attribute, _come_and_go, tmp_path, [0])


def _flood(world: World, held: GroupManifest, issuer: Device, victim: Device, mark: int) -> None:
    """Send a victim more rivals of one manifest than anybody takes, some of them in chains."""
    own = held.member(issuer.key)
    assert own is not None
    raws: list[bytes] = []
    for number in range(3 * RIVALS_OF_ONE):
        rival = sign_manifest(held.changing(replace(own, label=f"{mark} {number}")), issuer.identity)
        after = sign_manifest(rival.changing(replace(own, label=f"{mark} {number} again")), issuer.identity)
        raws += [rival.raw, after.raw] if number % 3 else [rival.raw]
    body = Bundle(tuple(raws)).to_wire()
    send = GroupSend(victim.key, MessageType.GROUP_MANIFEST, world.group_id, body)
    with issuer.store.transaction():
        issuer.node.actions.queue_sends([send], issuer.now)


@pytest.mark.parametrize("seed", parameters(range(3), quick=0, plain=1))
def test_a_hostile_member_and_one_that_was_removed_stop_nobody(tmp_path: Path, seed: int) -> None:  # accepts: 000.26
    """Both send everybody rivals of their own, again and again, while honest members go on changing the group."""
    world, chance = World(tmp_path, seed, 5), random.Random(seed)
    hostile, removed, *legitimate = world.devices
    held = world.group(legitimate[0])
    assert held is not None
    assert world.change(legitimate[0], "remove", removed)
    for mark in range(4):
        for victim in legitimate:
            _flood(world, held, chance.choice([hostile, removed]), victim, mark)
        for _ in range(chance.randint(1, 12)):
            world.network.step()
        world.rotate(chance.choice(legitimate))
        chance.choice(legitimate).restart()
    assert world.change(legitimate[1], "remove", hostile)
    for device in legitimate:
        device.restart()

    def settled() -> bool:
        views = [world.group(device) for device in legitimate]
        listed = {member.keys for view in views if view is not None for member in view.members}
        return world.agreed(legitimate) and listed == {device.identity.keys for device in legitimate}

    world.run(settled)
    assert all(len(device.node.groups.trust(world.group_id)) <= MAXIMUM_OPEN_MANIFESTS for device in legitimate)


def test_a_member_that_was_away_for_many_versions_catches_up(tmp_path: Path) -> None:  # accepts: 001.09, 001.12
    world = World(tmp_path, 1, 3)
    first, second, away = world.devices
    world.network.apart = {away}
    for version in range(30):

        def relabel(draft: GroupManifest, _: bytes, version: int = version) -> GroupManifest:
            return draft.changing(replace(draft.members[0], label=f"label {version}"))

        issuer = (first, second)[version % 2]
        with issuer.store.transaction():
            issuer.node.actions.change(world.group_id, relabel, issuer.now)
        world.run(lambda: _same(world, first, second))
    world.run(lambda: all(set(each.store.outbox.recipients()) == {away.key} for each in (first, second)))
    # What the outboxes hold for it is lost, except for the last manifest: the rest is asked for.
    second.store.connection.execute("DELETE FROM outbox WHERE place < (SELECT max(place) FROM outbox)")
    first.store.connection.execute("DELETE FROM outbox WHERE place < (SELECT max(place) FROM outbox)")
    first.restart()
    second.restart()
    world.network.apart = set()
    world.run(lambda: world.agreed(world.devices))


def _lose_issuer(folder: Path, seed: int) -> None:
    """Remove a stolen device while one sleeps, lose the remover, and let the sleeper and one who knows have traffic."""
    world, chance = World(folder, seed, 5), random.Random(seed)
    issuer, stolen, sleeper, *others = world.devices
    world.network.apart = {sleeper, stolen}
    assert world.change(issuer, "remove", stolen)
    world.run(lambda: all(stolen.key not in _listed(world, each) for each in others))
    world.devices.remove(issuer)
    world.network.apart = set()
    speaker, hearer = chance.sample([sleeper, chance.choice(others)], 2)
    stolen.blob(world.group_id, b"I am still here")
    steps = itertools.count()

    def knows() -> bool:
        if next(steps) % _TALK_STEPS == 0:
            with speaker.store.transaction():
                speaker.node.send_blob(world.group_id, b"traffic", speaker.now, to=hearer.key)
        return stolen.key not in _listed(world, sleeper)

    world.run(knows, steps=1_200)  # ten minutes


def _listed(world: World, device: Device) -> set[bytes]:
    group = world.group(device)
    return {member.keys.signing_public for member in group.members} if group is not None else set()


@pytest.mark.parametrize("seed", range(3))
def test_a_removal_outlives_its_issuer(tmp_path: Path, seed: int) -> None:  # accepts: 000.20
    _lose_issuer(tmp_path, seed)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("attribute", "mistake"),
    [
        ("receive", lambda *_: []),
        ("_ask", lambda *_: []),
        ("report", lambda *_, **__: HeadsReport(False, ())),
        ("said_to", lambda *_: NO_GROUP),
    ],
)
def test_a_mistake_in_comparing_heads_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, mistake: Callable[..., object]
) -> None:
    monkeypatch.setattr(HeadsExchange, attribute, mistake)
    monkeypatch.setattr(HeadsExchange, "_plan_round", lambda *_: None)
    monkeypatch.setattr(HeadsExchange, "_give", lambda *_: [])  # who is ahead gives in the end, asked or not
    a_world_notices(attribute, _lose_issuer, tmp_path, [0])


def _same(world: World, one: Device, other: Device) -> bool:
    ours, theirs = world.group(one), world.group(other)
    return ours is not None and ours == theirs
