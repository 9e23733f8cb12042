"""Who a foreign device talks to: the product itself as a peer, and a companion whose messages the test writes.

* `Peer` is an ordinary device over the agent's own loop: it made the group, invites, collects telemetry and gives
  orders. Between it and the relay, what it sends can be held back (`muted`), as a relay may delay anything.
* `Companion` is another member. It has keys and counters and nothing else, so that a test can have it say what no
  sound device says. It acknowledges whatever comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.mqtt.watched_relay import MAXIMUM_PACKET_BYTES, WatchedRelay
from covey.adapters.word_list import draw_code
from covey.app.loop.pairing_role import PairingWhenInvited
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core import crypto
from covey.core.crypto import DeviceKeys, Identity
from covey.core.group.manifest import Member
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.ids import INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, LinkSeq
from covey.core.link.link_keys import LinkTerms
from covey.core.link.state import LinkState
from covey.core.orders.authority import weigh_orders
from covey.core.pairing.pending import Pairing
from covey.core.vault.landing import LandingPlan
from covey.core.wire import cbor
from covey.core.wire.envelope import seal, seal_by_link
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import NO_GROUP, Acknowledgement, Message, MessageType, write_message
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.topics import inbox_topic
from covey.limits.pairing import RENDEZVOUS_NUMBERS
from covey.ports import Delivered, RelayUp, Released

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from covey.app.device.device import Device
    from covey.app.loop.pairing_host import PairingHost
    from covey.core.history.body import OperationBody
    from covey.core.ids import ManifestHash, OperationId
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.orders.authority import Pins
    from covey.core.pairing.invite import Invite
    from covey.core.presence.heartbeat import LastWill
    from covey.ports import PublishRefusal, RelayEvent

_RELAY = "the test's relay"
_MESSAGE_DOMAIN = b"covey/1 message"
_EARLY_LINKS = LinkTerms(after=4)
"""When the peer begins a link: early, so that a short test sees link envelopes."""


class _PeerRelay:
    """The relay as the peer sees it; implements `ports.Relay`. What the peer publishes goes straight into sessions."""

    name = _RELAY

    def __init__(self, relay: WatchedRelay, delivered: Callable[[str], None]) -> None:
        self._relay, self._delivered = relay, delivered
        self._deliver: Callable[[RelayEvent], None] = lambda _: None
        self._handle = 0
        self.muted = False
        self._held: dict[str, bytes] = {}
        self.rendezvous: set[str] = set()
        self.catch: Callable[[str, bytes], None] = lambda _topic, _payload: None

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        self._deliver = deliver
        deliver(RelayUp(self.name, session_present=False, maximum_payload=MAXIMUM_PACKET_BYTES - 256))

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:  # noqa: ARG002 - the port's
        self._handle += 1
        if self.muted:
            self._held[topic] = payload
        else:
            self._carry(topic, payload)
        self._deliver(Released(self.name, self._handle, 0))
        return self._handle

    def _carry(self, topic: str, payload: bytes) -> None:
        self.catch(topic, payload)
        if self._relay.deliver(topic, payload):
            self._delivered(topic)

    def unmute(self) -> None:
        """Deliver the last that was held back for each recipient, and all else from now on."""
        held, self._held, self.muted = self._held, {}, False
        for topic, payload in held.items():
            self._carry(topic, payload)

    def receive(self, topic: str, payload: bytes) -> None:
        """Hand a delivery to the peer."""
        self._deliver(Delivered(self.name, (1, 0), topic, payload))

    def listen(self, topics: Collection[str]) -> None:
        """Meet joiners at these rendezvous."""
        self._relay.local_topics -= self.rendezvous
        self.rendezvous = set(topics)
        self._relay.local_topics |= self.rendezvous

    def acknowledge(self, delivered: Delivered) -> None:
        """Keep nothing that could be forgotten."""

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        """Nothing: this relay loses none."""

    def set_will(self, will: LastWill | None) -> None:
        """Publish no will: the peer lives as long as its relay."""

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        """Have nothing in the background."""


class _Landing:
    """The peer's vault: what lands is done with, and may be acknowledged. Implements `AgentRole`."""

    def __init__(self, device: Device) -> None:
        self._store = device.store

    def turn(self, node: Node, now: Now) -> int | None:
        waiting = self._store.landing.waiting(1 << 30, 1_000)
        if waiting is None:
            return None
        messages = self._store.landing.until(waiting[0])
        with self._store.transaction():
            plan = LandingPlan(1, self._store.incarnations.present(), waiting[0], now.wall_us, b"")
            self._store.landing.finish(plan, 0)
        with self._store.reading():
            for each in messages:
                if each.link_seq:
                    node.landing.landed(each.author, each.incarnation, {each.link_seq}, now)
        return None

    def stop(self, node: Node, now: Now) -> None:
        """Keep nothing open."""


class Peer:
    """The product as the inviter, the collector and the operator of the device that is tested."""

    def __init__(
        self,
        device: Device,
        relay: WatchedRelay,
        relay_url: str,
        delivered: Callable[[str], None],
        rng: Callable[[int], bytes],
    ) -> None:
        """Take a device that has just been made; `delivered` gets the topic of each publish."""
        self._device, self._rng = device, rng
        self.identity = device.node.identity
        self._relay = _PeerRelay(relay, delivered)
        self._relays = Relays([self._relay])
        self._events: list[RelayEvent] = []
        self.reports: list[str] = []
        start = LinkState.of_start(self.identity, rng, _EARLY_LINKS)

        def pairing_host() -> PairingHost:
            from covey.app.loop.pairing_host import HostFacts, PairingHost  # which needs the packages of codes

            facts = HostFacts(device.config.label, relay_url)
            return PairingHost(device.store, self._relay, facts, rng, self._note)

        pairing = PairingWhenInvited(device.store, pairing_host)
        self._runtime = Runtime(
            device.store,
            self._relays,
            device.clock,
            lambda state: device.make_node(lands_telemetry=True, state=state or start),
            [_Landing(device), pairing],
            self._note,
            rendezvous=pairing.receive,
        )
        self._relays.start(self._events.append)

    def _note(self, level: str, line: str) -> None:
        self.reports.append(f"{level}: {line}")

    @property
    def key(self) -> DeviceKey:
        """Its signing key."""
        return self.identity.signing_public

    @property
    def node(self) -> Node:
        """Its node, which a turn may replace."""
        return self._runtime.node

    @property
    def muted(self) -> bool:
        """Whether the relay holds back all that it says."""
        return self._relay.muted

    def catch(self, take: Callable[[str, bytes], None]) -> None:
        """Give topic and payload of all that it publishes to somebody in this process, too."""
        self._relay.catch = take

    def mute(self) -> None:
        """Have the relay hold back all that it says."""
        self._relay.muted = True

    def unmute(self) -> None:
        """Have the relay deliver all that it says, and the last that it held back: that acknowledges all before."""
        self._relay.unmute()

    def open_code(self, invite: Invite) -> str:
        """Admit the device that joins by a new word code, and give it the invite; return the code.

        Raises:
            MissingPackageError: a package that codes need is not there.
        """

        def below(most: int) -> int:
            return int.from_bytes(self._rng(8), "big") % most

        code = draw_code(below, 1 + below(RENDEZVOUS_NUMBERS))
        place = (invite.secret_hash, code.number, str(code), invite.secret, invite.expires_at_us, True)
        with self._device.store.transaction():
            pairing = Pairing(*place, operators=invite.operators)
            self._device.store.pairings.open(pairing, self._device.now().wall_us)
        return str(code)

    def pairing_ending(self) -> str:
        """Return how the ceremony ended; empty while it has not."""
        return next((each.ended or "" for each in self._device.store.pairings.all()), "")

    def is_met_at(self, topic: str) -> bool:
        """Say whether what is published there is for it."""
        return topic == inbox_topic(self.key) or topic in self._relay.rendezvous

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish something that no device of the group has written."""
        self._relay.publish(topic, payload)

    def receive(self, topic: str, payload: bytes) -> None:
        """Take what was published to its inbox or its rendezvous, in the next turn."""
        self._relay.receive(topic, payload)

    def turn(self) -> None:
        """Do what is due."""
        events, self._events[:] = list(self._events), []
        self._runtime.turn(events)

    def do(self, change: Callable[[Node, Now], object]) -> None:
        """Change something as a person or a role does, in one transaction."""
        with self._device.store.transaction():
            change(self.node, self._device.now())

    def rotate(self) -> None:
        """Replace its noise key, and tell the group."""
        now = self._device.now()
        with self._device.store.transaction():
            self._device.folder.noise_keys.rotate(self.identity, now.wall_us)
            self.node.actions.rotate_noise_key(now)

    def history_ends(self, group_id: GroupId) -> tuple[tuple[OperationId, ...], int, ManifestHash]:
        """Return what an operation would follow: the heads, the next height, and the group's manifest."""
        operations, heads = self._device.store.operations, self.node.history.standing(group_id).heads
        held = [found for each in heads if (found := operations.held(group_id, each)) is not None]
        height = 1 + max((each.height for each in held), default=0)
        return tuple(sorted(heads)), height, self.node.groups.group(group_id).hash

    def holds(self, group_id: GroupId, operation: OperationId) -> bool:
        """Say whether it has taken an operation."""
        return self._device.store.operations.raw(group_id, operation) is not None

    def has_written(self, group_id: GroupId, author: DeviceKey, kind: OperationKind) -> bool:
        """Say whether it holds an operation of some kind by an author."""
        found = self._device.store.operations.of_kind(group_id, kind)
        return any(read_operation(each.raw, verify=False).author == author for each in found)

    def counts(self, group_id: GroupId, operation: Operation, pins: Pins) -> bool:
        """Say whether an order counts for a device with these pins that holds what the peer holds."""
        members = {each.keys.signing_public for each in self.node.groups.group(group_id).members}
        void = self.node.history.standing(group_id).void
        kind = OperationKind(operation.kind)
        weighed = weigh_orders(self._device.store.operations, group_id, pins, members, void, kind)
        return any(each.id == operation.id and each.counts for each in weighed.orders)

    def waits_for(self, device: DeviceKey) -> bool:
        """Say whether something that it sent a device is not acknowledged."""
        return device in self._device.store.outbox.recipients()


class Companion:
    """A member, or a stranger, that says what the test wants."""

    def __init__(
        self,
        relay: WatchedRelay,
        delivered: Callable[[str], None],
        rng: Callable[[int], bytes],
        clock_us: Callable[[], int],
    ) -> None:
        """Draw keys and an incarnation; `delivered` gets the topic of each publish."""
        self._relay, self._delivered, self._rng, self._clock_us = relay, delivered, rng, clock_us
        self.group_id = NO_GROUP
        self.identity = Identity.from_seeds(rng(32), rng(32))
        self.incarnation = Incarnation(rng(INCARNATION_BYTES))
        self.last = LinkSeq(0)
        """The link-seq that it used last to the device."""
        self.last_to_peer = LinkSeq(0)
        self.answers = True
        self._received: dict[Incarnation, SequenceSet] = {}
        self._last_operation: Operation | None = None

    @property
    def key(self) -> DeviceKey:
        """Its signing key."""
        return self.identity.signing_public

    def member(self, label: str) -> Member:
        """Return its record in a manifest."""
        return Member(self.identity.keys, label)

    def write(
        self,
        kind: int,
        recipient: DeviceKey,
        body: bytes,
        link_seq: LinkSeq,
        *,
        group_id: GroupId = NO_GROUP,
        extensions: cbor.Extensions | None = None,
        signer: Identity | None = None,
    ) -> bytes:
        """Return a message of any type and number, perhaps with an extension map, or signed by somebody else."""
        place = [group_id, self.incarnation, link_seq, link_seq, self._clock_us()]
        signed = cbor.encode_growing([1, kind, self.key, recipient, *place, body], extensions)
        return cbor.encode([crypto.sign(_MESSAGE_DOMAIN, signed, signer or self.identity), signed])

    def send(self, to: DeviceKeys, message: bytes, link: tuple[bytes, bytes, int] | None = None) -> bytes:
        """Deliver a message to a device, sealed, or by a link (tag, key, counter); return the envelope."""
        if link is None:
            envelope = self.sealed(message, to)
        else:
            tag, key, counter = link
            envelope = seal_by_link(message, key, tag, counter)
        self.deliver(to.signing_public, envelope)
        return envelope

    def sealed(self, message: bytes, to: DeviceKeys) -> bytes:
        """Return a message's envelope."""
        return seal(message, to.noise_public, self._rng(32), self._rng(crypto.NONCE_BYTES))

    def operation(
        self, body: OperationBody, parents: tuple[OperationId, ...], height: int, manifest: ManifestHash
    ) -> Operation:
        """Return its next operation in the group's history."""
        log, now_us, before = Log(self.key, self.incarnation), self._clock_us(), self._last_operation
        number, previous = (1, None) if before is None else (before.number + 1, before.id)
        place = (self.group_id, log, number, previous, parents, height, manifest, now_us)
        self._last_operation = sign_operation(Operation(*place, int(body.kind), body.to_wire()), self.identity)
        return self._last_operation

    def deliver(self, device: DeviceKey, payload: bytes) -> None:
        """Publish bytes to a device's inbox."""
        topic = inbox_topic(device)
        if self._relay.deliver(topic, payload):
            self._delivered(topic)

    def acknowledge(self, message: Message, to: DeviceKeys) -> None:
        """Acknowledge a message of the device's, at once."""
        if not message.link_seq or not self.answers:
            return
        held = self._received.get(message.incarnation, SequenceSet()).including([(message.link_seq, message.link_seq)])
        self._received[message.incarnation] = held
        self.send(
            to, self.acknowledgement(to.signing_public, message.incarnation, held, {message.link_seq: message.raw})
        )

    def acknowledgement(
        self,
        recipient: DeviceKey,
        incarnation: Incarnation,
        received: SequenceSet,
        named: dict[LinkSeq, bytes] | None,
        signer: Identity | None = None,
        *,
        author: Identity | None = None,
    ) -> bytes:
        """Return an ACK message; `named` are the messages whose imprints it names, `author` who it says wrote it.

        To a board no imprints are named: None.
        """
        imprints: dict[int, bytes] | None = None
        if named is not None:
            imprints = {each: imprint_of(raw) for each, raw in named.items()}
        body = Acknowledgement(incarnation, received, imprints).to_wire()
        own = author or self.identity
        raw = write_message(
            own, MessageType.ACK, recipient, NO_GROUP, self.incarnation, 0, LinkSeq(0), self._clock_us(), body
        )
        if signer is None:
            return raw
        signed = cbor.decode(raw, len(raw))[1]
        return cbor.encode([crypto.sign(_MESSAGE_DOMAIN, signed, signer), signed])
