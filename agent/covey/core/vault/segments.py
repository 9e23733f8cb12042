"""Segments of a vault: landed messages verbatim (docs/protocol/vault.md, "Vault"). Pure.

1. A plain segment holds what was landed at one position.
2. A merged one covers contiguous positions, and keeps each message at its own.
3. A thinned one covers contiguous positions, too, and some of its records were erased: positions without a remaining
   record have no part. It lists the erased numbers of each device's telemetry, so that no reader reports them as lost.
4. Merged and thinned segments are named by their content and sealed under a nonce derived from it: a repeated run
   overwrites its interrupted predecessor.
5. They are packed (`packing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from covey.core import crypto
from covey.core.ids import INCARNATION_BYTES, KEY_BYTES, DeviceKey, Incarnation, NodeId, VaultId, node_id
from covey.core.vault import packing
from covey.core.vault.entries import MERGED, THINNED, SegmentEntry, SegmentPart, SegmentRecord
from covey.core.vault.keys import VaultKey
from covey.core.vault.sealing import content_nonce, open_object, seal_object
from covey.core.wire import cbor, shapes
from covey.errors import DecryptionError, LimitError, MalformedError
from covey.limits.message import MAXIMUM_CBOR_ITEMS, MAXIMUM_MESSAGE_BYTES
from covey.limits.vault import (
    MAXIMUM_ERASED_RANGES,
    MAXIMUM_SEGMENT_BYTES,
    MAXIMUM_SEGMENT_PARTS,
    MAXIMUM_SEGMENT_RECORDS,
)

SEGMENT_MAGIC = b"HXSEG\x01"
_PLAIN, _PACKED = 1, 2
_MOST_RANGES = MAXIMUM_ERASED_RANGES
_RECORD_BYTES, _PART_BYTES, _AUTHOR_BYTES, _RANGE_BYTES = 24, 28, 48, 24
_ROOM_BYTES = 16_384
"""What sealing adds, and deflate to what it cannot make smaller."""


@dataclass(frozen=True, slots=True)
class ErasedNumbers:
    """Numbers of telemetry that an author gave in an incarnation, and that were erased: ranges, ascending, apart."""

    author: DeviceKey
    incarnation: Incarnation
    numbers: tuple[tuple[int, int], ...]

    def to_wire(self) -> list[object]:
        """Return the array."""
        return [self.author, self.incarnation, [list(span) for span in self.numbers]]

    @classmethod
    def from_wire(cls, value: object) -> ErasedNumbers:
        """Parse it.

        Raises:
            RemoteError: malformed.
        """
        spans = cbor.many(_read_span, _MOST_RANGES)
        found = cls(*cbor.record(value, "erased", cbor.octets(KEY_BYTES), cbor.octets(INCARNATION_BYTES), spans))
        edges = [-1, *(edge for first, last in found.numbers for edge in (first - 1, last))]
        if not found.numbers or not all(before < after for before, after in pairwise(edges)):
            raise MalformedError("erased: ranges must ascend and not touch")
        return found


@dataclass(frozen=True, slots=True)
class OpenedSegment:
    """What a segment holds, and, of a thinned one, when something was last erased from it, and which numbers."""

    parts: tuple[SegmentPart, ...]
    erased_at_us: int = 0
    erased: tuple[ErasedNumbers, ...] = ()


def _read_span(value: object) -> tuple[int, int]:
    first, last = cbor.record(value, "range", cbor.uint(), cbor.uint())
    return first, last


def _segment_binding(vault_id: VaultId, node: NodeId, number: int, incarnation: Incarnation) -> bytes:
    return cbor.encode(["covey/1 segment", vault_id, node, number, incarnation])


def _spanning_binding(kind: str, vault_id: VaultId, node: NodeId, first: int, last: int) -> bytes:
    return cbor.encode([f"covey/1 {kind} segment", vault_id, node, first, last])


def _binding(vault_id: VaultId, node: NodeId, entry: SegmentEntry) -> bytes:
    if entry.is_thinned:
        return _spanning_binding("thinned", vault_id, node, entry.first, entry.number)
    if entry.covers == 1:
        return _segment_binding(vault_id, node, entry.number, entry.incarnation)
    return _spanning_binding("merged", vault_id, node, entry.first, entry.number)


def seal_segment(
    key: VaultKey,
    signing_public: DeviceKey,
    number: int,
    incarnation: Incarnation,
    created_at_us: int,
    records: list[SegmentRecord],
    nonce: bytes,
) -> tuple[SegmentEntry, bytes]:
    """Return a segment's entry and content. The same arguments give the same bytes, so a crash can repeat it."""
    node = node_id(signing_public)
    plaintext = cbor.encode([_PLAIN, created_at_us, [[each.received_at_us, each.message] for each in records]])
    content = seal_object(
        SEGMENT_MAGIC, key, _segment_binding(key.vault_id, node, number, incarnation), nonce, plaintext
    )
    entry = SegmentEntry(
        number,
        incarnation,
        crypto.digest(b"covey/1 segment", content),
        len(content),
        created_at_us,
        len(records),
    )
    return entry, content


def entry_of(
    key: VaultKey, signing_public: DeviceKey, number: int, incarnation: Incarnation, content: bytes
) -> SegmentEntry:
    """Return the entry of a segment as `seal_segment` made it, from its content.

    Raises:
        RemoteError: it is not that segment, or not whole.
    """
    binding = _segment_binding(key.vault_id, node_id(signing_public), number, incarnation)
    plaintext = open_object(SEGMENT_MAGIC, key, binding, content, MAXIMUM_SEGMENT_BYTES)
    value = cbor.decode_growing(plaintext, MAXIMUM_SEGMENT_BYTES, MAXIMUM_CBOR_ITEMS)
    entry = SegmentEntry(number, incarnation, crypto.digest(b"covey/1 segment", content), len(content), 0, 0)
    (part,) = _read_plain(entry, value)
    return replace(entry, created_at_us=part.created_at_us, records=len(part.records))


def merged_entry_of(key: VaultKey, signing_public: DeviceKey, span: tuple[int, int], content: bytes) -> SegmentEntry:
    """Return the entry of a segment as `seal_merged` made it, from its content.

    Raises:
        RemoteError: it is not that segment, or not whole; or it is a hole or a thinned one, which do not say all.
    """
    first, last = span
    hashed = crypto.digest(b"covey/1 segment", content)
    entry = SegmentEntry(last, MERGED, hashed, len(content), 0, 0, last - first + 1)
    if not 1 < entry.covers <= MAXIMUM_SEGMENT_PARTS:
        raise MalformedError("merged segment: it covers impossible positions")
    binding = _binding(key.vault_id, node_id(signing_public), entry)
    plaintext = open_object(SEGMENT_MAGIC, key, binding, content, MAXIMUM_SEGMENT_BYTES)
    parts = _read_merged(entry, cbor.decode_growing(plaintext, MAXIMUM_SEGMENT_BYTES, MAXIMUM_CBOR_ITEMS))
    created_at_us, records = max(part.created_at_us for part in parts), sum(len(part.records) for part in parts)
    return replace(entry, created_at_us=created_at_us, records=records)


def seal_merged(key: VaultKey, signing_public: DeviceKey, parts: Sequence[SegmentPart]) -> tuple[SegmentEntry, bytes]:
    """Return a merged segment's entry and content: it covers all positions of these parts, without a gap."""
    first, last = parts[0].number, parts[-1].number
    plaintext = cbor.encode([_PACKED, *packing.pack(parts, 0, [])])
    created_at_us = max(part.created_at_us for part in parts)
    return _seal_spanning(key, signing_public, "merged", (first, last), created_at_us, parts, plaintext)


def seal_hole(
    key: VaultKey, signing_public: DeviceKey, span: tuple[int, int], created_at_us: int
) -> tuple[SegmentEntry, bytes]:
    """Return the entry and content of a hole, which covers more positions than a merged segment can."""
    plaintext = cbor.encode([_PACKED, *packing.pack((), 0, [])])
    return _seal_spanning(key, signing_public, "merged", span, created_at_us, (), plaintext)


def seal_thinned(
    key: VaultKey, signing_public: DeviceKey, span: tuple[int, int], created_at_us: int, thinned: OpenedSegment
) -> tuple[SegmentEntry, bytes]:
    """Return a thinned segment's entry and content: what was left of these positions, and the numbers that were not."""
    erased = [each.to_wire() for each in thinned.erased]
    plaintext = cbor.encode([_PACKED, *packing.pack(thinned.parts, thinned.erased_at_us, erased)])
    return _seal_spanning(key, signing_public, "thinned", span, created_at_us, thinned.parts, plaintext)


def _seal_spanning(
    key: VaultKey,
    signing_public: DeviceKey,
    kind: str,
    span: tuple[int, int],
    created_at_us: int,
    parts: Sequence[SegmentPart],
    plaintext: bytes,
) -> tuple[SegmentEntry, bytes]:
    first, last = span
    binding = _spanning_binding(kind, key.vault_id, node_id(signing_public), first, last)
    content = seal_object(SEGMENT_MAGIC, key, binding, content_nonce(key, binding, plaintext), plaintext)
    entry = SegmentEntry(
        last,
        THINNED if kind == "thinned" else MERGED,
        crypto.digest(b"covey/1 segment", content),
        len(content),
        created_at_us,
        sum(len(part.records) for part in parts),
        last - first + 1,
    )
    return entry, content


def is_segment(entry: SegmentEntry, content: bytes) -> bool:
    """Say whether these are the sealed bytes that a manifest lists; no key is needed."""
    return len(content) == entry.size and crypto.same(crypto.digest(b"covey/1 segment", content), entry.hash)


def open_segment(key: VaultKey, node: NodeId, entry: SegmentEntry, content: bytes) -> tuple[SegmentRecord, ...]:
    """Open a segment that a manifest lists.

    Raises:
        RemoteError: another segment's bytes, tampered with, or malformed.
    """
    return tuple([record for part in open_parts(key, node, entry, content) for record in part.records])


def open_parts(key: VaultKey, node: NodeId, entry: SegmentEntry, content: bytes) -> tuple[SegmentPart, ...]:
    """Open a segment that a manifest lists; a merged one has several parts.

    Raises:
        RemoteError: another segment's bytes, tampered with, or malformed.
    """
    return open_whole(key, node, entry, content).parts


def open_whole(key: VaultKey, node: NodeId, entry: SegmentEntry, content: bytes) -> OpenedSegment:
    """Open a segment that a manifest lists, with what it says of what was erased from it.

    Raises:
        RemoteError: another segment's bytes, tampered with, or malformed.
    """
    if not is_segment(entry, content):
        raise DecryptionError("the segment does not match the manifest")
    plaintext = open_object(SEGMENT_MAGIC, key, _binding(key.vault_id, node, entry), content, MAXIMUM_SEGMENT_BYTES)
    opened = _read_quickly(entry, plaintext) or _read_strictly(entry, plaintext)
    if sum(len(part.records) for part in opened.parts) != entry.records:
        raise MalformedError("segment: the number of records is wrong")
    return opened


def fitting(opened: Sequence[OpenedSegment]) -> int:
    """Return how many of these segments, from the first on, may stand in one however well they are packed."""
    sizes = accumulate(
        sum(len(record.message) + _RECORD_BYTES for part in each.parts for record in part.records)
        + _PART_BYTES * len(each.parts)
        + sum(_AUTHOR_BYTES + _RANGE_BYTES * len(erased.numbers) for erased in each.erased)
        for each in opened
    )
    return sum(size <= MAXIMUM_SEGMENT_BYTES - _ROOM_BYTES for size in sizes)


def _read_quickly(entry: SegmentEntry, plaintext: bytes) -> OpenedSegment | None:
    """Return what `_read_strictly` does of a plain segment, or None where it has to judge."""
    found = _PLAIN_HEAD.match(plaintext) if entry.covers == 1 and not entry.is_thinned else None
    if found is None or shapes.length(found[2]) > MAXIMUM_SEGMENT_RECORDS:
        return None
    match, octets_at, uint, number = _RECORD_HEAD.match, shapes.octets_at, shapes.uint, entry.number
    records, end = list[SegmentRecord](), found.end()
    for index in range(shapes.length(found[2])):
        head = match(plaintext, end)
        span = head and octets_at(plaintext, head.end())
        if not head or not span:
            return None
        begin, end = span
        if end - begin > MAXIMUM_MESSAGE_BYTES:
            return None
        records.append(SegmentRecord(uint(head[1]), plaintext[begin:end], number, index))
    if end != len(plaintext):
        return None
    return OpenedSegment((SegmentPart(number, uint(found[1]), tuple(records)),))


def _read_strictly(entry: SegmentEntry, plaintext: bytes) -> OpenedSegment:
    value = cbor.decode_growing(plaintext, MAXIMUM_SEGMENT_BYTES, MAXIMUM_CBOR_ITEMS)
    return _read_thinned(entry, value) if entry.is_thinned else OpenedSegment(_read_whole(entry, value))


def _read_whole(entry: SegmentEntry, value: object) -> tuple[SegmentPart, ...]:
    return _read_plain(entry, value) if entry.covers == 1 else _read_merged(entry, value)


def _read_plain(entry: SegmentEntry, value: object) -> tuple[SegmentPart, ...]:
    records = cbor.many(_read_record, MAXIMUM_SEGMENT_RECORDS)
    version, created_at_us, found = cbor.record(value, "segment", cbor.uint(255), cbor.uint(), records)
    if version != _PLAIN:
        raise MalformedError(f"segment version {version}: a newer Covey?")
    return (_part(entry.number, created_at_us, found),)


def _read_packed(value: object) -> OpenedSegment:
    sizes = cbor.uint(255), cbor.uint(MAXIMUM_SEGMENT_BYTES), cbor.octets_to(MAXIMUM_SEGMENT_BYTES)
    version, inflated, packed = cbor.record(value, "packed segment", *sizes)
    if version != _PACKED:
        raise MalformedError(f"packed segment version {version}: a newer Covey?")
    (erased_at_us, erased), parts = packing.unpack(inflated, packed, cbor.uint(), _ERASED)
    return OpenedSegment(parts, erased_at_us, erased)


def _read_merged(entry: SegmentEntry, value: object) -> tuple[SegmentPart, ...]:
    opened = _read_packed(value)
    if opened.erased_at_us or opened.erased:
        raise MalformedError("a merged segment must not have erasures")
    numbers = range(0) if entry.is_hole else range(entry.first, entry.number + 1)
    if [part.number for part in opened.parts] != list(numbers):
        raise MalformedError("the merged segment does not contain its positions")
    return opened.parts


def _read_thinned(entry: SegmentEntry, value: object) -> OpenedSegment:
    opened = _read_packed(value)
    numbers = [entry.first - 1, *(part.number for part in opened.parts), entry.number + 1]
    ascending = all(before < after for before, after in pairwise(numbers))
    if not ascending or not all(part.records for part in opened.parts):
        raise MalformedError("the thinned segment contains wrong or empty positions")
    erased = opened.erased
    if not all((one.author, one.incarnation) < (other.author, other.incarnation) for one, other in pairwise(erased)):
        raise MalformedError("the thinned segment's erasures are out of order")
    if sum(len(each.numbers) for each in erased) > _MOST_RANGES:
        raise LimitError(f"more than {_MOST_RANGES} erased ranges")
    return opened


def _part(number: int, created_at_us: int, records: tuple[list[Any], ...]) -> SegmentPart:
    placed = [SegmentRecord(received, message, number, index) for index, (received, message) in enumerate(records)]
    return SegmentPart(number, created_at_us, tuple(placed))


def _read_record(value: object) -> list[Any]:
    return cbor.record(value, "record", *_RECORD_READERS)


_RECORD_READERS = (cbor.uint(), cbor.octets_to(MAXIMUM_MESSAGE_BYTES))
_ERASED = cbor.many(ErasedNumbers.from_wire, _MOST_RANGES)
_PLAIN_HEAD = shapes.shape(rb"\x83\x01(%(uint)b)(%(array)b)" % {b"uint": shapes.UINT, b"array": shapes.ARRAY})
_RECORD_HEAD = shapes.shape(rb"\x82(%b)" % shapes.UINT)
