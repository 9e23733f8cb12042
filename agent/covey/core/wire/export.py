"""Files that carry envelopes where no network does: on a stick, between devices that never meet
(docs/protocol/groups.md, section 20).

A file is a CBOR sequence of byte strings, each one deterministic item: a header, entries, their number. So a reader
processes one item at a time, and finds the next entry after a damaged one. Nothing of it is secret or trusted: the
envelopes inside are processed as if a relay had delivered them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import MalformedError, RemoteError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES

_MAGIC = "covey/1 export"
_ITEM_BYTES = MAXIMUM_ENVELOPE_BYTES + 64
_BYTES_HEADS = {0x58: 1, 0x59: 2, 0x5A: 4}
_ENTRY_HEAD = b"\x82\x58\x20"
"""How every entry begins: an array of two, a key first."""


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """One envelope, and the signing key of the device that it is for."""

    to: DeviceKey
    envelope: bytes = field(repr=False)


@dataclass(slots=True)
class ExportFile:
    """A file as far as it can be read."""

    author: DeviceKey
    written_at_us: int
    entries: list[ExportEntry]
    damaged: int
    """Places at which nothing, or not the next thing, could be read."""


def write_export(author: DeviceKey, written_at_us: int, entries: Iterable[ExportEntry]) -> bytes:
    """Return a file."""
    items = [cbor.encode([entry.to, entry.envelope]) for entry in entries]
    whole = [cbor.encode([_MAGIC, author, written_at_us]), *items, cbor.encode(len(items))]
    return b"".join(cbor.encode(item) for item in whole)


def read_export(raw: bytes) -> ExportFile:
    """Read a file; what is damaged is counted and passed over.

    Raises:
        MalformedError: not such a file, or its beginning is damaged.
    """
    position, header = _item(raw, 0)
    magic, author, written_at_us = cbor.record(
        cbor.decode(header, 256), "export", cbor.text(64), cbor.octets(KEY_BYTES), cbor.uint()
    )
    if magic != _MAGIC:
        raise MalformedError("not a Covey export")
    found = ExportFile(author, written_at_us, [], 0)
    ended = False
    for item in _items(raw, position):
        entry = _entry(item)
        ended = entry is None and item == cbor.encode(len(found.entries) + found.damaged)
        if entry is not None:
            found.entries.append(entry)
        elif not ended:
            found.damaged += 1
    if not ended and not found.damaged:
        found.damaged = 1  # it was cut off between two entries
    return found


def _items(raw: bytes, position: int) -> Iterator[bytes]:
    """Yield items; after anything else, continue at the next possible entry."""
    while position < len(raw):
        try:
            position, item = _item(raw, position)
            yield item
        except MalformedError:
            yield b""
            position = _next_entry(raw, position + 1)


def _item(raw: bytes, position: int) -> tuple[int, bytes]:
    head = raw[position] if position < len(raw) else 0
    if 0x40 <= head < 0x58:
        start, length = position + 1, head - 0x40
    elif head in _BYTES_HEADS:
        start = position + 1 + _BYTES_HEADS[head]
        length = int.from_bytes(raw[position + 1 : start])
    else:
        raise MalformedError("not a byte string")
    if length > _ITEM_BYTES or start + length > len(raw):
        raise MalformedError("longer than the rest of the file")
    return start + length, raw[start : start + length]


def _next_entry(raw: bytes, position: int) -> int:
    while (begin := raw.find(_ENTRY_HEAD, position)) >= 0:
        for head, width in _BYTES_HEADS.items():
            start = begin - 1 - width
            if start >= position and raw[start] == head:
                return start
        position = begin + 1
    return len(raw)


def _entry(item: bytes) -> ExportEntry | None:
    try:
        to, envelope = cbor.record(
            cbor.decode(item, _ITEM_BYTES), "entry", cbor.octets(KEY_BYTES), cbor.octets_to(MAXIMUM_ENVELOPE_BYTES)
        )
    except RemoteError:
        return None
    return ExportEntry(to, envelope)
