"""Ephemeral messages over a relay that keeps everything: it brings things again, late, and to who begins anew.

Whatever it does: a member hears each at most once in a life, none of another time, none of who is no member, no more of
one author than it may say, and nothing is stored.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from covey.core.ephemeral import messages as messages_module
from covey.core.ephemeral.messages import EphemeralMessages
from covey.core.ephemeral.state import Author, Ephemeral
from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.now import Now
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.errors import TransientError
from covey.limits.ephemeral import EPHEMERAL_PER_SECOND, EPHEMERAL_SAVED, EPHEMERAL_US
from tests.examples import parameters
from tests.fleet import Device, carry, found
from tests.proof import a_world_notices

_STEPS = 60
_LIFETIME_S = EPHEMERAL_US // 1_000_000
_SEEDS_OF_MISTAKES = (1, 2, 3)


class _World:
    """Three members, of whom the last one keeps no rule and is removed half-way; and a relay that keeps all."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.devices = [Device(name, folder) for name in ("ann", "ben", "mal")]
        self.ann, self.ben, self.mal = self.devices
        self.group_id = found(*self.devices)
        found(self.ann, self.mal)  # which they go on to share
        for device in self.devices:
            device.compares_on_contact_only()
        carry(*self.devices)
        self.kept: list[tuple[Device, bytes]] = []
        self.removed = False
        self.said = 0
        self.runs: Counter[DeviceKey] = Counter()
        self.times: dict[tuple[DeviceKey, DeviceKey], list[int]] = defaultdict(list)
        self.received: dict[tuple[DeviceKey, int], list[tuple[DeviceKey, bytes]]] = defaultdict(list)

    def step(self) -> None:
        """Let time pass, members speak, and the relay bring what it likes."""
        seconds = self.chance.choice((0, 0.1, 1, 30))
        for device in self.devices:
            device.wait(seconds)
        author = self.chance.choice(self.devices)
        if author is self.mal:
            self._forge()
        else:
            with suppress(TransientError):
                self.said += 1
                author.node.ephemeral.say(self.group_id, b"%d" % self.said, author.now)
        self._collect()
        for device, envelope in self.chance.sample(self.kept, min(len(self.kept), 12)):
            self._bring(device, envelope)

    def _forge(self) -> None:
        """Have the third member say much at once, at any time that it likes."""
        apart_us = self.chance.choice((2 * EPHEMERAL_US, 1_000))
        times = sorted(self.chance.randint(-apart_us, apart_us) for _ in range(self.chance.choice((1, 30))))
        for at_us in (self.ben.now.wall_us + each for each in times):
            self.said += 1
            body = Ephemeral(at_us, b"%d" % self.said).to_wire()
            raw = write_message(
                self.mal.identity,
                *(MessageType.EPHEMERAL, self.ben.key, self.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0)),
                *(self.ben.now.wall_us, body),
            )
            noise_public = self.ben.identity.noise_public
            self._bring(self.ben, seal(raw, noise_public, self.mal.rng(32), self.mal.rng(24)))

    def _collect(self) -> None:
        for author in self.devices:
            for outgoing in author.sends():
                [to] = [each for each in self.devices if each.key == outgoing.recipient]
                if outgoing.lifetime_s == _LIFETIME_S:
                    assert not (self.removed and to is self.mal), "said to a former member"
                    self.kept.append((to, outgoing.envelope))
                else:
                    to.receive(outgoing.envelope)

    def _bring(self, device: Device, envelope: bytes) -> None:
        device.receive(envelope)
        for each in device.node.ephemeral.take_received():
            received = self.received[device.key, self.runs[device.key]]
            assert (each.author, each.content) not in received, "heard twice"
            assert abs(each.said_at_us - device.now.wall_us) <= EPHEMERAL_US, "of another time"
            assert not (self.removed and each.author == self.mal.key), "of who is no member"
            received.append((each.author, each.content))
            times = self.times[device.key, each.author]
            times.append(each.said_at_us)
            if len(times) > EPHEMERAL_SAVED:
                assert times[-1] - times[-1 - EPHEMERAL_SAVED] >= 1_000_000 // EPHEMERAL_PER_SECOND, "too often"

    def remove(self) -> None:
        """Remove the third member where the first two know of it."""
        with self.ann.store.transaction():
            self.ann.node.actions.change(
                self.group_id, lambda draft, epoch: draft.removing(self.mal.key, epoch), self.ann.now
            )
        self.removed = True
        self._collect()
        carry(self.ann, self.ben)

    def restart(self) -> None:
        """Let ben begin anew."""
        self.runs[self.ben.key] += 1
        self.ben.restart()
        self.times.clear()
        self.ben.compares_on_contact_only()


def _run(folder: Path, seed: int) -> int:
    world = _World(folder, seed)
    for number in range(_STEPS):
        if number == _STEPS // 2:
            world.ann.node.ephemeral.say(world.group_id, b"under way at the removal", world.ann.now)
            world.remove()
        if number == _STEPS // 4:
            world.restart()
        world.step()
    assert all(device.inbox() == [] for device in world.devices)
    return sum(author == world.ann.key for author, _ in world.received[world.ben.key, 1])


@pytest.mark.parametrize("seed", parameters(range(5), plain=2))
def test_each_ephemeral_message_is_received_once_and_in_time(tmp_path: Path, seed: int) -> None:  # accepts: 003.67
    assert _run(tmp_path, seed) > 0


def _forgetful(_messages: EphemeralMessages, _device: DeviceKey, _now: Now) -> Author:
    return Author()


_MISTAKES: dict[str, tuple[object, str, object]] = {
    "what came before is taken again": (EphemeralMessages, "_author", _forgetful),
    "what is old is taken": (messages_module, "EPHEMERAL_US", 2**62),
    "an author may say as much as it likes": (Author, "wait_us", lambda *_: 0),
    "who was removed is told what was under way": (EphemeralMessages, "_is_member", lambda *_: True),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_with_ephemeral_messages_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.setattr(*_MISTAKES[mistake])
    a_world_notices(mistake, _run, tmp_path, _SEEDS_OF_MISTAKES)
