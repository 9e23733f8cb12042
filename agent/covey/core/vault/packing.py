"""The packed content of merged and thinned segments (docs/protocol/vault.md, "Packed segments"). Pure.

1. Messages are stored separately from their times and lengths, and grouped by author: what they have in common is then
   within the 32 KiB that deflate looks back, however many devices a node lands.
2. Each records its place. A reader recovers every record, in its part, at its place, with its exact bytes.
3. Nothing is inflated beyond the maximum of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from covey.core.ids import KEY_BYTES
from covey.core.vault.entries import SegmentPart, SegmentRecord
from covey.core.wire import cbor, columns
from covey.core.wire.columns import Column, column_reader
from covey.core.wire.deflate import deflate, inflate
from covey.core.wire.message import read_message
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from covey.limits.vault import (
    MAXIMUM_SEGMENT_BYTES,
    MAXIMUM_SEGMENT_PARTS,
    MAXIMUM_SEGMENT_RECORDS,
    MAXIMUM_VAULT_ITEMS,
)

_NOBODY = bytes(KEY_BYTES)


def pack(parts: Sequence[SegmentPart], *others: object) -> tuple[int, bytes]:
    """Return the fields `inflated` and `packed` of what these parts hold, and of the fields that stand before them."""
    records = [record for part in parts for record in part.records]
    messages = [record.message for record in records]
    authors = [_author(message) for message in messages]
    order = sorted(range(len(records)), key=authors.__getitem__)
    content = cbor.encode(
        [
            *others,
            [[part.number, part.created_at_us, len(part.records)] for part in parts],
            columns.written([record.received_at_us for record in records]),
            columns.written(order),
            columns.written([len(messages[place]) for place in order]),
            b"".join([messages[place] for place in order]),
        ]
    )
    return len(content), deflate(content)


def unpack(inflated: int, packed: bytes, *others: cbor.Read[Any]) -> tuple[list[Any], tuple[SegmentPart, ...]]:
    """Return the fields that stand before the parts, and the parts.

    Raises:
        LimitError: beyond a bound; nothing was inflated beyond it.
        MalformedError: not a packed segment, or its parts disagree.
    """
    content = inflate(packed, inflated, "packed segment")
    *found, parts, received, places, lengths, joined = cbor.record(
        cbor.decode(content, MAXIMUM_SEGMENT_BYTES, MAXIMUM_VAULT_ITEMS), "packed segment", *others, *_READERS
    )
    counts = [count for _, _, count in parts]
    messages = _in_places(places.values(), _cut(lengths, joined))
    if not len(messages) == len(received) == sum(counts):
        raise MalformedError("packed segment: columns of the wrong length")
    times = received.values()
    if min(times, default=0) < 0:
        raise MalformedError("packed segment: negative time")
    landed = list(zip(times, messages, strict=True))
    return found, tuple(
        [
            SegmentPart(
                number,
                created_at_us,
                tuple([SegmentRecord(*each, number, index) for index, each in enumerate(landed[first:last])]),
            )
            for (number, created_at_us, _), (first, last) in zip(
                parts, pairwise(accumulate(counts, initial=0)), strict=True
            )
        ]
    )


def _author(raw: bytes) -> bytes:
    try:
        return read_message(raw, verify=False).author
    except RemoteError:
        return _NOBODY


def _cut(lengths: Column, joined: bytes) -> list[bytes]:
    sizes = lengths.values()
    if max(sizes, default=0) > MAXIMUM_MESSAGE_BYTES:
        raise LimitError(f"packed segment: message longer than {MAXIMUM_MESSAGE_BYTES} bytes")
    if min(sizes, default=0) < 0 or sum(sizes) != len(joined):
        raise MalformedError("packed segment: messages have other lengths")
    return [joined[first:last] for first, last in pairwise(accumulate(sizes, initial=0))]


def _in_places(places: list[int], messages: list[bytes]) -> list[bytes]:
    if sorted(places) != list(range(len(messages))):
        raise MalformedError("packed segment: positions are missing or duplicated")
    landed = [b""] * len(messages)
    for place, message in zip(places, messages, strict=True):
        landed[place] = message
    return landed


def _read_part(value: object) -> list[int]:
    return cbor.record(value, "part", cbor.uint(), cbor.uint(), cbor.uint(MAXIMUM_SEGMENT_RECORDS))


_COLUMN = column_reader(MAXIMUM_SEGMENT_RECORDS)
_READERS = (
    cbor.many(_read_part, MAXIMUM_SEGMENT_PARTS),
    *(_COLUMN, _COLUMN, _COLUMN),
    cbor.octets_to(MAXIMUM_SEGMENT_BYTES),
)
