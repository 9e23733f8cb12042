"""Rewrite a node's segments for compaction and erasure: from the current listing to the next one.

Objects are stored before the manifest that lists them. If another process, such as a collector of the same node, has
replaced that manifest meanwhile, it is not overwritten: the changes are applied to the new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import DeviceKey, VaultId
from covey.core.vault import documents, merging
from covey.core.vault.documents import Erasure, SegmentEntry, SegmentRange, Tombstone, VaultManifest
from covey.core.vault.keys import VaultKey
from covey.core.vault.merging import Group, Replaced
from covey.core.vault.reading import Trouble, VaultReader
from covey.core.vault.segments import OpenedSegment, open_whole
from covey.errors import ConflictError, LocalError, StorageError

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_TRIES = 10
"""A collector publishes every few seconds; one attempt takes a fraction of one."""

Progress = Callable[[str, int, int], None]
"""Called with the node, how many of the segments are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A manifest with the entries of its ranges."""

    manifest: VaultManifest
    ranges: tuple[tuple[SegmentRange, Group], ...]

    @property
    def entries(self) -> Group:
        """All that the node lists, oldest first."""
        return (*(entry for _, entries in self.ranges for entry in entries), *self.manifest.segments)


@dataclass(frozen=True, slots=True)
class Substitution:
    """The ranges and segments that the next manifest adds, and those that it removes."""

    ranges: tuple[SegmentRange, ...]
    segments: Group
    gone: Replaced


class NodeRewriting:
    """One node's part of a vault, for rewriting."""

    def __init__(self, node: NodeVault, store: SqliteStore, rng: Callable[[int], bytes]) -> None:
        self.vault = node
        self.reader = VaultReader(node.objects, node.keys.ring())
        self.name = node.node.hex()
        self._store = store
        self._rng = rng

    @property
    def public(self) -> DeviceKey:
        """The node's signing key."""
        return self.vault.identity.signing_public

    @property
    def vault_id(self) -> VaultId:
        """Which vault it is."""
        return self.vault.newest_key.vault_id

    def listing(self) -> Listing | None:
        """Return what the node lists, None where it has nothing.

        Raises:
            StorageError: a range cannot be read.
        """
        manifest = self.vault.manifest
        if manifest is None or not manifest.last_number:
            return None
        ranges = []
        for named in manifest.ranges:
            entries = self.reader.range_entries(self.name, named)
            if isinstance(entries, Trouble):
                raise StorageError(
                    f"a range of older segments cannot be read ({entries.code})",
                    hint="'covey vault verify' checks the vault",
                )
            ranges.append((named, entries))
        return Listing(manifest, tuple(ranges))

    def opened(self, entry: SegmentEntry) -> OpenedSegment:
        """Return what a listed segment holds.

        Raises:
            RemoteError: it is not there, not the one that is listed, or malformed.
            StorageError: the store could not be read.
        """
        content = self.reader.segment(self.name, entry) or b""
        return open_whole(self.vault.keys.ring().for_object(content), self.vault.node, entry, content)

    def substituted(self, new: list[SegmentEntry], old: Group) -> Substitution:
        """Return how the node is to list new segments in the place of old ones; new ranges are put.

        Raises:
            LocalError: not all of the old ones are listed.
        """
        listing = self.listing()
        assert listing is not None
        if not set(old) <= set(listing.entries):
            raise LocalError(
                "another compaction or erasure of this node is running",
                hint="wait until it has finished, then try again",
            )
        layout = merging.layout(listing.ranges, listing.manifest.segments, new)
        ranges = tuple([self._named(self.vault.newest_key, each) for each in layout.ranges])
        return Substitution(ranges, layout.listed, Replaced(old, layout.dropped))

    def following(
        self,
        *,
        now_us: int,
        ranges: tuple[SegmentRange, ...] | None = None,
        segments: Group | None = None,
        tombstones: tuple[Tombstone, ...] | None = None,
        erasures: tuple[Erasure, ...] | None = None,
    ) -> VaultManifest:
        """Return the manifest after the current one; what is not named stays."""
        manifest = self.vault.manifest
        assert manifest is not None
        return documents.rewritten_manifest(
            manifest,
            self.vault.newest_key,
            now_us,
            manifest.ranges if ranges is None else ranges,
            manifest.segments if segments is None else segments,
            manifest.tombstones if tombstones is None else tombstones,
            erasures,
        )

    def _named(self, key: VaultKey, each: SegmentRange | Group) -> SegmentRange:
        if isinstance(each, SegmentRange):
            return each
        named, content = documents.seal_range(key, self.public, each)
        self.vault.objects.put(documents.range_key(self.vault_id, self.vault.node, named), content)
        return named

    def opened_tombstone(self, named: Tombstone) -> Replaced:
        """Return what a tombstone names.

        Raises:
            StorageError: it cannot be read.
        """
        found = self.reader.tombstone(self.name, named)
        if isinstance(found, Trouble):
            raise StorageError(
                f"a tombstone of this node cannot be read ({found.code})", hint="'covey vault verify' checks the vault"
            )
        return found

    def objects_of(self, replaced: Replaced) -> list[str]:
        """Return the keys of what a tombstone names."""
        node = self.vault.node
        keys = [documents.entry_key(self.vault_id, node, entry) for entry in replaced.segments]
        return keys + [documents.range_key(self.vault_id, node, named) for named in replaced.ranges]

    def publish(self, following: Callable[[], VaultManifest]) -> None:
        """Store a manifest that follows the current one, and remember it as published.

        Raises:
            StorageError: the store refused, or others were quicker each time.
        """
        for tries_left in reversed(range(_TRIES)):
            manifest = following()
            try:
                self.vault.publish(manifest)
            except ConflictError:
                if not tries_left:
                    raise
                self.vault.load()
                continue
            with self._store.transaction():
                self._store.landing.note_manifest(manifest.manifest_seq)
            return
