"""Merging small segments of one node into larger ones (docs/protocol/vault.md, "Merging"). Pure: what to merge, and the
content of the next manifest. `app/telemetry/compactor.py` reads and writes.

    1. A merged segment covers contiguous positions and keeps each message at its own: so offsets stay valid, and a
       reader in the middle of a merged segment takes only what lies beyond.
    2. The same parts give the same bytes under the same key: the nonce is a keyed hash of the content. So a repeated
       merge overwrites its interrupted predecessor.
    3. Replaced segments are listed in a tombstone, and deleted once no reader can be using them. (Segments from which
       something was erased are deleted at once: `erasing.py`.)
    4. The newest segment is never merged: the collector compares it with its plan after a crash.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey.core import crypto
from covey.core.ids import DeviceKey, NodeId, VaultId, node_id
from covey.core.vault.entries import SegmentEntry, SegmentRange, Tombstone
from covey.core.vault.keys import VaultKey
from covey.core.vault.sealing import content_nonce, open_object, seal_object
from covey.core.wire import cbor
from covey.errors import DecryptionError
from covey.limits.vault import (
    MAXIMUM_SEGMENT_PARTS,
    MAXIMUM_SEGMENT_RECORDS,
    MAXIMUM_VAULT_ITEMS,
    MAXIMUM_VAULT_MANIFEST_BYTES,
    MAXIMUM_VAULT_SEGMENTS,
    VAULT_RANGE_SEGMENTS,
)

_TOMBSTONE_MAGIC = b"HXTMB\x01"
_TOMBSTONE_DOMAIN = b"covey/1 grave"

Group = tuple[SegmentEntry, ...]
"""Contiguous entries that become one."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a tombstone names: segments and ranges that no newer manifest lists."""

    segments: tuple[SegmentEntry, ...]
    ranges: tuple[SegmentRange, ...]


def groups(entries: Sequence[SegmentEntry], target_bytes: int, before_us: int, erased_upto: int = 0) -> Iterator[Group]:
    """Yield what to merge of a node's segments: neighbours, older than `before_us`, up to `target_bytes` together.

    What an erasure reaches and what none does is not merged with each other. A segment of half the target or more stays
    as it is: each message is so written few times, however often this is done.
    """
    group: list[SegmentEntry] = []
    for entry in entries[:-1]:
        if entry.created_at_us >= before_us or 2 * entry.size >= target_bytes:
            if len(group) > 1:
                yield tuple(group)
            group = []
            continue
        apart = bool(group) and group[-1].number <= erased_upto < entry.number
        if group and (apart or not _fits([*group, entry], target_bytes)):
            if len(group) > 1:
                yield tuple(group)
            group = []
        group.append(entry)
    if len(group) > 1:
        yield tuple(group)


def _fits(group: list[SegmentEntry], target_bytes: int) -> bool:
    return (
        sum(entry.size for entry in group) <= target_bytes
        and sum(entry.records for entry in group) <= MAXIMUM_SEGMENT_RECORDS
        and sum(entry.parts for entry in group) <= MAXIMUM_SEGMENT_PARTS
    )


def seal_tombstone(
    key: VaultKey, signing_public: DeviceKey, replaced: Replaced, created_at_us: int
) -> tuple[Tombstone, bytes]:
    """Return a tombstone and its object's content; the same arguments give the same bytes."""
    spans = [(each.first, each.number) for each in replaced.segments]
    spans += [(each.first, each.last) for each in replaced.ranges]
    first, last = min(spans)[0], max(last for _, last in spans)
    binding = _tombstone_binding(key.vault_id, node_id(signing_public), first, last)
    plaintext = cbor.encode(
        [[each.to_wire() for each in replaced.segments], [each.to_wire() for each in replaced.ranges]]
    )
    content = seal_object(_TOMBSTONE_MAGIC, key, binding, content_nonce(key, binding, plaintext), plaintext)
    return Tombstone(first, last, crypto.digest(_TOMBSTONE_DOMAIN, content), len(content), created_at_us), content


def open_tombstone(key: VaultKey, node: NodeId, named: Tombstone, content: bytes) -> Replaced:
    """Open a tombstone that a manifest names.

    Raises:
        RemoteError: another one's bytes, tampered with, or malformed.
    """
    if len(content) != named.size or not crypto.same(crypto.digest(_TOMBSTONE_DOMAIN, content), named.hash):
        raise DecryptionError("the tombstone does not match the manifest")
    binding = _tombstone_binding(key.vault_id, node, named.first, named.last)
    plaintext = open_object(_TOMBSTONE_MAGIC, key, binding, content, MAXIMUM_VAULT_MANIFEST_BYTES)
    segments, ranges = cbor.record(
        cbor.decode(plaintext, MAXIMUM_VAULT_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS),
        "tombstone",
        cbor.many(SegmentEntry.from_wire, MAXIMUM_VAULT_SEGMENTS),
        cbor.many(SegmentRange.from_wire, MAXIMUM_VAULT_SEGMENTS),
    )
    return Replaced(tuple(segments), tuple(ranges))


def _tombstone_binding(vault_id: VaultId, node: NodeId, first: int, last: int) -> bytes:
    return cbor.encode(["covey/1 tombstone", vault_id, node, first, last])


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """How a manifest is to name a node's segments: ranges that stay, runs that become new ranges, the newest listed."""

    ranges: tuple[SegmentRange | Group, ...]
    listed: Group
    dropped: tuple[SegmentRange, ...]


def layout(
    ranges: Sequence[tuple[SegmentRange, Group]], listed: Group, merged: Sequence[SegmentEntry]
) -> SegmentLayout:
    """Put merged segments in the place of those that they stand for.

    A range stays as it is where nothing in it is replaced. But one that names less than half the usual number of
    segments melts with a neighbour that is rewritten.
    """
    firsts = sorted(each.first for each in merged)
    rewritten = [_touched(entries, firsts, merged) for _, entries in ranges] + [_touched(listed, firsts, merged)]
    small = [2 * len(entries) < VAULT_RANGE_SEGMENTS for _, entries in ranges] + [False]
    for place in range(1, len(rewritten)):
        rewritten[place] |= small[place] and rewritten[place - 1]
    for place in reversed(range(len(rewritten) - 1)):
        rewritten[place] |= small[place] and rewritten[place + 1]
    kept: list[SegmentRange | Group] = []
    run: list[SegmentEntry] = []
    for (named, entries), changed in zip(ranges, rewritten, strict=False):
        if changed:
            run += entries
        else:
            kept += _cut(substituted(run, merged))
            run = []
            kept.append(named)
    tail = substituted([*run, *listed], merged)
    folded = max(0, len(tail) // VAULT_RANGE_SEGMENTS - 1) * VAULT_RANGE_SEGMENTS
    dropped = tuple([named for (named, _), changed in zip(ranges, rewritten, strict=False) if changed])
    return SegmentLayout((*kept, *_cut(tail[:folded])), tail[folded:], dropped)


def _touched(entries: Group, firsts: list[int], merged: Sequence[SegmentEntry]) -> bool:
    by_first = {each.first: each for each in merged}
    for entry in entries:
        place = bisect_right(firsts, entry.first)
        if place and entry.number <= by_first[firsts[place - 1]].number:
            return True
    return False


def _cut(run: Group) -> list[Group]:
    return [run[first : first + VAULT_RANGE_SEGMENTS] for first in range(0, len(run), VAULT_RANGE_SEGMENTS)]


def substituted(entries: Sequence[SegmentEntry], merged: Sequence[SegmentEntry]) -> Group:
    """Return entries with each merged segment in place of those that it covers."""
    by_first = {each.first: each for each in merged}
    result: list[SegmentEntry] = []
    for entry in entries:
        if not result or entry.number > result[-1].number:
            result.append(by_first.get(entry.first, entry))
    return tuple(result)
