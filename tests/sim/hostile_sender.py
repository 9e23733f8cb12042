"""Whatever somebody wants to say in the name of a device whose keys he has, at any number, to any inbox."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, write_message
from covey.core.wire.topics import inbox_topic

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

EXTREMES = (0, 1, 5, 50, 10_000, 10_001, 2**31, 2**40 - 1, 2**40, 2**62, 2**63 - 1)
_UNSEQUENCED = frozenset({MessageType.ACK, MessageType.RESUME})


class HostileSender:
    """Signs and seals for a victim, and lets some broker deliver."""

    def __init__(self, world: World, identity: Identity, chance: random.Random) -> None:
        self._world = world
        self._identity = identity
        self._chance = chance
        self._numbers: Counter[tuple[str, Incarnation]] = Counter()

    def ranges(self) -> list[list[int]]:
        """Return one range or two, as far as numbers go."""
        ends = sorted(self._chance.sample(EXTREMES, 2 * self._chance.randint(1, 2)))
        return [list(each) for each in zip(ends[::2], ends[1::2], strict=True)]

    def say(self, victim: Device, kind: MessageType, group_id: GroupId, body: bytes, incarnation: Incarnation) -> None:
        """Say something, under the next number of an incarnation."""
        number = LinkSeq(0)
        if kind not in _UNSEQUENCED:
            self._numbers[victim.name, incarnation] += 1
            number = LinkSeq(self._numbers[victim.name, incarnation])
        to = victim.identity
        message = write_message(self._identity, kind, to.signing_public, group_id, incarnation, number, number, 1, body)
        envelope = seal(message, to.noise_public, self._chance.randbytes(32), self._chance.randbytes(24))
        self._chance.choice(self._world.brokers).route(inbox_topic(to.signing_public), envelope)
