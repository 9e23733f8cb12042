"""Compaction: merge this node's small segments into larger ones; the replaced segments are deleted later.

A crash after any step leaves a vault that every reader reads alike, and the next run continues:

    1. A merged segment is stored, named by its content. Until a manifest lists it, nobody knows of it.
    2. A tombstone is stored that names what it replaces: segments, and ranges that must be rewritten.
    3. The manifest that lists the one and names the other replaces the one that was read. A collector of the same node
       finds it and continues from there; if the collector was quicker, the compaction continues from its manifest.
    4. After the grace time a later run deletes what the tombstone names; then a manifest without the tombstone is
       written; then the tombstone is deleted. Until then a reader with an older manifest finds its segments.

Nothing that the manifest lists is ever deleted, whatever a tombstone says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.app.telemetry.node_vault import NodeVault
from covey.app.telemetry.rewriting import NodeRewriting, Progress
from covey.core.ids import DeviceKey
from covey.core.vault import documents, erasing, merging, segments
from covey.core.vault.documents import SegmentEntry, Tombstone, VaultManifest
from covey.core.vault.keys import VaultKey
from covey.core.vault.merging import Group
from covey.core.vault.segments import OpenedSegment
from covey.errors import RemoteError
from covey.limits.vault import MAXIMUM_VAULT_TOMBSTONES, VAULT_RANGE_SEGMENTS

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


@dataclass(slots=True)
class Compaction:
    """What a compaction did, or would do."""

    segments: int = 0
    merged: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    deleted: int = 0
    waiting: int = 0
    """Replaced objects whose grace time is not over."""
    unreadable: list[int] = field(default_factory=list)
    """Segments that are damaged or missing, by number: nothing near them was merged."""


class Compactor:
    """Compacts one node's part of a vault."""

    def __init__(self, node: NodeVault, store: SqliteStore, rng: Callable[[int], bytes]) -> None:
        self._vault = node
        self._node = NodeRewriting(node, store, rng)

    def plan(self, target_bytes: int, before_us: int, grace_us: int, now_us: int) -> Compaction:
        """Return what `compact` would do: `merged` and `deleted` count, `bytes_after` is unknown and 0."""
        self._vault.load()
        outcome = Compaction()
        listing = self._node.listing()
        if listing is None:
            return outcome
        for group in merging.groups(listing.entries, target_bytes, before_us, listing.manifest.erased_upto):
            _count(outcome, group)
        for named in listing.manifest.tombstones:
            count = len(self._node.objects_of(self._node.opened_tombstone(named)))
            if _is_over(named, grace_us, now_us):
                outcome.deleted += count
            else:
                outcome.waiting += count
        return outcome

    def compact(self, target_bytes: int, before_us: int, grace_us: int, now_us: int, progress: Progress) -> Compaction:
        """Delete what has waited long enough, then merge.

        Raises:
            LocalError: another command rewrites the same node's segments.
            StorageError: the store refused; published changes remain.
        """
        self._vault.load()
        outcome = Compaction()
        self._bury(grace_us, now_us, outcome)
        listing = self._node.listing()
        if listing is None:
            return outcome
        chosen = list(merging.groups(listing.entries, target_bytes, before_us, listing.manifest.erased_upto))
        of = sum(len(group) for group in chosen)
        for batch in _batches(chosen):
            if self._vault.manifest and len(self._vault.manifest.tombstones) >= MAXIMUM_VAULT_TOMBSTONES:
                break
            self._merge(batch, now_us, outcome)
            progress(self._node.name, outcome.segments, of)
        for named in self._vault.manifest.tombstones if self._vault.manifest else ():
            outcome.waiting += len(self._node.objects_of(self._node.opened_tombstone(named)))
        return outcome

    # -- merging ------------------------------------------------------------------------------------------------------

    def _merge(self, batch: list[Group], now_us: int, outcome: Compaction) -> None:
        merged: list[SegmentEntry] = []
        replaced: list[SegmentEntry] = []
        for chosen in batch:
            opened = self._opened(chosen, outcome)
            count = segments.fitting(opened or [])
            if opened is None or count < 2:
                continue
            group, opened = chosen[:count], opened[:count]
            entry, content = _seal(self._vault.newest_key, self._node.public, group, opened)
            self._vault.objects.put(documents.entry_key(self._node.vault_id, self._vault.node, entry), content)
            merged.append(entry)
            replaced += group
            _count(outcome, group)
            outcome.bytes_after += entry.size
        if merged:
            self._node.publish(lambda: self._rewritten(merged, tuple(replaced), now_us))

    def _opened(self, group: Group, outcome: Compaction) -> list[OpenedSegment] | None:
        found: list[OpenedSegment] = []
        for entry in group:
            try:
                found.append(self._node.opened(entry))
            except RemoteError:
                outcome.unreadable.append(entry.number)
                return None
        return found

    def _rewritten(self, merged: list[SegmentEntry], replaced: Group, now_us: int) -> VaultManifest:
        """Return the manifest that lists merged segments in place of others, once its objects are stored."""
        found, key = self._node.substituted(merged, replaced), self._vault.newest_key
        tombstone, content = merging.seal_tombstone(key, self._node.public, found.gone, now_us)
        self._vault.objects.put(documents.tombstone_key(self._node.vault_id, self._vault.node, tombstone), content)
        before = self._vault.manifest.tombstones if self._vault.manifest else ()
        return self._node.following(
            now_us=now_us, ranges=found.ranges, segments=found.segments, tombstones=(*before, tombstone)
        )

    # -- deleting -----------------------------------------------------------------------------------------------------

    def _bury(self, grace_us: int, now_us: int, outcome: Compaction) -> None:
        listing = self._node.listing()
        if listing is None:
            return
        over = [named for named in listing.manifest.tombstones if _is_over(named, grace_us, now_us)]
        if not over:
            return
        listed = {documents.entry_key(self._node.vault_id, self._vault.node, entry) for entry in listing.entries}
        listed |= {documents.range_key(self._node.vault_id, self._vault.node, named) for named, _ in listing.ranges}
        for named in over:
            for key in self._node.objects_of(self._node.opened_tombstone(named)):
                if key not in listed:
                    self._vault.objects.delete(key)
                    outcome.deleted += 1
        self._node.publish(lambda: self._without(over, now_us))
        for named in over:
            self._vault.objects.delete(documents.tombstone_key(self._node.vault_id, self._vault.node, named))

    def _without(self, over: list[Tombstone], now_us: int) -> VaultManifest:
        assert self._vault.manifest is not None
        left = tuple([each for each in self._vault.manifest.tombstones if each not in over])
        return self._node.following(now_us=now_us, tombstones=left)


def _seal(key: VaultKey, public: DeviceKey, group: Group, opened: list[OpenedSegment]) -> tuple[SegmentEntry, bytes]:
    if not any(entry.is_thinned for entry in group):
        return segments.seal_merged(key, public, [part for each in opened for part in each.parts])
    created_at_us = max(entry.created_at_us for entry in group)
    span = group[0].first, group[-1].number
    return segments.seal_thinned(key, public, span, created_at_us, erasing.together(opened))


def _is_over(named: Tombstone, grace_us: int, now_us: int) -> bool:
    return named.created_at_us + grace_us <= now_us


def _count(outcome: Compaction, group: Group) -> None:
    outcome.segments += len(group)
    outcome.merged += 1
    outcome.bytes_before += sum(entry.size for entry in group)


def _batches(chosen: list[Group]) -> Iterator[list[Group]]:
    batch: list[Group] = []
    for group in chosen:
        batch.append(group)
        if sum(len(each) for each in batch) >= VAULT_RANGE_SEGMENTS:
            yield batch
            batch = []
    if batch:
        yield batch
