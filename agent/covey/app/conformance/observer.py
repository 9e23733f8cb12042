"""What a foreign device says, message by message: each one is opened, judged by itself and remembered.

1. Everything is seen at the relay, so also what the peers never answer. An envelope is opened with the keys of the peer
   whose inbox it was published to; link keys are learned from the device's LINK messages, as any recipient does.
2. What one packet or message must be like is judged here, when it comes. What needs several of them, or an answer, is
   the session's.
3. A message is *settled* when it came, nothing that peers said was lost for `SETTLED_S` from then on, and the device
   has taken (PUBACK) all that was delivered to it: then its acknowledgement has arrived, and the device must never send
   it again. Where the acknowledgement was lost, later ones need not name it: the message has to come again first.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.adapters.mqtt.watched_relay import (
    MAXIMUM_PACKET_BYTES,
    RECEIVE_MAXIMUM,
    ClientAcknowledged,
    ClientConnected,
    ClientLeft,
    ClientPublished,
    ClientSubscribed,
    Observation,
)
from covey.core.crypto import sealing_key
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, NoisePublic, inbox_name, printable
from covey.core.link.link_keys import LinkKey
from covey.core.telemetry.decoding import read_telemetry
from covey.core.wire.envelope import LinkEnvelope, read_envelope
from covey.core.wire.heads import of_manifests
from covey.core.wire.message import (
    NO_GROUP,
    UNKNOWN_TYPE,
    Acknowledgement,
    Loss,
    Message,
    MessageType,
    read_message,
)
from covey.core.wire.note import is_note, read_note
from covey.core.wire.short import is_short, restore
from covey.core.wire.topics import inbox_topic
from covey.errors import DecryptionError, MalformedError, RemoteError, SignatureError

if TYPE_CHECKING:
    from covey.app.conformance.checks import RequirementResults
    from covey.core.crypto import Identity

SESSION_S = 7 * 86_400
SETTLED_S = 4.0
"""How long after a message its acknowledgement may be under way: peers wait for company for a fraction of that."""

_HEADS = {MessageType.ACK, MessageType.PRESENCE, MessageType.HEADS}
_OF_THE_LINK = {MessageType.LINK, MessageType.LOSS, MessageType.RESUME}
_ENROLMENT = "enrol"
_INBOX, _PAIR = "covey/1/in/", "covey/1/pair/"
_ACCOUNT = re.compile("[0-9a-f]{32}")


@dataclass(slots=True)
class SeenMessage:
    """One sequenced message, and when it came: once, or again and again."""

    message: Message
    times: list[float]
    settled: bool = False


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message as it came; `sealed_for` is the noise key that opened it, None for a link envelope."""

    at: float
    message: Message
    sealed_for: NoisePublic | None
    acknowledgement: Acknowledgement | None = None


@dataclass(slots=True)
class Observer:
    """Everything that was seen of one device."""

    findings: RequirementResults
    group_id: GroupId = NO_GROUP
    device: DeviceKey | None = None
    """Known from its first message that the peer can read: a user name is half of a key."""
    account: str = ""
    """The user name that it connects with."""
    connections: int = 0
    connected_at: float = 0.0
    subscribed: int = 0
    published: int = 0
    held_publishes: int = 0
    taken: list[bytes] = field(default_factory=list)
    """Payloads that the device has acknowledged to the relay."""
    received: list[ReceivedMessage] = field(default_factory=list)
    sequenced: dict[tuple[Incarnation, DeviceKey, LinkSeq], SeenMessage] = field(default_factory=dict)
    batches: dict[tuple[Incarnation, int], Message] = field(default_factory=dict)
    lost_batches: set[int] = field(default_factory=set)
    lost_places: set[tuple[Incarnation, DeviceKey, int]] = field(default_factory=set)
    owed: int = 0
    """Deliveries to the device that it has not acknowledged to the relay."""
    muted: bool = False
    """Whether the relay holds back what the peers say."""
    answering_since: float = 0.0
    """Since when nothing of what the peers say was lost."""
    readers: dict[str, Identity] = field(default_factory=dict)
    """The peers whose envelopes can be opened here, by inbox topic."""
    _envelopes: set[bytes] = field(default_factory=set)
    _nonces: set[tuple[bytes, bytes | int]] = field(default_factory=set)
    _ephemeral: set[bytes] = field(default_factory=set)
    _link_keys: dict[bytes, LinkKey] = field(default_factory=dict)

    def reads_for(self, identity: Identity) -> None:
        """Open what is published to a peer's inbox from now on."""
        self.readers[inbox_topic(identity.signing_public)] = identity

    def delivered(self) -> None:
        """Note that a peer has published something for the device."""
        self.owed += 1

    def take(self, event: Observation) -> None:
        """Judge what a client of the relay has done."""
        if isinstance(event, ClientConnected):
            self._connected(event)
        elif isinstance(event, ClientSubscribed):
            self._subscribed(event)
        elif isinstance(event, ClientPublished):
            self._published(event)
        elif isinstance(event, ClientAcknowledged):
            self.owed = max(0, self.owed - 1)
            self.taken.append(event.payload)
            self.findings.passes("puback", "it acknowledged each delivery")
        elif isinstance(event, ClientLeft) and event.why:
            self.findings.fails("mqtt", f"it broke MQTT 5: {event.why}")

    def settle(self) -> None:
        """Mark the messages whose acknowledgement must have arrived by now."""
        now = time.monotonic()
        if self.muted or self.owed:
            return
        for seen in self.sequenced.values():
            if seen.times[-1] > self.answering_since and seen.times[-1] + SETTLED_S <= now:
                seen.settled = True

    # -- at the relay -------------------------------------------------------------------------------------------------

    def _connected(self, event: ClientConnected) -> None:
        findings = self.findings
        if event.protocol != 5:
            findings.fails("mqtt", f"it speaks version {event.protocol} of MQTT's protocol, not 5")
            return
        if event.user_name == _ENROLMENT:
            self._enrols(event)
            return
        self.connections += 1
        self.connected_at = self.answering_since = time.monotonic()
        self.owed = 0  # what was under way is delivered again, or forgotten with the session
        findings.passes("mqtt", "every packet was MQTT 5")
        name = event.user_name
        right = _ACCOUNT.fullmatch(name) is not None and event.client_id == name
        shown = f"user name '{printable(name)[:70]}', client id '{printable(event.client_id)[:70]}'"
        findings.holds("client-id", seen=right, failed=f"it connected with {shown}: both must name its inbox")
        if right and not self.account:
            self.account = name
        clean = "Clean Start 1, which throws away what waits for it" if event.clean_start else ""
        short = f"a Session Expiry of {event.session_expiry_s} s" if event.session_expiry_s != SESSION_S else ""
        wrong = " and ".join(filter(None, (clean, short)))
        findings.holds("session", seen=not wrong, failed=f"it asked for {wrong}; the section wants 0 and {SESSION_S} s")

    def _enrols(self, event: ClientConnected) -> None:
        """Judge the connection on which a device without an account pairs by a code (36 Pairing)."""
        kept = event.clean_start or event.session_expiry_s
        wrong = (
            f"its connection as `enrol` has the client id '{printable(event.client_id)[:70]}', not `enrol`"
            if event.client_id != _ENROLMENT
            else "its connection as `enrol` asks for something else than Clean Start 0 and a Session Expiry of 0"
            if kept
            else ""
        )
        self.findings.holds("code", seen=not wrong, failed=wrong)

    def _subscribed(self, event: ClientSubscribed) -> None:
        enrols = event.user_name == _ENROLMENT
        self.subscribed += not enrols
        own = _INBOX + event.user_name
        wrong = ""
        if not event.topic.startswith(_PAIR) and (enrols or event.topic != own):
            wrong = f"it subscribed to '{printable(event.topic)[:100]}', which is not its own inbox"
        elif event.qos != 1:
            wrong = f"it asked for its inbox with QoS {event.qos}"
        elif event.retained:
            wrong = "it asked for retained messages of its inbox (Retain Handling is not 2)"
        self.findings.holds("subscription", seen=not wrong, failed=wrong)

    def _published(self, event: ClientPublished) -> None:
        findings = self.findings
        self.published += 1
        self.held_publishes = max(self.held_publishes, event.unanswered)
        if event.packet_bytes > MAXIMUM_PACKET_BYTES:
            findings.fails(
                "packet-size", f"it sent a packet of {event.packet_bytes} bytes; the relay takes {MAXIMUM_PACKET_BYTES}"
            )
        else:
            findings.passes("packet-size", f"no packet had more than {MAXIMUM_PACKET_BYTES} bytes")
        if event.unanswered > RECEIVE_MAXIMUM:
            findings.fails(
                "receive-maximum", f"it left {event.unanswered} publishes unanswered; the relay takes {RECEIVE_MAXIMUM}"
            )
        if event.topic.startswith(_PAIR):
            return
        self._open(event)

    # -- envelopes ----------------------------------------------------------------------------------------------------

    def _open(self, event: ClientPublished) -> None:
        findings, raw = self.findings, event.payload
        identity = self.readers.get(event.topic)
        if identity is None:
            self._publishes(event, None)
            if not event.topic.startswith(_INBOX):
                findings.fails("publishing", f"it published to '{printable(event.topic)[:100]}', which is no inbox")
            return
        is_repetition = event.repeated and raw in self._envelopes
        self._envelopes.add(raw)
        try:
            envelope = read_envelope(raw)
            if isinstance(envelope, LinkEnvelope):
                plain, sealed_for = self._open_link(envelope, identity.signing_public), None
                self._is_fresh(envelope.tag, envelope.counter, is_repetition)
            else:
                self._is_fresh(envelope.ephemeral_public, envelope.nonce, is_repetition)
                plain, sealed_for = _open_sealed(envelope, identity)
        except RemoteError as error:
            findings.fails("envelopes", f"one of its envelopes was refused ({error.code}): {error}")
            return
        findings.passes("envelopes", "each envelope opened")
        try:
            noted = sealed_for is None and is_note(plain)
            if noted and self.device is not None:
                message = read_note(plain, self.device, identity.signing_public)
            else:
                message = read_message(plain)
            if sealed_for == sealing_key(identity.signing_public) and message.type is not MessageType.HEADS:
                raise MalformedError("only a HEADS is sealed for a signing key")
        except SignatureError:
            findings.fails("messages", "the signature of one of its messages does not verify under its author's key")
            return
        except RemoteError as error:
            findings.fails("messages", f"one of its messages was refused ({error.code}): {error}")
            return
        self._publishes(event, message, is_note=noted)
        self._take_message(message, identity.signing_public, sealed_for)

    def _open_link(self, envelope: LinkEnvelope, recipient: DeviceKey) -> bytes:
        """Return a note or a whole message."""
        link = self._link_keys.get(envelope.tag)
        if link is None:
            raise DecryptionError("a link envelope under a key that no LINK message has told")
        plain, implied = envelope.open(link.key.reveal()), link.implied(recipient)
        return restore(plain, implied) if implied is not None and is_short(plain) else plain

    def _is_fresh(self, key: bytes, nonce: bytes | int, is_repetition: bool) -> None:
        """Check that an envelope is newly drawn, unless MQTT itself repeats it (DUP)."""
        is_link = isinstance(nonce, int)
        used = (key, nonce) in self._nonces or (not is_link and key in self._ephemeral)
        self._nonces.add((key, nonce))
        if not is_link:
            self._ephemeral.add(key)
        if is_repetition:
            return
        what = "counter of a link key" if is_link else "ephemeral key"
        self.findings.holds("fresh-keys", seen=not used, failed=f"it used one {what} for two envelopes")

    def _publishes(self, event: ClientPublished, message: Message | None, *, is_note: bool = False) -> None:
        """Judge how something was published.

        A note may get lost, so QoS 0 is allowed for it. What is not sequenced may expire, and so may what comes again.
        """
        passing = message is not None and (not message.link_seq or self._has_come(message))
        revealing = [each for each in event.revealing if not (passing and each == "message expiry")]
        wrong = ""
        may_be_lost = is_note and event.qos == 0
        if event.qos != 1 and not may_be_lost:
            wrong = f"it published with QoS {event.qos}"
        elif event.retain:
            wrong = "it published a retained message"
        elif revealing:
            wrong = f"it published with a property that the relay can read: {', '.join(revealing)}"
        self.findings.holds("publishing", seen=not wrong, failed=wrong)

    def _has_come(self, message: Message) -> bool:
        return any(message.raw == each.message.raw for each in self.received)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _take_message(self, message: Message, recipient: DeviceKey, sealed_for: NoisePublic | None) -> None:
        findings, acknowledgement = self.findings, None
        if self.device is None and inbox_name(message.author) == self.account:
            self.device = message.author
        findings.passes("messages", "each message was well formed and signed by its author")
        self._is_addressed(message, recipient)
        try:
            if message.type is MessageType.ACK:
                acknowledgement = Acknowledgement.from_wire(message.body)
            elif message.type is MessageType.LINK:
                link = LinkKey.from_wire(message.author, message.body)
                self._link_keys[link.tag] = link
            elif message.type is MessageType.LOSS:
                self._lost(message)
        except RemoteError as error:
            name = message.type.name
            findings.fails("messages", f"the body of its {name} was refused ({error.code}): {error}")
        self.received.append(ReceivedMessage(time.monotonic(), message, sealed_for, acknowledgement))
        if sealed_for is None:
            findings.passes("sends-link", "it sent link envelopes that open")
        if message.link_seq:
            self._count(message)

    def _is_addressed(self, message: Message, recipient: DeviceKey) -> None:
        kind, wrong = message.type, ""
        if message.author != self.device:
            wrong = "its message names another author than the user name it connected with"
        elif message.recipient != recipient:
            wrong = "its message names another recipient than the device whose inbox it was published to"
        elif kind in _OF_THE_LINK and message.group_id != NO_GROUP:
            wrong = f"its {kind.name} names a group; messages about a link have 32 zero bytes there"
        elif kind not in _HEADS | _OF_THE_LINK and kind is not UNKNOWN_TYPE and message.group_id != self.group_id:
            wrong = f"its {kind.name} names another group than the one it joined"
        self.findings.holds("addressed", seen=not wrong, failed=wrong)

    def _lost(self, message: Message) -> None:
        loss = Loss.from_wire(message.body)
        incarnation = loss.incarnation or message.incarnation
        for first, last in loss.places:
            self.lost_places.update((incarnation, message.recipient, place) for place in range(first, last + 1))
        for first, last in loss.numbers:
            self.lost_batches.update(range(first, last + 1))

    def _count(self, message: Message) -> None:
        now, place = time.monotonic(), (message.incarnation, message.recipient, message.link_seq)
        seen = self.sequenced.get(place)
        if seen is None:
            self.sequenced[place] = SeenMessage(message, [now])
            if message.type is MessageType.TELEMETRY:
                self._telemetry(message)
            return
        if message.raw != seen.message.raw:
            self.findings.fails(
                "one-message",
                f"it sent two different messages as link-seq {message.link_seq}: what is sent again keeps its bytes",
            )
        elif seen.settled:
            waited = now - seen.times[-1]
            self.findings.fails(
                "stops", f"it sent link-seq {message.link_seq} again {waited:.0f} s after its acknowledgement"
            )
        seen.times.append(now)

    def _telemetry(self, message: Message) -> None:
        try:
            number, _ = read_telemetry(message.body)
        except RemoteError as error:
            self.findings.fails("telemetry", f"a batch does not decode ({error.code}): {error}")
            return
        self.findings.passes("telemetry", "each batch decoded")
        before = self.batches.setdefault((message.incarnation, number), message)
        if before.link_seq != message.link_seq:
            self.findings.fails(
                "batch-numbers",
                f"batch {number} came under link-seq {before.link_seq} and again under {message.link_seq}: what is "
                "sent again keeps its link-seq",
            )

    # -- at the end ---------------------------------------------------------------------------------------------------

    def missing(self) -> str:
        """Return what of the device's counting is not whole yet; empty where all is."""
        links: dict[tuple[Incarnation, DeviceKey], set[int]] = {}
        for incarnation, recipient, link_seq in self.sequenced:
            links.setdefault((incarnation, recipient), set()).add(link_seq)
        for (incarnation, recipient), come in links.items():
            lost = {place for each, whom, place in self.lost_places if (each, whom) == (incarnation, recipient)}
            if absent := _absent(come | lost):
                return f"link-seq {absent} to one recipient never came, and no LOSS names it"
        lost_any = len(self.lost_places)
        seqs = {seen.message.seq for seen in self.sequenced.values()}
        if not lost_any and len(self.readers) and (absent := _absent(seqs)):
            return f"seq {absent} never came, to whatever recipient"
        return ""

    def missing_batches(self) -> str:
        """Return which batch is not there; empty where none is missing."""
        absent = _absent({number for _, number in self.batches} | self.lost_batches)
        return f"batch {absent} never came, and no LOSS names it" if absent else ""

    def last_acknowledgement(
        self, recipient: DeviceKey, after: float = 0.0, incarnation: Incarnation | None = None
    ) -> ReceivedMessage | None:
        """Return the newest acknowledgement to a peer that came after a moment, of an incarnation if one is given.

        A device acknowledges each incarnation of a peer by itself, several of them at the same moment.
        """
        for found in reversed(self.received):
            if found.at <= after:
                return None
            said = found.acknowledgement
            if said is not None and found.message.recipient == recipient and incarnation in {None, said.incarnation}:
                return found
        return None

    def said_of_groups(self, recipient: DeviceKey, after: float = 0.0) -> GroupId | None:
        """Return the newest digest of shared groups that the device told a peer after a moment."""
        for found in reversed(self.received):
            if found.at <= after:
                return None
            if found.message.type in _HEADS and found.message.recipient == recipient:
                said = found.message.group_id
                return said if any(of_manifests(said)) else None
        return None


def _open_sealed(envelope: object, identity: Identity) -> tuple[bytes, NoisePublic]:
    error: RemoteError = DecryptionError("envelope does not open")
    for key in identity.noise.keys:
        try:
            return envelope.open(key.secret.reveal()), key.public  # type: ignore[attr-defined] # a sealed one
        except DecryptionError as failed:
            error = failed
    with suppress(DecryptionError):
        return envelope.open(identity.sealing_secret), sealing_key(identity.signing_public)  # type: ignore[attr-defined]
    raise error


def _absent(numbers: set[int]) -> int:
    """Return the smallest number from 1 up to the highest that is not there; 0 where all are."""
    return next((each for each in range(1, max(numbers, default=0)) if each not in numbers), 0)
