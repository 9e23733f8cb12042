"""Groups of whole nodes over a bad network: split, merged, restarted. All honest members end with the same manifest."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity, NoiseKey
from covey.core.group.manifest import GroupManifest
from covey.core.link.sealer import Outgoing
from covey.core.membership.events import RemovedFromGroup
from covey.core.node import Node
from covey.core.now import Now
from covey.core.wire.topics import inbox_topic
from covey.errors import LocalError, RemoteError
from tests.vectors.makers.cast import identity

_START_US = 1_790_000_000_000_000
_STEP_US = 500_000


@dataclass
class Device:
    """One node on its own store."""

    identity: Identity
    store: SqliteStore
    chance: random.Random
    side: int = 0
    told: bool = False
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything that is not stored."""
        self.node = Node(self.identity, self.store, self.chance.randbytes, self.chance.randint)

    @property
    def inbox(self) -> str:
        return inbox_topic(self.identity.signing_public)

    def view(self, group_id: bytes) -> str:
        """Return what it believes, for people."""
        group = self.group(group_id)
        if group is None:
            return "none"
        return f"{group.version} {group.hash.hex()[:8]} {[member.name for member in group.members]}"

    def group(self, group_id: bytes) -> GroupManifest | None:
        return next((each for each in self.node.membership.groups() if each.group_id == group_id), None)


class World:
    """Devices, time, and a relay that loses, repeats and reorders; sides do not hear each other."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        self.chance = random.Random(seed)
        self.monotonic_us = 0
        self.envelopes = 0
        self.loss = 0.2
        self.devices = [
            Device(identity(f"node {number}"), SqliteStore(folder / f"{number}", bytes([number] * 8)), self.chance)
            for number in range(count)
        ]
        for device in self.devices:
            device.node.connected(self.now)
        first = self.devices[0]
        with first.store.transaction():
            self.group_id = first.node.membership.create("node 0", (), self.now.wall_us).group_id
        for device in self.devices[1:]:
            self.pair(first, device)
        self.run(lambda: self.agreed(self.devices))

    @property
    def now(self) -> Now:
        return Now(self.monotonic_us, _START_US + self.monotonic_us)

    def pair(self, inviter: Device, joiner: Device) -> None:
        with inviter.store.transaction():
            invite = inviter.node.membership.invite(self.group_id, (), "", self.now.wall_us)
        with joiner.store.transaction():
            joiner.node.actions.request_join(invite, "", self.now)

    def change(self, device: Device, verb: str, target: Device) -> bool:
        """Let a device issue a change, if it may think itself a member."""
        key = target.identity.signing_public
        try:
            with device.store.transaction():
                if verb == "remove":
                    device.node.actions.change(self.group_id, lambda draft, epoch: draft.removing(key, epoch), self.now)
                else:
                    device.node.actions.leave(self.group_id, self.now)
        except (LocalError, RemoteError):
            return False
        return True

    def rotate(self, device: Device) -> None:
        """Let a device draw a new noise key; what a crash would leave undone it tells its group by itself."""
        old = device.identity.noise.keys
        retired = [replace(key, retired_at_us=self.now.wall_us) for key in old]
        device.identity.noise.take((NoiseKey.of(self.chance.randbytes(32)), *retired))

    def step(self) -> None:
        """Let time go on, and everybody speak."""
        self.monotonic_us += _STEP_US
        sent: list[tuple[Device, Outgoing]] = []
        for device in self.devices:
            if device.node.has_work(self.now):
                with device.store.transaction():
                    device.node.maintain(self.now)
            device.node.handle_deadline(self.now)
            for outgoing in device.node.envelopes_to_send(self.now):
                device.node.sent(outgoing, self.now)
                sent.append((device, outgoing))
        self.chance.shuffle(sent)
        self.envelopes += len(sent)
        for sender, outgoing in sent:
            for receiver in self.devices:
                if receiver.inbox == outgoing.topic and receiver.side == sender.side:
                    for _ in range(self.chance.choices((0, 1, 2), (self.loss, 1, self.loss))[0]):
                        with receiver.store.transaction():
                            receiver.node.receive_envelope(outgoing.envelope, self.now)
        for device in self.devices:
            while (event := device.node.next_event()) is not None:
                device.told |= isinstance(event, RemovedFromGroup)

    def run(self, until: object, steps: int = 4_000) -> None:
        """Go on until a condition holds.

        Raises:
            AssertionError: it never did.
        """
        assert callable(until)
        for _ in range(steps):
            if until():
                return
            self.step()
        raise AssertionError([(device.view(self.group_id), device.store.counters.values()) for device in self.devices])

    def agreed(self, members: list[Device]) -> bool:
        """Say whether these, and nobody else, hold the same signed manifest, the secret, and an empty outbox."""
        keys = sorted(device.identity.signing_public for device in members)
        raws = set()
        for device in members:
            group = device.group(self.group_id)
            if group is None or [member.keys.signing_public for member in group.members] != keys:
                return False
            if device.node.membership.secret(self.group_id) is None:
                return False
            raws.add(group.raw)
        return len(raws) == 1 and b"" not in raws


@pytest.mark.parametrize("seed", range(3))
def test_both_sides_are_meant(tmp_path: Path, seed: int) -> None:  # accepts: 000.17, 000.18, 000.20, 000.21, 001.18
    """A removes B while C lets D in: B is out, and knows it; D is in."""
    world = World(tmp_path, seed, 4)
    a, b, c, _ = world.devices
    d = Device(identity("newcomer"), SqliteStore(tmp_path / "newcomer", b"newcomer"), world.chance)
    d.node.connected(world.now)
    world.devices.append(d)
    before = a.node.membership.secret(world.group_id)
    a.side = b.side = 1
    assert world.change(a, "remove", b)
    world.pair(c, d)
    world.run(lambda: d.group(world.group_id) is not None)
    for device in world.devices:
        device.side = 0
    honest = [device for device in world.devices if device is not b]
    world.run(lambda: world.agreed(honest) and b.told)
    secrets = {device.node.membership.secret(world.group_id) for device in honest}
    assert len(secrets) == 1
    assert before not in secrets
    final = a.group(world.group_id)
    assert final is not None
    assert b.store.groups.secret(world.group_id, final.epoch_id) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_group_that_was_split_converges(tmp_path: Path, seed: int) -> None:  # accepts: 000.16, 001.09, 001.10
    """Six devices in two camps change things and keys at random, restart, lose a third of all, and meet again."""
    world = World(tmp_path, seed, 6)
    chance = random.Random(seed)
    for device in world.devices:
        device.side = chance.randint(0, 1)
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
            world.step()
        chance.choice(world.devices).restart()
    for device in world.devices:
        device.side = 0
        device.restart()
        device.node.connected(world.now)

    def settled() -> bool:
        views = [group for device in world.devices if (group := device.group(world.group_id)) is not None]
        inside = [device for device in world.devices if views[0].member(device.identity.signing_public)]
        listed = {member.keys for view in views for member in view.members}
        return world.agreed(inside) and listed == {device.identity.keys for device in inside}

    world.run(settled)


def test_a_member_that_was_away_for_many_versions_catches_up(tmp_path: Path) -> None:  # accepts: 001.09, 001.12
    world = World(tmp_path, 1, 3)
    first, second, away = world.devices
    away.side = 1
    for version in range(30):

        def relabel(draft: GroupManifest, _: bytes, version: int = version) -> GroupManifest:
            return draft.changing(replace(draft.members[0], label=f"label {version}"))

        issuer = (first, second)[version % 2]
        with issuer.store.transaction():
            issuer.node.actions.change(world.group_id, relabel, world.now)
        world.run(lambda: _same(world, first, second))
    # What the outboxes hold for it is lost, except for the last manifest: the rest is asked for.
    second.store.connection.execute("DELETE FROM outbox WHERE place < (SELECT max(place) FROM outbox)")
    first.store.connection.execute("DELETE FROM outbox WHERE place < (SELECT max(place) FROM outbox)")
    first.restart()
    second.restart()
    first.node.connected(world.now)
    second.node.connected(world.now)
    away.side = 0
    world.run(lambda: world.agreed(world.devices))


def _same(world: World, one: Device, other: Device) -> bool:
    ours, theirs = one.group(world.group_id), other.group(world.group_id)
    return ours is not None and ours == theirs
