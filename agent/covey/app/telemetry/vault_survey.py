"""Survey a vault: what its nodes have written, whether all of it opens and verifies, and a mirror of it.

The store is not trusted: manifests follow the rules of `core.vault_reading`, and the last good one of each node is
remembered, so that an outdated store is noticed by any device that has seen a newer state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from covey.core.ids import NodeId, VaultId
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry, SegmentRange, VaultManifest
from covey.core.vault.key_object import key_object_key
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.landed_records import verify_record
from covey.core.vault.reading import Floor, Trouble, VaultReader, listed_nodes
from covey.errors import LimitError, RemoteError
from covey.limits.vault import MAXIMUM_KEY_OBJECT_BYTES, MAXIMUM_SEGMENT_BYTES, MAXIMUM_VAULT_MANIFEST_BYTES
from covey.ports import ObjectStore

Progress = Callable[[str, int, int], None]
"""Called with a node, how many of its segments are done, and of how many."""


class StoreMemory:
    """Implements `vault_reading.ManifestMemory` in an object store: a folder of this device's own, or a mirror."""

    def __init__(self, store: ObjectStore, vault_id: VaultId, *, keeps: bool = True) -> None:
        """`keeps=False` is for a mirror, which gets a manifest after what it lists."""
        self._store = store
        self._vault_id = vault_id
        self._keeps = keeps

    def load(self, node: str) -> bytes | None:
        """Return what was saved for a node; what has grown too long is damaged, and as good as nothing."""
        try:
            return self._store.get(self._key(node), MAXIMUM_VAULT_MANIFEST_BYTES)
        except LimitError:
            return None

    def save(self, node: str, content: bytes) -> None:
        """Keep a manifest durably."""
        if self._keeps:
            self._store.put(self._key(node), content)

    def nodes(self) -> list[str]:
        """Return the nodes of which something was saved."""
        return listed_nodes(self._store, self._vault_id)

    def _key(self, node: str) -> str:
        return documents.manifest_key(self._vault_id, NodeId(bytes.fromhex(node)))


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a vault says of one node; where `trouble` says why its manifest was not followed, the last good one."""

    node: str
    manifest: VaultManifest | None
    trouble: str
    keys: tuple[VaultKey, ...] = ()
    """The keys that it shares with this device, newest first."""


@dataclass(frozen=True, slots=True)
class VaultFinding:
    """Something in a vault that is not as its manifest says. `segment` is None for what concerns a whole node."""

    node: str
    segment: int | None
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """The objects that a manifest names, by key: segments, ranges with tombstones, and what tombstones name."""

    segments: dict[str, SegmentEntry]
    others: frozenset[str]
    buried: frozenset[str]

    @property
    def all(self) -> set[str]:
        """Every key."""
        return {*self.segments, *self.others, *self.buried}


class VaultSurvey:
    """One vault, seen through its store."""

    def __init__(self, objects: ObjectStore, keys: KeyRing, memory: StoreMemory) -> None:
        self._objects = objects
        self._keys = keys
        self._memory = memory
        self._reader = VaultReader(objects, keys, memory)

    def nodes(self) -> set[str]:
        """Return the nodes that have a manifest, and those remembered to have had one."""
        return {*self._reader.nodes(), *self._memory.nodes()}

    def states(self, nodes: Iterable[str]) -> Iterator[NodeState]:
        """Yield the vault state of each node.

        Raises:
            StorageError: the memory cannot be written.
        """
        for node in nodes:
            found = self._reader.manifest(node, Floor())
            if isinstance(found, Trouble):
                yield NodeState(node, self._reader.held(node), found.code, self._reader.shared_keys(node))
            else:
                yield NodeState(node, found, "", self._reader.shared_keys(node))

    def verify(self, nodes: Iterable[str], progress: Progress) -> Iterator[VaultFinding]:
        """Open everything that is listed, verify every signature inside, and yield what is wrong."""
        for state in self.states(nodes):
            if state.trouble and not (state.manifest is None and state.trouble == "missing"):
                yield VaultFinding(state.node, None, state.trouble, "the manifest was not accepted")
            if state.manifest is None:
                continue  # a collector that has not landed anything yet
            entries = self._reader.entries(state.node, state.manifest, 1, state.manifest.last_number)
            if isinstance(entries, Trouble):
                yield VaultFinding(state.node, None, entries.code, "a range of older segments cannot be read")
                continue
            for done, entry in enumerate(entries, 1):
                yield from self._verify_segment(state.node, entry)
                progress(state.node, done, len(entries))
            for named in state.manifest.tombstones:
                buried = self._reader.tombstone(state.node, named)
                if isinstance(buried, Trouble):
                    yield VaultFinding(state.node, None, buried.code, "a tombstone cannot be read")

    def _verify_segment(self, node: str, entry: SegmentEntry) -> Iterator[VaultFinding]:
        content = self._reader.segment(node, entry)
        if content is None:
            yield VaultFinding(node, entry.number, "missing", "the manifest lists this segment, but it is missing")
            return
        try:
            key = self._reader.key_for(node, content)
            records = documents.open_segment(key, NodeId(bytes.fromhex(node)), entry, content)
        except RemoteError as error:
            yield VaultFinding(node, entry.number, error.code, str(error))
            return
        for record in records:
            try:
                verify_record(record.message)
            except RemoteError as error:
                yield VaultFinding(node, entry.number, error.code, str(error))

    def pull(self, nodes: Iterable[str], mirror: ObjectStore, progress: Progress) -> Iterator[VaultFinding]:
        """Bring a mirror up to date: segments first, then the manifest that lists them. Yield what cannot be had.

        What the mirror has is not fetched again; a pull that was interrupted goes on where it was. A node with
        anything missing keeps its old manifest in the mirror, so that the mirror is always a whole vault. What a
        compaction has replaced is not fetched, and goes from the mirror when no tombstone names it any more.

        Raises:
            StorageError: one of the two stores refused.
        """
        for node in nodes:
            key = documents.manifest_key(self._keys.vault_id, NodeId(bytes.fromhex(node)))
            found = self._reader.manifest(node, Floor())
            if isinstance(found, Trouble):
                if found.code != "missing" or self._reader.held(node):
                    yield VaultFinding(node, None, found.code, "the manifest was not accepted")
                continue
            mirrored = VaultReader(mirror, self._keys)
            there = mirrored.manifest(node, Floor())
            common = set(found.ranges).intersection(() if isinstance(there, Trouble) else there.ranges)
            before = None if isinstance(there, Trouble) else self._listing(mirrored, node, there, common)
            after = self._listing(self._reader, node, found, common)
            if after is None:
                yield VaultFinding(node, None, "missing", "a range of older segments, or a tombstone, cannot be read")
                continue
            missing = list(self._pull_objects(node, after, before, mirror, progress))
            yield from missing
            self._pull_keys(node, mirror)
            content = self._objects.get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
            if not missing and content is not None and self._opens_as(node, content, found):
                mirror.put(key, content)
                for gone in sorted((before.all - after.all) if before else ()):
                    mirror.delete(gone)

    def _pull_keys(self, node: str, mirror: ObjectStore) -> None:
        """Copy a node's key object: others need it to open objects under later keys."""
        key = key_object_key(self._keys.vault_id, NodeId(bytes.fromhex(node)))
        content = self._objects.get(key, MAXIMUM_KEY_OBJECT_BYTES)
        if content is not None and content != mirror.get(key, MAXIMUM_KEY_OBJECT_BYTES):
            mirror.put(key, content)

    def _opens_as(self, node: str, content: bytes, manifest: VaultManifest) -> bool:
        """Return whether a re-read manifest is the one that was followed; a newer one waits for next time."""
        try:
            return (
                documents.open_vault_manifest(self._reader.key_for(node, content), NodeId(bytes.fromhex(node)), content)
                == manifest
            )
        except RemoteError:
            return False

    def _listing(
        self, reader: VaultReader, node: str, manifest: VaultManifest, apart_from: set[SegmentRange]
    ) -> _Listing | None:
        vault_id, name = self._keys.vault_id, NodeId(bytes.fromhex(node))
        segments: dict[str, SegmentEntry] = {}
        others: set[str] = set()
        buried: set[str] = set()
        for named in manifest.ranges:
            if named in apart_from:
                continue
            others.add(documents.range_key(vault_id, name, named))
            entries = reader.range_entries(node, named)
            if isinstance(entries, Trouble):
                return None
            segments |= {documents.entry_key(vault_id, name, entry): entry for entry in entries}
        segments |= {documents.entry_key(vault_id, name, entry): entry for entry in manifest.segments}
        for tombstone in manifest.tombstones:
            others.add(documents.tombstone_key(vault_id, name, tombstone))
            replaced = reader.tombstone(node, tombstone)
            if isinstance(replaced, Trouble):
                return None
            buried |= {documents.entry_key(vault_id, name, entry) for entry in replaced.segments}
            buried |= {documents.range_key(vault_id, name, named) for named in replaced.ranges}
        return _Listing(segments, frozenset(others), frozenset(buried))

    def _pull_objects(
        self, node: str, after: _Listing, before: _Listing | None, mirror: ObjectStore, progress: Progress
    ) -> Iterator[VaultFinding]:
        wanted = [key for key in after.segments if before is None or key not in before.segments]
        for done, key in enumerate(wanted, 1):
            yield from self._pull_segment(node, key, after.segments[key], mirror)
            progress(node, done, len(wanted))
        for key in sorted(after.others):
            if before is None or key not in before.others or mirror.get(key, MAXIMUM_VAULT_MANIFEST_BYTES) is None:
                content = self._objects.get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
                if content is None:
                    yield VaultFinding(node, None, "missing", "a range of older segments, or a tombstone, is missing")
                else:
                    mirror.put(key, content)

    def _pull_segment(self, node: str, key: str, entry: SegmentEntry, mirror: ObjectStore) -> Iterator[VaultFinding]:
        there = mirror.get(key, MAXIMUM_SEGMENT_BYTES)
        if there is not None and documents.is_segment(entry, there):
            return
        content = self._reader.segment(node, entry)
        if content is None:
            yield VaultFinding(node, entry.number, "missing", "the manifest lists this segment, but it is missing")
        elif not documents.is_segment(entry, content):
            yield VaultFinding(node, entry.number, "decryption", "the segment does not match the manifest")
        else:
            mirror.put(key, content)
