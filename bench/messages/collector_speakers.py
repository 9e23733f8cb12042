"""Devices that speak to one collector, thousands in a process: real envelopes, and no store of their own.

A speaker signs and seals as a device does, keeps what is not acknowledged, says it again as the product's own
`SendLink` paces it, what is live before a backlog, opens what it is told, and takes and acknowledges a link key. It
writes under a link key of its own from the start, as a device does once it has said eight messages within an hour. What
a device compares of its groups, speakers pass over.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections import deque
from collections.abc import Iterator

from bench.readings import readings
from covey.core.crypto import Identity, Secret
from covey.core.group.manifest import Member
from covey.core.ids import KEY_BYTES, BatchNumber, DeviceKey, GroupId, Incarnation, LinkSeq, NoisePublic, Place
from covey.core.link.link_keys import KeptKey, LinkKey, open_envelope
from covey.core.link.queued import Lane
from covey.core.link.send_window import SendLink
from covey.core.telemetry.batch import BOOT_ID_BYTES, BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.wire.envelope import TAG_BYTES, seal, seal_by_link
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import NO_GROUP, Acknowledgement, MessageType, read_message, write_message
from covey.core.wire.note import is_note, read_note
from covey.core.wire.sequences import SequenceSet

_BATCHES = 64


def speaker_identity(place: int) -> Identity:
    """Return the keys of a speaker, which its place says."""
    signing, noise = (hashlib.blake2b(b"%d %s" % (place, kind), digest_size=32).digest() for kind in (b"s", b"n"))
    return Identity.from_seeds(signing, noise)


def speaker_member(place: int) -> Member:
    """Return what a group's manifest lists of it."""
    return Member(speaker_identity(place).keys, f"field-{place:05}")


def batches(count: int) -> list[bytes]:
    """Return some batches of so many readings each, for speakers to say in turn."""
    made = []
    for seed in range(_BATCHES):
        builder = BatchBuilder()
        for reading in readings(count, seed):
            builder.add(*reading)
        clock = ClockReading(bytes(BOOT_ID_BYTES), 1, 1, ClockKind.ASSERTED)
        made.append(builder.body(clock))
    return made


def _drawn_key() -> tuple[bytes, Secret]:
    return secrets.token_bytes(TAG_BYTES), Secret(secrets.token_bytes(KEY_BYTES))


class Speaker:
    """One device."""

    def __init__(self, place: int, group_id: GroupId, collector: tuple[DeviceKey, NoisePublic]) -> None:
        self.identity = speaker_identity(place)
        self.waiting: dict[int, tuple[float, bytes]] = {}
        """When each message was made that is not acknowledged, in seconds since some start, and its imprint."""
        self.said = 0
        self._group_id = group_id
        self._collector, self._noise = collector
        self._incarnation = Incarnation(secrets.token_bytes(8))
        self._link = LinkKey(self.identity.signing_public, *_drawn_key())
        self._link_place = 0
        self._counter = self._numbers = 0
        self._queued: deque[tuple[Place, bytes]] = deque()
        self._new: deque[tuple[Place, bytes]] = deque()
        """What is live: it overtakes a backlog."""
        self._bulk, self._live = SendLink(self._collector), SendLink(self._collector, Lane.LIVE)
        self._kept: dict[bytes, KeptKey] = {}

    def begin(self, made_s: float, wall_us: int) -> None:
        """Give the collector a link key."""
        self._link_place = self._numbers + 1
        self._queue(MessageType.LINK, self._link.to_wire(), NO_GROUP, made_s, wall_us)

    def say(self, batch: bytes, made_s: float, wall_us: int) -> None:
        """Queue a new batch."""
        self.said += 1
        self._queue(MessageType.TELEMETRY, numbered(BatchNumber(self.said), batch), self._group_id, made_s, wall_us)

    def _queue(self, kind: MessageType, body: bytes, group_id: GroupId, made_s: float, wall_us: int) -> None:
        self._numbers += 1
        message = self._write(kind, body, group_id, self._numbers, wall_us)
        self.waiting[self._numbers] = made_s, imprint_of(message)
        link, queue = (self._bulk, self._queued) if self._bulk.backlog_upto is None else (self._live, self._new)
        queue.append((Place(self._numbers), message))
        link.queue_grew()

    def envelopes(self, now_us: int) -> Iterator[tuple[bytes, bool]]:
        """Yield what is to go now, and whether it goes once more: as the product paces it."""
        for link, queue in ((self._live, self._new), (self._bulk, self._queued)):
            link.handle_deadline(now_us, random.randint)
            wanted = link.wanted()
            if wanted is not None:
                count = min(wanted.messages, len(queue))
                link.offer([queue.popleft() for _ in range(count)], wanted)
            for entry in link.messages_to_send():
                repeated = entry.sends > 0
                link.sent(entry, now_us)
                yield self._envelope(entry.message, sealed=repeated or entry.place == self._link_place), repeated
        self._bulk.note_backlog(lambda: Place(self._numbers))

    def _envelope(self, message: bytes, *, sealed: bool) -> bytes:
        if sealed:
            return self._seal(message)
        self._counter += 1
        return seal_by_link(message, self._link.key.reveal(), self._link.tag, self._counter)

    def _write(self, kind: MessageType, body: bytes, group_id: GroupId, number: int, wall_us: int) -> bytes:
        link_seq = LinkSeq(number)
        return write_message(
            *(self.identity, kind, self._collector, group_id, self._incarnation, number, link_seq, wall_us, body)
        )

    def _seal(self, message: bytes) -> bytes:
        return seal(message, self._noise, secrets.token_bytes(32), secrets.token_bytes(24))

    def receive(self, envelope: bytes, now_us: int, wall_us: int) -> tuple[list[float], bytes | None]:
        """Take an envelope; return when each message was made that it acknowledges, and an answer to it."""
        opened = open_envelope(envelope, self.identity, self.find)
        if opened.author is not None and is_note(opened.message):
            message = read_note(opened.message, opened.author, self.identity.signing_public)
        else:
            message = read_message(opened.message)
        if message.type is MessageType.LINK:
            link = LinkKey.from_wire(message.author, message.body)
            kept = KeptKey.of(link, self.identity.signing_public, self.identity.noise.current, secrets.token_bytes(24))
            self._kept[link.tag] = kept
            received = SequenceSet().add(message.link_seq)
            answer = Acknowledgement(message.incarnation, received, {message.link_seq: imprint_of(message.raw)})
            return [], self._seal(self._write(MessageType.ACK, answer.to_wire(), NO_GROUP, 0, wall_us))
        if message.type is not MessageType.ACK:
            return [], None
        said = Acknowledgement.from_wire(message.body)
        named = said.imprints or {}
        freed = [
            number
            for number, (_, imprint) in self.waiting.items()
            if number in said.received and named.get(number) == imprint
        ]
        received = SequenceSet().including((each, each) for each in freed)
        freeing = [link.receive_acknowledgement(received, now_us) for link in (self._live, self._bulk)]
        if any(freeing):
            self._live.restart(now_us)
            self._bulk.restart(now_us)
        return [self.waiting.pop(number)[0] for number in freed], None

    def find(self, tag: bytes) -> KeptKey | None:
        """Return the collector's link key of a tag."""
        return self._kept.get(tag)
