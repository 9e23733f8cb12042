"""A member whose keys somebody else has as well, and who says whatever they allow: extreme numbers, and too much.

It speaks in an incarnation of its own, so that what the honest member sends is not mistaken for it; and never a blob
or telemetry, which a member may send.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from covey.core.group.messages import pull_to_wire
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.wire import cbor
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, LossReason, MessageType, write_message
from covey.core.wire.topics import inbox_topic

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

_EXTREMES = (0, 1, 5, 50, 10_000, 10_001, 2**31, 2**40 - 1, 2**40, 2**62, 2**63 - 1)
_INCARNATION = Incarnation(b"insider!")


class Insider:
    """Acts as one member towards the others."""

    def __init__(self, world: World, member: Device, chance: random.Random) -> None:
        self._world = world
        self._member = member
        self._chance = chance
        self._numbers: Counter[str] = Counter()
        self.acts = 0

    def act(self) -> None:
        """Say one of these to another member."""
        self.acts += 1
        victim = self._chance.choice([each for each in self._world.devices[:3] if each is not self._member])
        self._chance.choice((self._loss, self._resumption, self._acknowledgement, self._pull, self._nonsense))(victim)

    def _ranges(self) -> list[list[int]]:
        ends = sorted(self._chance.sample(_EXTREMES, 2 * self._chance.randint(1, 2)))
        return [list(each) for each in zip(ends[::2], ends[1::2], strict=True)]

    def _loss(self, victim: Device) -> None:
        body = [int(self._chance.choice(list(LossReason))), self._ranges(), [], b"earlier!"]
        self._say(victim, MessageType.LOSS, NO_GROUP, cbor.encode(body))

    def _resumption(self, victim: Device) -> None:
        self._say(victim, MessageType.RESUME, NO_GROUP, cbor.encode(self._ranges()))

    def _acknowledgement(self, victim: Device) -> None:
        """Acknowledge nothing below what can have been sent: that would be to forgo what is its own."""
        spans = victim.store.incarnations.spans(self._member.identity.signing_public) if victim.alive else []
        incarnation = self._chance.choice([b"unknown!", *(span.incarnation for span in spans[:-1])])
        highest = self._chance.choice(_EXTREMES[3:])
        self._say(victim, MessageType.ACK, NO_GROUP, cbor.encode([incarnation, [0, [[highest, highest]]]]))

    def _pull(self, victim: Device) -> None:
        group_id = self._world.group_id
        self._say(victim, MessageType.GROUP_PULL, group_id, pull_to_wire(self._chance.choice(_EXTREMES)))

    def _nonsense(self, victim: Device) -> None:
        kinds = (MessageType.GROUP_MANIFEST, MessageType.REVOKE, MessageType.GROUP_VOTE, MessageType.LINK)
        kind = self._chance.choice(kinds)
        group_id = NO_GROUP if kind is MessageType.LINK else self._world.group_id
        self._say(victim, kind, group_id, cbor.encode([self._chance.choice(_EXTREMES), self._chance.randbytes(32)]))

    def _say(self, victim: Device, kind: MessageType, group_id: GroupId, body: bytes) -> None:
        number = LinkSeq(0)
        if kind not in {MessageType.ACK, MessageType.RESUME}:
            self._numbers[victim.name] += 1
            number = LinkSeq(self._numbers[victim.name])
        to = victim.identity
        message = write_message(
            self._member.identity, kind, to.signing_public, group_id, _INCARNATION, number, number, 1, body
        )
        envelope = seal(message, to.noise_public, self._chance.randbytes(32), self._chance.randbytes(24))
        self._chance.choice(self._world.brokers).route(inbox_topic(to.signing_public), envelope)
