"""A member whose keys somebody else has as well, and who says whatever they allow: extreme numbers, and too much.

It speaks in an incarnation of its own, so that what the honest member sends is not mistaken for it; and never a blob
or telemetry, which a member may send.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from covey.core.group.messages import pull_to_wire
from covey.core.ids import GroupId, Incarnation
from covey.core.wire import cbor
from covey.core.wire.message import NO_GROUP, LossReason, MessageType
from covey.limits.link import MAXIMUM_ACKNOWLEDGED_RANGES
from tests.sim.hostile_sender import EXTREMES, HostileSender

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

_INCARNATION = Incarnation(b"insider!")
_SCATTERED = 8
"""Resumptions that it says at once: with a few times so many, a set that takes them in has more holes than it may."""


class Insider:
    """Acts as one member towards the others."""

    def __init__(self, world: World, member: Device, chance: random.Random) -> None:
        self._world = world
        self._member = member
        self._chance = chance
        self._sender = HostileSender(world, member.identity, chance)
        self.acts = 0

    def act(self) -> None:
        """Say one of these to another member."""
        self.acts += 1
        victim = self._chance.choice([each for each in self._world.devices[:3] if each is not self._member])
        self._chance.choice((self._loss, self._resumption, self._acknowledgement, self._pull, self._nonsense))(victim)

    def _loss(self, victim: Device) -> None:
        body = [int(self._chance.choice(list(LossReason))), self._sender.ranges(), [], b"earlier!"]
        self._say(victim, MessageType.LOSS, NO_GROUP, cbor.encode(body))

    def _resumption(self, victim: Device) -> None:
        """Go on somewhere far away, or leave as many holes as may be."""
        self._say(victim, MessageType.RESUME, NO_GROUP, cbor.encode(self._sender.ranges()))
        for _ in range(_SCATTERED):
            numbers = sorted(self._chance.sample(range(2, 2**30), MAXIMUM_ACKNOWLEDGED_RANGES))
            self._say(victim, MessageType.RESUME, NO_GROUP, cbor.encode([[each, each] for each in numbers]))

    def _acknowledgement(self, victim: Device) -> None:
        """Acknowledge nothing below what can have been sent: that would be to forgo what is its own."""
        spans = victim.store.incarnations.spans(self._member.identity.signing_public) if victim.alive else []
        incarnation = self._chance.choice([b"unknown!", *(span.incarnation for span in spans[:-1])])
        highest = self._chance.choice(EXTREMES[3:])
        if spans and incarnation != b"unknown!":  # what waits there is queued again, as it names no imprints
            self._world.ledger.without_imprints.add(
                (victim.identity.signing_public, self._member.identity.signing_public)
            )
        self._say(victim, MessageType.ACK, NO_GROUP, cbor.encode([incarnation, [0, [[highest, highest]]]]))

    def _pull(self, victim: Device) -> None:
        group_id = self._world.group_id
        self._say(victim, MessageType.GROUP_PULL, group_id, pull_to_wire(self._chance.choice(EXTREMES)))

    def _nonsense(self, victim: Device) -> None:
        kinds = (MessageType.GROUP_MANIFEST, MessageType.REVOKE, MessageType.GROUP_VOTE, MessageType.LINK)
        kind = self._chance.choice(kinds)
        group_id = NO_GROUP if kind is MessageType.LINK else self._world.group_id
        self._say(victim, kind, group_id, cbor.encode([self._chance.choice(EXTREMES), self._chance.randbytes(32)]))

    def _say(self, victim: Device, kind: MessageType, group_id: GroupId, body: bytes) -> None:
        self._sender.say(victim, kind, group_id, body, _INCARNATION)
