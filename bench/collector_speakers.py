"""Devices that speak to one collector, thousands in a process: real envelopes, and no store of their own.

A speaker signs and seals as a device does, keeps what is not acknowledged, says it again, opens what it is told, and
takes and acknowledges a link key. It writes under a link key of its own from the start, as a device does once it has
said eight messages within an hour. What a device compares of its groups, speakers pass over.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator

from bench.readings import readings
from covey.core.crypto import Identity, Secret
from covey.core.group.manifest import Member
from covey.core.ids import KEY_BYTES, BatchNumber, DeviceKey, GroupId, Incarnation, LinkSeq, NoisePublic
from covey.core.link.link_keys import KeptKey, LinkKey, open_envelope
from covey.core.telemetry.batch import BOOT_ID_BYTES, BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.wire.envelope import TAG_BYTES, seal, seal_by_link
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import NO_GROUP, Acknowledgement, MessageType, read_message, write_message
from covey.core.wire.sequences import SequenceSet

RETRY_S = 5.0
"""Before any round trip was measured (`limits/link.py`); doubled with each try."""
RETRY_S_MAX = 300.0
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


class _Waiting:
    """A message that is not acknowledged yet; times are in seconds since some start."""

    __slots__ = ("made_s", "message", "next_s", "retry_s")

    def __init__(self, message: bytes, made_s: float) -> None:
        self.message = message
        self.made_s = made_s
        self.next_s = made_s + RETRY_S
        self.retry_s = RETRY_S


class Speaker:
    """One device."""

    def __init__(self, place: int, group_id: GroupId, collector: tuple[DeviceKey, NoisePublic]) -> None:
        self.identity = speaker_identity(place)
        self.waiting: dict[int, _Waiting] = {}
        self.said = self._acknowledged = 0
        self._group_id = group_id
        self._collector, self._noise = collector
        self._incarnation = Incarnation(secrets.token_bytes(8))
        self._link = LinkKey(self.identity.signing_public, *_drawn_key())
        self._counter = 0
        self._kept: dict[bytes, KeptKey] = {}

    def begin(self, now_s: float, wall_us: int) -> bytes:
        """Return the envelope that gives the collector a link key."""
        return self._seal(self._queue(MessageType.LINK, self._link.to_wire(), NO_GROUP, now_s, wall_us))

    def say(self, batch: bytes, now_s: float, wall_us: int) -> bytes:
        """Return the envelope of a new batch."""
        self.said += 1
        body = numbered(BatchNumber(self.said), batch)
        message = self._queue(MessageType.TELEMETRY, body, self._group_id, now_s, wall_us)
        self._counter += 1
        return seal_by_link(message, self._link.key.reveal(), self._link.tag, self._counter)

    def _queue(self, kind: MessageType, body: bytes, group_id: GroupId, now_s: float, wall_us: int) -> bytes:
        number = len(self.waiting) + self._acknowledged + 1
        message = self._write(kind, body, group_id, number, wall_us)
        self.waiting[number] = _Waiting(message, now_s)
        return message

    def _write(self, kind: MessageType, body: bytes, group_id: GroupId, number: int, wall_us: int) -> bytes:
        link_seq = LinkSeq(number)
        return write_message(
            *(self.identity, kind, self._collector, group_id, self._incarnation, number, link_seq, wall_us, body)
        )

    def _seal(self, message: bytes) -> bytes:
        return seal(message, self._noise, secrets.token_bytes(32), secrets.token_bytes(24))

    def repeats(self, now_s: float) -> Iterator[bytes]:
        """Yield, sealed, what was left unanswered for too long."""
        for each in self.waiting.values():
            if each.next_s <= now_s:
                each.retry_s = min(RETRY_S_MAX, 2 * each.retry_s)
                each.next_s = now_s + each.retry_s
                yield self._seal(each.message)

    def receive(self, envelope: bytes, wall_us: int) -> tuple[list[float], bytes | None]:
        """Take an envelope; return when each message was made that it acknowledges, and an answer to it."""
        message = read_message(open_envelope(envelope, self.identity.noise, self).message)
        if message.type is MessageType.LINK:
            link = LinkKey.from_wire(message.author, message.body)
            kept = KeptKey.of(link, self.identity.noise.current, secrets.token_bytes(24))
            self._kept[link.tag] = kept
            received = SequenceSet().add(message.link_seq)
            answer = Acknowledgement(message.incarnation, received, {message.link_seq: imprint_of(message.raw)})
            return [], self._seal(self._write(MessageType.ACK, answer.to_wire(), NO_GROUP, 0, wall_us))
        if message.type is not MessageType.ACK:
            return [], None
        said = Acknowledgement.from_wire(message.body)
        return [self._free(number) for number in list(self.waiting) if self._is_named(said, number)], None

    def _is_named(self, said: Acknowledgement, number: int) -> bool:
        named = (said.imprints or {}).get(number)
        return number in said.received and named == imprint_of(self.waiting[number].message)

    def _free(self, number: int) -> float:
        self._acknowledged += 1
        return self.waiting.pop(number).made_s

    def find(self, tag: bytes) -> KeptKey | None:
        """Return the collector's link key of a tag (`LinkKeyRecords`)."""
        return self._kept.get(tag)

    def save(self, key: KeptKey, now_us: int) -> None:
        """Satisfy `LinkKeyRecords`."""

    def forget(self, *_: object) -> None:
        """Satisfy `LinkKeyRecords`."""
