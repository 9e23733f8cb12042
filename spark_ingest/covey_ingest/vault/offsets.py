"""Offsets of the stream: for each vault node, how far its segments have been read. Pure planning over a `VaultListing`.

{"<node, hex>": [manifest_seq, last_segment_number, "<16 hex digits of the manifest's hash>", "<trouble>"],
 "again": [turn, ["<node, hex>", first, last], ...]}

A node of a further vault has its vault's id before its own (`vaults`).

1. An offset changes only when there is something to read or to report, so that an idle vault starts no micro-batch.
2. A manifest that is missing, damaged, rolled back or forked keeps the node's position. The change of `trouble`
   makes one micro-batch, in which the quarantine gets its row; the next good manifest clears it.
3. The range between two offsets names the same messages for ever: positions are never used again, and a merged segment
   keeps each message at its own. A range that was promised and cannot be looked up any more is an error, never a
   smaller range: a replay must give the same rows.
4. Segments are looked up in the newest good manifest, and a micro-batch ends where a segment ends, unless the query
   does: so a merged segment is opened once.
5. `again` names what an earlier micro-batch had to pass over and can be read now (`repairs`). Each turn is one
   micro-batch's; the list stands until the next turn replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol

from covey.core.vault.documents import SegmentEntry, VaultManifest
from covey.core.vault.reading import Floor, Trouble
from covey.errors import StorageError
from covey.limits.message import MAXIMUM_COUNTER

Offset = dict[str, list[Any]]

REREAD = "again"

SEGMENTS_PER_PARTITION = 32
"""Segments of one Spark task: enough to pay for starting it when they are small."""

BYTES_PER_PARTITION = 4 * 1024 * 1024
"""...or as many bytes: 1.6 million readings at 1,000 a message, about half a second. Smaller tasks leave processors
waiting: a task's Python and its JVM take turns until there is something for both."""

_HASH_DIGITS = 16


class VaultListing(Protocol):
    """What is asked of a vault, or of several: methods of `VaultReader`, which does not raise but where it says so."""

    def nodes(self) -> list[str]:
        """Return the names of all nodes that have a manifest; `StorageError`."""

    def manifest(self, node: str, floor: Floor) -> VaultManifest | Trouble:
        """Read a node's manifest and follow it if it is good."""

    def held(self, node: str) -> VaultManifest | None:
        """Return the last good manifest of a node."""

    def has_met(self, node: str) -> bool:
        """Say whether that one stood in the store in this process's time."""

    def entries(self, node: str, manifest: VaultManifest, first: int, last: int) -> tuple[SegmentEntry, ...] | Trouble:
        """Return the segments that hold these positions."""

    def opens(self, node: str, first: int, last: int) -> bool:
        """Say whether the segments of these positions are there and whole."""


@dataclass(frozen=True, slots=True)
class Position:
    """The stream's position in one node's segments."""

    manifest_seq: int = 0
    last_number: int = 0
    hash: str = ""
    trouble: str = ""

    @classmethod
    def of(cls, offset: Offset, node: str) -> Position:
        """Return a node's position; a node that the offset does not name is at its beginning."""
        fields = offset.get(node)
        if fields is None:
            return cls()
        manifest_seq, last_number, manifest_hash, trouble = fields
        return cls(int(manifest_seq), int(last_number), str(manifest_hash), str(trouble))

    def to_json(self) -> list[int | str]:
        """Return its form in an offset."""
        return [self.manifest_seq, self.last_number, self.hash, self.trouble]

    @property
    def floor(self) -> Floor:
        """What the next manifest of this node must not fall below."""
        return Floor(self.manifest_seq, self.last_number, self.hash)


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of one node."""

    node: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Work:
    """Work for one task: positions of one node, in contiguous segments, or the news of its trouble.

    Only `first` to `last` are wanted: a merged segment at either end may hold what is another micro-batch's. With
    `reread` they were passed over before (rule 5).
    """

    node: str
    collector: str | None
    entries: tuple[SegmentEntry, ...]
    trouble: str = ""
    first: int = 0
    last: int = 0
    reread: bool = False


class Room:
    """The bytes that a micro-batch may still take in; each of its nodes has an equal share of what is left."""

    def __init__(self, size: int | None, nodes: int) -> None:
        self._left = size
        self._nodes = nodes
        self._taken = False

    def take(self, entries: tuple[SegmentEntry, ...]) -> tuple[SegmentEntry, ...]:
        """Return the first of a node's segments: as many as its share holds, or one that fits at all."""
        if self._left is None:
            return entries
        share, ends = self._left // self._nodes, list(accumulate(entry.size for entry in entries))
        count = sum(end <= share for end in ends)
        if count == 0 and (ends[0] <= self._left or not self._taken):
            count = 1
        if count:
            self._left = max(self._left - ends[count - 1], 0)
            self._taken = True
        self._nodes -= 1
        return entries[:count]


def latest_offset(
    reader: VaultListing,
    start: Offset,
    segments: int | None,
    until: Offset | None = None,
    size: int | None = None,
    reread: Sequence[Span] = (),
) -> Offset:
    """Return the offset after at most `segments` and `size` bytes more, shared fairly, and not beyond `until`.

    A segment larger than `size` is read alone. Bytes go to the longest backlogs first, so that no node starves. What
    is to be `reread` comes on top.
    """
    positions: dict[str, Position] = {}
    manifests: dict[str, VaultManifest] = {}
    backlog: dict[str, int] = {}
    for node in sorted({*reader.nodes(), *nodes_of(start)}):
        position = Position.of(start, node)
        found = reader.manifest(node, position.floor)
        positions[node] = replace(position, trouble=found.mark if isinstance(found, Trouble) else "")
        manifest = reader.held(node) if isinstance(found, Trouble) else found
        if manifest is not None:
            last = manifest.last_number
            if until is not None:
                last = min(last, Position.of(until, node).last_number)
            manifests[node] = manifest
            backlog[node] = max(last - position.last_number, 0)
    shares = {node: count for node, count in _shares(backlog, segments).items() if count}
    room = Room(size, len(shares))
    for node in sorted(shares, key=lambda node: (-backlog[node], node)):
        most = positions[node].last_number + backlog[node]
        positions[node] = _moved(reader, node, positions[node], manifests[node], shares[node], most, room)
    end = {node: position.to_json() for node, position in positions.items() if node in start or position != Position()}
    return end | _turn(start, reread)


def nodes_of(offset: Offset) -> list[str]:
    """Return the nodes that an offset names."""
    return [name for name in offset if name != REREAD]


def _turn(start: Offset, reread: Sequence[Span]) -> Offset:
    """Return rule 5's part of the offset after `start`."""
    before = start.get(REREAD, [0])
    if reread:
        return {REREAD: [before[0] + 1, *([span.node, span.first, span.last] for span in reread)]}
    return {REREAD: before} if REREAD in start else {}


def _moved(
    reader: VaultListing, node: str, position: Position, manifest: VaultManifest, count: int, most: int, room: Room
) -> Position:
    """Promise `count` more positions, to the end of a segment (rule 4), but none above `most`, as far as there is room.

    Their entries must be known: old ones are in objects that may be damaged.
    """
    first, last = position.last_number + 1, position.last_number + count
    found = reader.entries(node, manifest, first, last)
    if isinstance(found, Trouble):
        return replace(position, trouble=found.mark)
    fitting = room.take(found)
    if not fitting:
        return position
    return replace(
        position,
        manifest_seq=manifest.manifest_seq,
        last_number=min(fitting[-1].number, most),
        hash=manifest.hash.hex()[:_HASH_DIGITS],
    )


def _shares(backlog: dict[str, int], limit: int | None) -> dict[str, int]:
    """Divide `limit` between nodes: small backlogs whole, the rest evenly, the remainder to the largest."""
    if limit is None or sum(backlog.values()) <= limit:
        return backlog
    shares = {}
    remaining = limit
    ascending = sorted(backlog, key=lambda node: (backlog[node], node))
    for index, node in enumerate(ascending):
        shares[node] = min(backlog[node], remaining // (len(ascending) - index))
        remaining -= shares[node]
    return shares


def ranges(reader: VaultListing, start: Offset, end: Offset) -> Iterator[Work]:
    """Yield the work between two offsets, in tasks of bounded size.

    Raises:
        StorageError: rule 3.
    """
    for node in sorted(nodes_of(end)):
        before, after = Position.of(start, node), Position.of(end, node)
        if after.trouble and after.trouble != before.trouble:
            yield Work(node, None, (), after.trouble)
        if after.last_number > before.last_number:
            manifest, entries = _listed(reader, node, after, before.last_number + 1, after.last_number)
            collector = manifest.signing_public.hex()
            for part in runs(entries, BYTES_PER_PARTITION, SEGMENTS_PER_PARTITION):
                yield Work(node, collector, part, "", before.last_number + 1, after.last_number)
    if end.get(REREAD) != start.get(REREAD):
        for span in end[REREAD][1:]:
            yield _reread(reader, end, Span(*span))


def _reread(reader: VaultListing, end: Offset, span: Span) -> Work:
    manifest, entries = _listed(reader, span.node, Position.of(end, span.node), span.first, span.last)
    return Work(span.node, manifest.signing_public.hex(), entries, "", span.first, span.last, reread=True)


def _listed(
    reader: VaultListing, node: str, position: Position, first: int, last: int
) -> tuple[VaultManifest, tuple[SegmentEntry, ...]]:
    """Return a planned micro-batch's segments, and a manifest that lists them.

    An erasure removes ranges with the manifest that named them: then the newest one is followed.
    """
    manifest = _promised(reader, node, position)
    entries = reader.entries(node, manifest, first, last)
    if isinstance(entries, Trouble):
        newest = reader.manifest(node, position.floor)
        if not isinstance(newest, Trouble) and newest != manifest:
            manifest, entries = newest, reader.entries(node, newest, first, last)
    if isinstance(entries, Trouble):
        raise _broken_promise(node, entries)
    return manifest, entries


def _promised(reader: VaultListing, node: str, position: Position) -> VaultManifest:
    """Return a manifest that lists a planned micro-batch, perhaps only a remembered one."""
    found = None if reader.has_met(node) else reader.manifest(node, position.floor)
    held = reader.held(node)
    if held and held.manifest_seq >= position.manifest_seq and held.last_number >= position.last_number:
        return held
    found = found or reader.manifest(node, position.floor)
    if isinstance(found, Trouble):
        raise _broken_promise(node, found)
    return found


def _broken_promise(node: str, trouble: Trouble) -> StorageError:
    return StorageError(
        f"a planned micro-batch needs the earlier manifest of node {node}, which is no longer valid ({trouble.code})",
        hint="restore the vault's newest state, then restart the ingest",
    )


def runs(
    entries: Sequence[SegmentEntry], most_bytes: int, most_segments: int = MAXIMUM_COUNTER
) -> Iterator[tuple[SegmentEntry, ...]]:
    """Cut segments into runs of at most so many, and of so many bytes unless one alone has more."""
    part: list[SegmentEntry] = []
    size = 0
    for entry in entries:
        if part and (len(part) >= most_segments or size + entry.size > most_bytes):
            yield tuple(part)
            part, size = [], 0
        part.append(entry)
        size += entry.size
    if part:
        yield tuple(part)
