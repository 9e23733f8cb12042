"""Somebody who owns the broker, hears every envelope and sends what he likes to any inbox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity, Secret
from covey.core.ids import DeviceKey, LinkSeq
from covey.core.link.link_keys import LinkKey
from covey.core.pairing.invite import JoinRequest
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, Acknowledgement, Loss, LossReason, MessageType, write_message
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.topics import inbox_topic
from tests.sim.ledger import MARK

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

_REMEMBERED = 100


class Attacker:
    """Replays, redirects, flips, truncates and forges."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._received: list[tuple[str, bytes]] = []
        self._identity = Identity.from_seeds(b"stranger" * 4, b"strange!" * 4)

    def overhear(self, topic: str, envelope: bytes) -> None:
        """Keep an envelope."""
        if len(self._received) < _REMEMBERED:
            self._received.append((topic, envelope))
        else:
            self._received[self._world.random.randrange(_REMEMBERED)] = (topic, envelope)

    def act(self) -> None:
        """Do one of these."""
        self._world.random.choice((self._replay, self._redirect, self._flip, self._truncate, self._forge))()

    def _replay(self) -> None:
        if self._received:
            self._send(*self._world.random.choice(self._received))

    def _redirect(self) -> None:
        if self._received:
            _, envelope = self._world.random.choice(self._received)
            self._send(inbox_topic(self._victim().identity.signing_public), envelope)

    def _flip(self) -> None:
        if self._received:
            topic, envelope = self._world.random.choice(self._received)
            changed = bytearray(envelope)
            changed[self._world.random.randrange(len(changed))] ^= 1 << self._world.random.randrange(8)
            self._send(topic, bytes(changed))

    def _truncate(self) -> None:
        if self._received:
            topic, envelope = self._world.random.choice(self._received)
            self._send(topic, envelope[: self._world.random.randrange(len(envelope))])

    def _forge(self) -> None:
        """Seal, for a victim, what only a member may say: as a stranger, or under a member's name."""
        world, victim, member = self._world, self._victim(), self._victim()
        group_id, body = world.group_id, MARK + b"forged" + world.rng(4)
        incarnation = member.incarnation
        everything = Acknowledgement(victim.incarnation, SequenceSet(1_000_000)).to_wire()
        kind, group, body = world.random.choice(
            (
                (MessageType.BLOB, group_id, body),
                (MessageType.TELEMETRY, group_id, body),
                (MessageType.ACK, NO_GROUP, everything),
                (MessageType.LOSS, NO_GROUP, Loss(LossReason.EXPIRED, ((1, 50),)).to_wire()),
                (MessageType.LINK, NO_GROUP, LinkKey(DeviceKey(b""), world.rng(16), Secret(world.rng(32))).to_wire()),
                (MessageType.JOIN, group_id, JoinRequest(world.rng(16), self._identity.noise_public, "m").to_wire()),
            )
        )
        claimed = self._identity
        if world.random.random() < 0.7:
            claimed = replace(self._identity, signing_public=member.identity.signing_public)
        number = LinkSeq(0 if kind is MessageType.ACK else world.random.randint(1, 60))
        message = write_message(
            claimed, kind, victim.identity.signing_public, group, incarnation, number, number, 1, body
        )
        envelope = seal(message, victim.identity.noise_public, world.rng(32), world.rng(24))
        self._send(inbox_topic(victim.identity.signing_public), envelope)

    def _victim(self) -> Device:
        return self._world.random.choice(self._world.devices)

    def _send(self, topic: str, envelope: bytes) -> None:
        self._world.random.choice(self._world.brokers).route(topic, envelope)
