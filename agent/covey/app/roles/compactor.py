"""Compaction: the small segments of this device's node become larger ones, and what they replace is deleted later.

A crash after any step leaves a vault that every reader reads alike, and the next run goes on:

    1. A merged segment is put, named by its content. Until a manifest lists it, nobody knows of it.
    2. A tombstone is put that names what it replaces: segments, and ranges that have to be written anew.
    3. The manifest that lists the one and names the other is put, over the one that was read. A collector of the same
       node that runs meanwhile finds it and goes on from there; where it was quicker, the compaction does.
    4. After the grace time a later run deletes what the tombstone names; then a manifest leaves the tombstone out; then
       the tombstone is deleted. A reader that has planned with an older manifest finds its segments until then.

Nothing that the manifest lists is ever deleted, whatever a tombstone says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from covey.app.roles.node_vault import FloorStore, NodeVault
from covey.core.crypto import NONCE_BYTES
from covey.core.ids import DeviceKey, VaultId
from covey.core.vault import documents, merging
from covey.core.vault.documents import SegmentEntry, SegmentPart, SegmentRange, Tombstone, VaultManifest
from covey.core.vault.keys import VaultKey
from covey.core.vault.merging import Group, Replaced
from covey.core.vault.reading import Trouble, VaultReader
from covey.errors import ConflictError, LocalError, RemoteError, StorageError
from covey.limits.vault import MAXIMUM_VAULT_TOMBSTONES, VAULT_RANGE_SEGMENTS

_TRIES = 10
"""A collector publishes every few seconds; one attempt takes a fraction of one."""

Progress = Callable[[str, int, int], None]
"""Called with the node, how many of the segments to merge are done, and of how many."""


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


@dataclass(frozen=True, slots=True)
class _Listing:
    """A manifest with the entries of its ranges."""

    manifest: VaultManifest
    ranges: tuple[tuple[SegmentRange, Group], ...]

    @property
    def entries(self) -> Group:
        return (*(entry for _, entries in self.ranges for entry in entries), *self.manifest.segments)


class Compactor:
    """Compacts one node's part of a vault."""

    def __init__(self, node: NodeVault, store: FloorStore, rng: Callable[[int], bytes]) -> None:
        self._vault = node
        self._store = store
        self._rng = rng
        self._reader = VaultReader(node.objects, node.keys.ring())
        self._name = node.node.hex()

    def plan(self, target_bytes: int, before_us: int, grace_us: int, now_us: int) -> Compaction:
        """Return what `compact` would do: `merged` and `deleted` count, `bytes_after` is unknown and 0."""
        self._vault.load()
        outcome = Compaction()
        listing = self._listing()
        if listing is None:
            return outcome
        for group in merging.groups(listing.entries, target_bytes, before_us):
            _count(outcome, group)
        for named in listing.manifest.tombstones:
            count = len(self._objects_of(self._open(named)))
            if _is_over(named, grace_us, now_us):
                outcome.deleted += count
            else:
                outcome.waiting += count
        return outcome

    def compact(self, target_bytes: int, before_us: int, grace_us: int, now_us: int, progress: Progress) -> Compaction:
        """Delete what has waited long enough, then merge.

        Raises:
            LocalError: another compaction of the same node is at work.
            StorageError: the store refused; whatever was published stands.
        """
        self._vault.load()
        outcome = Compaction()
        self._bury(grace_us, now_us, outcome)
        listing = self._listing()
        if listing is None:
            return outcome
        chosen = list(merging.groups(listing.entries, target_bytes, before_us))
        of = sum(len(group) for group in chosen)
        for batch in _batches(chosen):
            if self._vault.manifest and len(self._vault.manifest.tombstones) >= MAXIMUM_VAULT_TOMBSTONES:
                break
            self._merge(batch, now_us, outcome)
            progress(self._name, outcome.segments, of)
        for named in self._vault.manifest.tombstones if self._vault.manifest else ():
            outcome.waiting += len(self._objects_of(self._open(named)))
        return outcome

    # -- merging ------------------------------------------------------------------------------------------------------

    def _merge(self, batch: list[Group], now_us: int, outcome: Compaction) -> None:
        """Put the merged segments of some groups, and the manifest that lists them."""
        merged: list[SegmentEntry] = []
        replaced: list[SegmentEntry] = []
        for group in batch:
            parts = self._parts(group, outcome)
            if parts is None:
                continue
            entry, content = merging.seal_merged(self._vault.newest_key, self._public, parts)
            self._vault.objects.put(documents.entry_key(self._vault_id, self._vault.node, entry), content)
            merged.append(entry)
            replaced += group
            _count(outcome, group)
            outcome.bytes_after += entry.size
        if merged:
            self._publish(lambda: self._rewritten(merged, tuple(replaced), now_us))

    def _parts(self, group: Group, outcome: Compaction) -> list[SegmentPart] | None:
        """Return everything that a group holds, or None where a segment of it is not what the manifest lists."""
        parts: list[SegmentPart] = []
        for entry in group:
            content = self._reader.segment(self._name, entry) or b""
            try:
                key = self._vault.keys.ring().for_object(content)
                parts += documents.open_parts(key, self._vault.node, entry, content)
            except RemoteError:
                outcome.unreadable.append(entry.number)
                return None
        return parts

    def _rewritten(self, merged: list[SegmentEntry], replaced: Group, now_us: int) -> VaultManifest:
        """Return the manifest that lists merged segments in the place of others; its objects are put."""
        listing = self._listing()
        assert listing is not None
        if not set(replaced) <= set(listing.entries):
            raise LocalError("another compaction of this node is at work", hint="let it end, then try again")
        key, manifest = self._vault.newest_key, listing.manifest
        layout = merging.layout(listing.ranges, manifest.segments, merged)
        ranges = tuple([self._named(key, each) for each in layout.ranges])
        tombstone, content = merging.seal_tombstone(key, self._public, Replaced(replaced, layout.dropped), now_us)
        self._vault.objects.put(documents.tombstone_key(self._vault_id, self._vault.node, tombstone), content)
        tombstones = (*manifest.tombstones, tombstone)
        return documents.rewritten_manifest(manifest, key, now_us, ranges, layout.listed, tombstones)

    def _named(self, key: VaultKey, each: SegmentRange | Group) -> SegmentRange:
        """Return a range as it is, or put the object of a new one."""
        if isinstance(each, SegmentRange):
            return each
        named, content = documents.seal_range(key, self._public, each, self._rng(NONCE_BYTES))
        self._vault.objects.put(documents.range_key(self._vault_id, self._vault.node, named), content)
        return named

    # -- deleting -----------------------------------------------------------------------------------------------------

    def _bury(self, grace_us: int, now_us: int, outcome: Compaction) -> None:
        """Delete what tombstones name whose grace time is over, then the tombstones."""
        listing = self._listing()
        if listing is None:
            return
        over = [named for named in listing.manifest.tombstones if _is_over(named, grace_us, now_us)]
        if not over:
            return
        listed = {documents.entry_key(self._vault_id, self._vault.node, entry) for entry in listing.entries}
        listed |= {documents.range_key(self._vault_id, self._vault.node, named) for named, _ in listing.ranges}
        for named in over:
            for key in self._objects_of(self._open(named)):
                if key not in listed:
                    self._vault.objects.delete(key)
                    outcome.deleted += 1
        self._publish(lambda: self._without(over, now_us))
        for named in over:
            self._vault.objects.delete(documents.tombstone_key(self._vault_id, self._vault.node, named))

    def _without(self, over: list[Tombstone], now_us: int) -> VaultManifest:
        manifest = self._vault.manifest
        assert manifest is not None
        left = tuple([each for each in manifest.tombstones if each not in over])
        return documents.rewritten_manifest(
            manifest, self._vault.newest_key, now_us, manifest.ranges, manifest.segments, left
        )

    def _open(self, named: Tombstone) -> Replaced:
        found = self._reader.tombstone(self._name, named)
        if isinstance(found, Trouble):
            raise StorageError(f"a tombstone of this node cannot be read ({found.code})", hint="covey vault verify")
        return found

    def _objects_of(self, replaced: Replaced) -> list[str]:
        node = self._vault.node
        keys = [documents.entry_key(self._vault_id, node, entry) for entry in replaced.segments]
        return keys + [documents.range_key(self._vault_id, node, named) for named in replaced.ranges]

    # -- the manifest -------------------------------------------------------------------------------------------------

    @property
    def _public(self) -> DeviceKey:
        return self._vault.identity.signing_public

    @property
    def _vault_id(self) -> VaultId:
        return self._vault.newest_key.vault_id

    def _listing(self) -> _Listing | None:
        """Return what the node lists, None where it has nothing.

        Raises:
            StorageError: a range cannot be read.
        """
        manifest = self._vault.manifest
        if manifest is None or not manifest.last_number:
            return None
        ranges = []
        for named in manifest.ranges:
            entries = self._reader.range_entries(self._name, named)
            if isinstance(entries, Trouble):
                raise StorageError(
                    f"a range of older segments cannot be read ({entries.code})", hint="covey vault verify"
                )
            ranges.append((named, entries))
        return _Listing(manifest, tuple(ranges))

    def _publish(self, following: Callable[[], VaultManifest]) -> None:
        """Put a manifest that follows the one that stands there, and remember it as published."""
        for tries_left in reversed(range(_TRIES)):
            manifest = following()
            try:
                self._vault.publish(manifest)
            except ConflictError:
                if not tries_left:
                    raise
                self._vault.load()
                continue
            with self._store.transaction():
                self._store.landing.note_manifest(manifest.manifest_seq)
            return


def _is_over(named: Tombstone, grace_us: int, now_us: int) -> bool:
    return named.created_at_us + grace_us <= now_us


def _count(outcome: Compaction, group: Group) -> None:
    outcome.segments += len(group)
    outcome.merged += 1
    outcome.bytes_before += sum(entry.size for entry in group)


def _batches(chosen: list[Group]) -> Iterator[list[Group]]:
    """Yield groups that one manifest brings in: about as many segments as a range has."""
    batch: list[Group] = []
    for group in chosen:
        batch.append(group)
        if sum(len(each) for each in batch) >= VAULT_RANGE_SEGMENTS:
            yield batch
            batch = []
    if batch:
        yield batch
