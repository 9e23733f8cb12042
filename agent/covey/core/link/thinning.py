"""Thinning: a full outbox replaces old batches by summaries before it drops any (ADR 116).

Rules:

    1. Batches are thinned before summaries, narrow summaries before wide ones, and of each the oldest first. What a
       chunk becomes has the narrowest of `WINDOWS_US` that is wider than what it was and saves an eighth of its bytes.
    2. A chunk is a run of messages of one queue, group, boot and kind of clock, which ends where the next one would
       exceed `SUMMARY_WINDOWS`, or `chunk_bytes`. Chunks that end so come first: a summary of two batches saves
       little, and is thinned again soon.
    3. What a send window holds is left alone, since its recipient may have it. Where nothing else is left, it is
       thinned, too. The tables then count a reading once, even if both arrive (docs/protocol/vault.md, section 33).
    4. What has another incarnation than the present one is not thinned: its numbers could not be told as lost later.
    5. Whole messages are never thinned (`Batches.whole`), nor what was sealed by another device, nor batches
       of texts and data alone: these are dropped, and reported as lost.
    6. A summary waits as long as the youngest of what it replaces would have waited.

The caller removes what a chunk replaces and queues the summary in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from covey.core.ids import BatchNumber, DeviceKey, GroupId, Incarnation
from covey.core.link.queued import Batches, Thinnable
from covey.core.telemetry.batch import Batch, Kind
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.telemetry.summaries import Summariser, Summary, numbers_of, read_summary, summary_body
from covey.core.wire.message import BATCHES, Message, MessageType, read_message
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import RemoteError
from covey.limits.link import MAXIMUM_LOSS_RANGES
from covey.limits.message import MESSAGE_OVERHEAD_BYTES
from covey.limits.telemetry import SUMMARY_WINDOWS, WINDOWS_US

_SAVED_PART = 8
"""A summary that does not save this part of what it replaces is not worth its precision."""

Rows = Callable[[DeviceKey, int], Iterator[Thinnable]]
"""Yields the messages of a queue that may be thinned: batches (0), or summaries of one width."""


class ChunkRank(IntEnum):
    """Which chunks are taken, the best ones first."""

    COMPLETE = 0
    SHORT = 1
    IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Thinned:
    """A chunk, and the summary that takes its place."""

    group_id: GroupId
    places: tuple[Range, ...]
    body: bytes
    batches: Batches
    lifetime_us: int | None
    messages: int
    """How many batches were replaced; 0 where they were thinned before."""
    readings: int


def batches_of(message: Message) -> Batches:
    """Return which batches a message of this device brings, and how it may be thinned."""
    inner = read_message(message.body, verify=False) if message.type is MessageType.REDIRECTED else message
    if inner.type not in BATCHES:
        return Batches()
    numbers = numbers_of(inner)
    if inner.type is MessageType.TELEMETRY:
        return Batches(BatchNumber(numbers[0][0]), (), 0)
    return Batches(BatchNumber(numbers[0][0]), numbers, read_summary(inner.body)[1].window_us)


def thin(
    rows: Rows,
    recipients: Iterable[DeviceKey],
    incarnation: Incarnation,
    in_flight: Callable[[DeviceKey], SequenceSet],
    chunk_bytes: int,
    in_one: Callable[[str], bool] = lambda _: False,
) -> tuple[DeviceKey, Thinned] | None:
    """Return the best chunk of some queues (rules 1 and 2), or None where nothing is left to thin.

    `in_flight` gives the places of a queue that are being sent. `in_one`: see `Summariser`.
    """
    asked = [*recipients]
    for rank in ChunkRank:
        for window_us in (0, *WINDOWS_US[:-1]):
            for recipient in asked:
                sent = SequenceSet() if rank is ChunkRank.IN_FLIGHT else in_flight(recipient)
                for chunk in _chunks(rows(recipient, window_us), incarnation, sent, chunk_bytes):
                    if rank is ChunkRank.COMPLETE and not chunk.is_complete:
                        continue
                    thinned = _thinned(chunk, window_us, in_one)
                    if thinned is not None:
                        return recipient, thinned
    return None


@dataclass(slots=True)
class _Read:
    row: Thinnable
    group_id: GroupId
    numbers: tuple[Range, ...]
    content: Batch | Summary


class _Chunk:
    """Messages that one summary could replace."""

    def __init__(self) -> None:
        self.messages: list[_Read] = []
        self.is_complete = False
        self.bytes = 0
        self._numbers = SequenceSet()
        self._slots: set[tuple[str, str, int]] = set()

    def takes(self, read: _Read) -> bool:
        """Say whether a message is of the same group and clock."""
        if not self.messages:
            return True
        first, clock = self.messages[0], read.content.clock
        mine = first.content.clock
        return (first.group_id, mine.boot_id, mine.kind) == (read.group_id, clock.boot_id, clock.kind)

    def add(self, read: _Read, chunk_bytes: int) -> None:
        """Add a message; what it makes of the chunk may be complete."""
        self.messages.append(read)
        self.bytes += len(read.row.message)
        self._numbers = self._numbers.including(read.numbers)
        self._slots |= _slots(read.content)
        ranges = len(self._numbers.spans())
        self.is_complete = (
            self.bytes >= chunk_bytes or len(self._slots) >= SUMMARY_WINDOWS or ranges >= MAXIMUM_LOSS_RANGES // 2
        )

    @property
    def numbers(self) -> tuple[Range, ...]:
        """The numbers of all batches."""
        return tuple(self._numbers.spans())


def _slots(content: Batch | Summary) -> set[tuple[str, str, int]]:
    """Return the windows that readings will have at the narrowest next width, roughly."""
    if isinstance(content, Summary):
        return {(each.name, each.unit, window.first_us) for each in content.series for window in each.windows}
    times = content.taken_us()
    found, at = set[tuple[str, str, int]](), 0
    for each in content.series:
        found |= {(each.name, each.unit, time // WINDOWS_US[0]) for time in times[at : at + each.count]}
        at += each.count
    return found


def _chunks(
    rows: Iterator[Thinnable], incarnation: Incarnation, sent: SequenceSet, chunk_bytes: int
) -> Iterator[_Chunk]:
    known, chunk = KnownLayouts(), _Chunk()
    for row in rows:
        read = None if row.place in sent else _read(row, incarnation, known)
        if read is None:
            continue
        if not chunk.takes(read):
            yield chunk
            chunk = _Chunk()
        chunk.add(read, chunk_bytes)
        if chunk.is_complete:
            yield chunk
            chunk = _Chunk()
    if chunk.messages:
        yield chunk


def _read(row: Thinnable, incarnation: Incarnation, known: KnownLayouts) -> _Read | None:
    """Return what a message says; None where it cannot be thinned (rule 4)."""
    try:
        message = read_message(row.message, verify=False)
        if message.type is MessageType.REDIRECTED:
            message = read_message(message.body, verify=False)
        if message.incarnation != incarnation:
            return None
        if message.type is MessageType.SUMMARY:
            return _Read(row, message.group_id, *read_summary(message.body))
        number, batch = read_telemetry(message.body, known)
    except RemoteError:  # an application may hand over what nobody can read; it is dropped when its turn comes
        return None
    if not any(series.kind <= Kind.FLOAT for series in batch.series):
        return None
    return _Read(row, message.group_id, ((number, number),), batch)


def _thinned(chunk: _Chunk, window_us: int, in_one: Callable[[str], bool]) -> Thinned | None:
    """Return what takes a chunk's place; None where that saves too little (rule 1)."""
    for wider_us in WINDOWS_US:
        if wider_us <= window_us:
            continue
        summariser = Summariser(wider_us, in_one)
        try:
            for read in chunk.messages:
                if isinstance(read.content, Summary):
                    summariser.add_summary(read.content)
                else:
                    summariser.add_batch(read.content)
        except RemoteError:
            return None
        if not summariser.within:
            continue
        body = summary_body(chunk.numbers, summariser.summary().to_wire())
        if len(body) + MESSAGE_OVERHEAD_BYTES > chunk.bytes - chunk.bytes // _SAVED_PART:
            continue
        places = SequenceSet().including((read.row.place, read.row.place) for read in chunk.messages)
        lifetimes = [read.row.lifetime_us for read in chunk.messages]
        waits = None if None in lifetimes else max(each or 0 for each in lifetimes)
        batches = Batches(BatchNumber(chunk.numbers[0][0]), chunk.numbers, wider_us)
        count = 0 if window_us else len(chunk.messages)
        readings = 0 if window_us else summariser.readings
        group_id = chunk.messages[0].group_id
        return Thinned(group_id, tuple(places.spans()), body, batches, waits, count, readings)
    return None
