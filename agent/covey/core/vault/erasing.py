"""Erase records from segments (docs/protocol/vault.md, "Erasing"). Pure: `app/telemetry/erasing.py` reads and writes.

1. Of one device everything is erased that it signed and a collector received before some moment: telemetry, losses,
   results, reports.
2. Of all devices, measurements before some moment are erased: telemetry, losses, and records that no reader
   understands. Orders, their results, and group membership stay.
3. Operations and manifests belong to a group, and are never erased.
4. Remaining records keep their position. The erased numbers are listed, so that no reader reports them as lost:
   those of telemetry, and those that an erased loss record has accounted for.
5. For all devices, whole segments are considered, oldest first, up to the first younger one: a segment is erased if
   everything in it is old. What remains of many is packed into few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from covey.core.ids import DeviceKey, Incarnation
from covey.core.telemetry.summaries import numbers_of
from covey.core.vault.entries import Erasure, SegmentEntry, SegmentPart, SegmentRecord
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.segments import ErasedNumbers, OpenedSegment
from covey.core.wire.message import BATCHES, Loss, Message, MessageType, read_message
from covey.errors import RemoteError
from covey.limits.vault import (
    MAXIMUM_ERASED_RANGES,
    MAXIMUM_SEGMENT_PARTS,
    MAXIMUM_SEGMENT_RECORDS,
    SEGMENT_BYTES,
)

_STAYING = (MessageType.ORDER_RESULT, MessageType.SETTING_REPORT)
_RANGE_BYTES = 24
_AUTHOR_BYTES = 48

Link = tuple[DeviceKey, Incarnation]
Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ErasureDue:
    """What goes: of an author what came until a moment, of all (None) what is measured and came before it."""

    author: DeviceKey | None
    until_us: int

    def takes(self, record: SegmentRecord) -> bool:
        """Say whether a record goes (rules 1 to 3)."""
        if record_kind(record.message) is not RecordKind.MESSAGE:
            return False
        try:
            message = read_message(record.message, verify=False)
        except RemoteError:
            return self.author is None and record.received_at_us < self.until_us
        if self.author is None:
            return record.received_at_us < self.until_us and message.type not in _STAYING
        return message.author == self.author and record.received_at_us <= self.until_us

    def reaches(self, entries: Sequence[SegmentEntry]) -> Sequence[SegmentEntry]:
        """Return the segments that are looked at (rule 5)."""
        if self.author is not None:
            return entries
        count = next(
            (place for place, entry in enumerate(entries) if entry.created_at_us >= self.until_us), len(entries)
        )
        return entries[:count]


def thin(opened: OpenedSegment, due: ErasureDue, now_us: int) -> tuple[OpenedSegment, int]:
    """Return what is left of a segment, and how many messages went."""
    numbers: dict[Link, Spans] = defaultdict(list)
    parts, gone = [], 0
    for part in opened.parts:
        left = []
        for record in part.records:
            if due.takes(record):
                gone += 1
                _note_numbers(record.message, numbers)
            else:
                left.append(record)
        if left:
            parts.append(SegmentPart(part.number, part.created_at_us, tuple(left)))
    erased = _joined((*opened.erased, *_named(numbers)))
    return OpenedSegment(tuple(parts), now_us if gone else opened.erased_at_us, erased), gone


def together(opened: Iterable[OpenedSegment]) -> OpenedSegment:
    """Return what is left of neighbouring segments as one."""
    found = [*opened]
    parts = tuple([part for each in found for part in each.parts if part.records])
    return OpenedSegment(
        parts,
        max(each.erased_at_us for each in found),
        _joined([erased for each in found for erased in each.erased]),
    )


def fits(opened: Iterable[OpenedSegment]) -> bool:
    """Say whether what is left of some segments may stand in one."""
    found = [*opened]
    records = [record for each in found for part in each.parts for record in part.records]
    ranges = sum(len(erased.numbers) for each in found for erased in each.erased)
    size = sum(len(record.message) for record in records) + _RANGE_BYTES * ranges
    size += _AUTHOR_BYTES * sum(len(each.erased) for each in found)
    return (
        len(records) <= MAXIMUM_SEGMENT_RECORDS
        and sum(len(each.parts) for each in found) <= MAXIMUM_SEGMENT_PARTS
        and ranges <= MAXIMUM_ERASED_RANGES
        and size <= SEGMENT_BYTES
    )


def with_erasure(erasures: Iterable[Erasure], new: Erasure) -> tuple[Erasure, ...]:
    """Return what a manifest says, with one erasure more: in the place of the one before of the same author.

    It reaches no less far than that one, whatever clock or term it has. What one of all takes in of an author's,
    position by position, is not said twice.
    """
    known = {each.author: each for each in erasures}
    before = known.pop(new.author, new)
    new = replace(new, until_us=max(new.until_us, before.until_us), last=max(new.last, before.last))
    others = [
        each
        for each in known.values()
        if new.author is not None or not (new.completed_at_us and each.completed_at_us and each.last <= new.last)
    ]
    return tuple(sorted((*others, new), key=lambda each: each.author or b""))


def _note_numbers(raw: bytes, numbers: dict[Link, Spans]) -> None:
    """Note which numbers a message accounts for (rule 4); one that nobody can read accounts for none."""
    try:
        message = read_message(raw, verify=False)
        if message.type in BATCHES:
            numbers[message.author, message.incarnation] += numbers_of(message)
        elif message.type is MessageType.LOSS:
            _note_loss(message, numbers)
    except RemoteError:
        return


def _note_loss(message: Message, numbers: dict[Link, Spans]) -> None:
    loss = Loss.from_wire(message.body)
    numbers[message.author, loss.incarnation or message.incarnation] += loss.numbers


def _named(numbers: dict[Link, Spans]) -> list[ErasedNumbers]:
    return [ErasedNumbers(*link, tuple(spans)) for link, spans in numbers.items() if spans]


def _joined(erased: Iterable[ErasedNumbers]) -> tuple[ErasedNumbers, ...]:
    """Return each link's numbers once, as ranges that do not touch."""
    spans: dict[Link, Spans] = defaultdict(list)
    for each in erased:
        spans[each.author, each.incarnation] += each.numbers
    return tuple([ErasedNumbers(*link, _apart(spans[link])) for link in sorted(spans)])


def _apart(spans: Spans) -> tuple[tuple[int, int], ...]:
    found: Spans = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)
