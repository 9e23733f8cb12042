"""A file next to the database with its high-water mark, which shows when a disk has lost commits.

Records of 64 bytes: the first of the whole state, and number n of the recipient whose row in `peer` is n. Rules:

    1. It is written after a commit, and never synchronised: it contains only durable facts, and costs no wait. After a
       power cut it may lack the last seconds.
    2. Nothing in it goes back: writers compare, under a lock for which nobody waits.
    3. A record with a wrong checksum, or of another database, counts as missing: the checksum includes the `lineage`
       that the database names. If the first record is invalid, the file begins again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.sqlite.rows import LAST_PLACE
from covey.core.ids import DeviceKey, Incarnation
from covey.limits.message import MAXIMUM_SEQUENCE
from covey.limits.storage import HIGH_WATER_RECIPIENTS

_CHECKSUM_BYTES = 8
_RECORD_BYTES = 64
_STATE = struct.Struct(">QQQ32x")
_QUEUE = struct.Struct(">32s8sQQ")


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """How far one recipient's queue had come: the next place, and the last one before its incarnation (`base`)."""

    recipient: DeviceKey
    incarnation: Incarnation
    base: int
    next_place: int


@dataclass(frozen=True, slots=True)
class HighWaterMark:
    """How far a state had come: its commits, the next numbers of the device, and queues by their recipients' row ids.

    In a file each number is believed by itself; in what is written `queues` are those that have changed.
    """

    commits: int
    next_seq: int
    next_batch: int
    queues: dict[int, QueueEnd]


class HighWaterFile:
    """One such file, which the processes of a device share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self, lineage: bytes) -> HighWaterMark | None:
        """Return what the file says of a database; None where it says nothing that can be believed."""
        try:
            descriptor = self._open()
            content = os.pread(descriptor, (1 + HIGH_WATER_RECIPIENTS) * _RECORD_BYTES, 0)
        except OSError:
            return None
        state = _state(content[:_RECORD_BYTES], lineage)
        if state is None:
            return None
        queues = {}
        for number in range(1, len(content) // _RECORD_BYTES):
            record = content[number * _RECORD_BYTES : (number + 1) * _RECORD_BYTES]
            queue = _queue(number, record, lineage)
            if queue is not None and queue.next_place <= state.next_seq:  # each place has taken a sequence
                queues[number] = queue
        return HighWaterMark(state.commits, state.next_seq, state.next_batch, queues)

    def write(self, lineage: bytes, mark: HighWaterMark) -> bool:
        """Raise what the file says; False where another process writes just now, or the disk refuses."""
        try:
            descriptor = self._open()
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        try:
            self._raise(descriptor, lineage, mark)
        except OSError:
            return False
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        return True

    def clear(self) -> None:
        """Have it say nothing: what it says cannot be."""
        with suppress(OSError):
            os.ftruncate(self._open(), 0)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        """Return the open file, made if it is not there. Raises OSError."""
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        return self._descriptor

    def _raise(self, descriptor: int, lineage: bytes, mark: HighWaterMark) -> None:
        before = _state(os.pread(descriptor, _RECORD_BYTES, 0), lineage)
        if before is None:
            os.ftruncate(descriptor, 0)
        if before is None or before.commits < mark.commits:
            content = _STATE.pack(mark.commits, mark.next_seq, mark.next_batch)
            os.pwrite(descriptor, content + _checksum(0, content, lineage), 0)
        for number, queue in mark.queues.items():
            if number > HIGH_WATER_RECIPIENTS:
                continue
            at = number * _RECORD_BYTES
            known = _queue(number, os.pread(descriptor, _RECORD_BYTES, at), lineage)
            if known is None or known.recipient != queue.recipient or known.next_place < queue.next_place:
                content = _QUEUE.pack(queue.recipient, queue.incarnation, queue.base, queue.next_place)
                os.pwrite(descriptor, content + _checksum(number, content, lineage), at)


def _state(record: bytes, lineage: bytes) -> HighWaterMark | None:
    if not _is_sound(0, record, lineage):
        return None
    commits, next_seq, next_batch = _STATE.unpack_from(record)
    if max(commits, next_seq, next_batch) > MAXIMUM_SEQUENCE:
        return None
    return HighWaterMark(commits, next_seq, next_batch, {})


def _queue(number: int, record: bytes, lineage: bytes) -> QueueEnd | None:
    if not _is_sound(number, record, lineage):
        return None
    recipient, incarnation, base, next_place = _QUEUE.unpack_from(record)
    if not base < next_place <= LAST_PLACE:
        return None
    return QueueEnd(DeviceKey(recipient), Incarnation(incarnation), base, next_place)


def _is_sound(number: int, record: bytes, lineage: bytes) -> bool:
    content, checksum = record[:-_CHECKSUM_BYTES], record[-_CHECKSUM_BYTES:]
    return len(record) == _RECORD_BYTES and checksum == _checksum(number, content, lineage)


def _checksum(number: int, content: bytes, lineage: bytes) -> bytes:
    return hashlib.blake2b(number.to_bytes(8) + content, digest_size=_CHECKSUM_BYTES, key=lineage).digest()
