"""Read a vault from an untrusted store. `vault.py` builds object keys only from checked ids.

Every manifest is opened, verified and compared with the last good one (004.15-004.24). A missing, damaged, rolled back
or forked manifest is reported and changes nothing.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from covey.core.ids import NodeId, VaultId
from covey.core.vault.documents import (
    SegmentEntry,
    SegmentRange,
    Tombstone,
    VaultManifest,
    entry_key,
    manifest_key,
    manifest_prefix,
    node_of_manifest_key,
    open_range,
    open_segment,
    open_vault_manifest,
    range_key,
    tombstone_key,
)
from covey.core.vault.key_object import key_object_key, read_key_object
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.merging import Replaced, open_tombstone
from covey.errors import CoveyError, MalformedError, RemoteError, RollbackError, StorageError, UnknownVaultKeyError
from covey.limits.vault import MAXIMUM_KEY_OBJECT_BYTES, MAXIMUM_SEGMENT_BYTES, MAXIMUM_VAULT_MANIFEST_BYTES

_RANGES_HELD = 64
"""Opened ranges kept for the next time; about 20 MB at most."""


class VaultObjects(Protocol):
    """The reading half of `ports.ObjectStore`."""

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none; `LimitError` above `maximum` bytes, `StorageError`."""

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys under a prefix, sorted; `StorageError`."""


class ManifestMemory(Protocol):
    """Where the last good manifest of each node outlives the process, sealed as it was."""

    def load(self, node: str) -> bytes | None:
        """Return what was saved for a node."""

    def save(self, node: str, content: bytes) -> None:
        """Keep a manifest durably, before anything depends on it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The last good manifest of a node, as an offset remembers it."""

    manifest_seq: int = 0
    last_number: int = 0
    hash: str = ""
    """Hex; the first digits are enough."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a node's manifest, or a range that it names, was not followed; by which bytes."""

    code: str
    bytes_hash: str

    @property
    def mark(self) -> str:
        """What an offset says of it: equal for equal trouble."""
        return f"{self.code} {self.bytes_hash}".rstrip()


class VaultReader:
    """One vault: its nodes, their manifests and segments. Remembers the last good manifest of each node."""

    def __init__(self, store: VaultObjects, keys: KeyRing, memory: ManifestMemory | None = None) -> None:
        self._store = store
        self._keys = keys
        self._memory = memory
        self._good: dict[str, tuple[bytes, VaultManifest]] = {}
        self._met: set[str] = set()
        self._ranges: dict[bytes, tuple[SegmentEntry, ...]] = {}

    @property
    def vault_id(self) -> VaultId:
        """Which vault it is."""
        return self._keys.vault_id

    def nodes(self) -> list[str]:
        """Return the ids (hex) of all nodes that have a manifest."""
        return listed_nodes(self._store, self._keys.vault_id)

    def is_elsewhere(self) -> bool:
        """Say whether the store holds vaults, and this one is none of them: then it lists all that is there.

        Raises:
            StorageError: the store cannot be read.
        """
        if listed_nodes(self._store, self.vault_id):
            return False
        there = {key.split("/")[1] for key in self._store.keys("vaults/")}
        return bool(there) and self.vault_id.hex() not in there

    def key_for(self, node: str, content: bytes) -> VaultKey:
        """Return the key of an object of a node, if need be from what the node shares with its readers.

        Raises:
            UnknownVaultKeyError: the node does not share it with who holds these keys.
            StorageError: the store could not be read.
        """
        try:
            return self._keys.for_object(content)
        except UnknownVaultKeyError:
            self._keys.learn(self.shared_keys(node))
            return self._keys.for_object(content)

    def shared_keys(self, node: str) -> tuple[VaultKey, ...]:
        """Return the keys that a node shares with who holds these, newest first; none where it shares nothing.

        Raises:
            StorageError: the store could not be read.
        """
        vault_id, name = self._keys.vault_id, NodeId(bytes.fromhex(node))
        try:
            found = self._store.get(key_object_key(vault_id, name), MAXIMUM_KEY_OBJECT_BYTES)
            return () if found is None else read_key_object(vault_id, name, found).open(self._keys)
        except RemoteError:
            return ()

    def manifest(self, node: str, floor: Floor) -> VaultManifest | Trouble:
        """Read a node's manifest and follow it if it is good; rules of `covey.core.vault.documents`, and

        1. It is not below the floor, nor another one of the same sequence.
        2. The next sequence names the one before by its hash.
        3. It lists all that the one before listed, or merged segments in its place, or thinned ones as far as its
           erasures reach; these reach no less far than before.
        """
        key = manifest_key(self._keys.vault_id, NodeId(bytes.fromhex(node)))
        content = b""
        try:
            found = self._store.get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
            if found is None:
                return Trouble("missing", "")
            content = found
            return self._follow(node, content, floor)
        except (RemoteError, StorageError) as error:
            return _trouble(error, content)

    def _follow(self, node: str, content: bytes, floor: Floor) -> VaultManifest:
        sealed_hash = _sealed_hash(content)
        held = self.held(node)
        before = held if held and held.manifest_seq >= floor.manifest_seq else None
        if before:
            if self._good[node][0] == sealed_hash:
                self._met.add(node)
                return before
            floor = Floor(before.manifest_seq, max(before.last_number, floor.last_number), before.hash.hex())
        manifest = self._open(node, content, floor.manifest_seq)
        _check_descent(manifest, floor, before)
        if self._memory:
            self._memory.save(node, content)
        self._good[node] = (sealed_hash, manifest)
        self._met.add(node)
        return manifest

    def _open(self, node: str, content: bytes, floor: int) -> VaultManifest:
        return open_vault_manifest(self.key_for(node, content), NodeId(bytes.fromhex(node)), content, floor)

    def held(self, node: str) -> VaultManifest | None:
        """Return the last good manifest of this node, whatever the store says now."""
        if node not in self._good and self._memory:
            content = self._memory.load(node)
            try:
                if content is not None:
                    self._good[node] = (_sealed_hash(content), self._open(node, content, 0))
            except (RemoteError, StorageError):
                return None  # a damaged memory is none
        good = self._good.get(node)
        return good[1] if good else None

    def has_met(self, node: str) -> bool:
        """Say whether the last good manifest stood in the store in this process's time: a memory may be old."""
        return node in self._met

    def entries(self, node: str, manifest: VaultManifest, first: int, last: int) -> tuple[SegmentEntry, ...] | Trouble:
        """Return the segments that hold the positions `first` to `last`, opening the ranges that it needs.

        A merged segment at either end may hold others, too.
        """
        found: list[SegmentEntry] = []
        for named in manifest.ranges:
            if named.last < first or named.first > last:
                continue
            opened = self.range_entries(node, named)
            if isinstance(opened, Trouble):
                return opened
            found += opened
        found += manifest.segments
        if any(entry.is_thinned and entry.number > manifest.erased_upto for entry in found):
            return Trouble(MalformedError.code, manifest.hash.hex()[:8])
        return tuple([entry for entry in found if entry.first <= last and entry.number >= first])

    def range_entries(self, node: str, named: SegmentRange) -> tuple[SegmentEntry, ...] | Trouble:
        """Return the entries of a range that a manifest names."""
        if named.hash in self._ranges:
            return self._ranges[named.hash]
        content = b""
        try:
            key = range_key(self._keys.vault_id, NodeId(bytes.fromhex(node)), named)
            found = self._store.get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
            if found is None:
                return Trouble("missing", named.hash.hex()[:8])
            content = found
            entries = open_range(self.key_for(node, content), NodeId(bytes.fromhex(node)), named, content)
        except (RemoteError, StorageError) as error:
            return _trouble(error, content)
        if len(self._ranges) >= _RANGES_HELD:
            self._ranges.clear()
        self._ranges[named.hash] = entries
        return entries

    def segment(self, node: str, entry: SegmentEntry) -> bytes | None:
        """Return a segment's sealed bytes, or None where there are none."""
        return self._store.get(
            entry_key(self._keys.vault_id, NodeId(bytes.fromhex(node)), entry), MAXIMUM_SEGMENT_BYTES
        )

    def contents(self, node: str, entry: SegmentEntry) -> list[tuple[SegmentEntry, bytes | None]]:
        """Return a segment with its sealed bytes, None where there are none.

        Where it was merged and deleted since its entry was read, those that hold its positions now. Raises as `get`.
        """
        content = self.segment(node, entry)
        successors = () if content is not None else self._successors(node, entry)
        return [(each, self.segment(node, each)) for each in successors] or [(entry, content)]

    def opens(self, node: str, first: int, last: int) -> bool:
        """Say whether the segments of these positions are there, all of them as the node's last good manifest says."""
        manifest = self.held(node) or self.manifest(node, Floor())
        found = manifest if isinstance(manifest, Trouble) else self.entries(node, manifest, first, last)
        if isinstance(found, Trouble):
            return False
        try:
            for planned in found:
                for entry, content in self.contents(node, planned):
                    if content is None:
                        return False
                    open_segment(self.key_for(node, content), NodeId(bytes.fromhex(node)), entry, content)
        except (RemoteError, StorageError):
            return False
        return True

    def _successors(self, node: str, entry: SegmentEntry) -> tuple[SegmentEntry, ...]:
        manifest = self.manifest(node, Floor())
        found = () if isinstance(manifest, Trouble) else self.entries(node, manifest, entry.first, entry.number)
        return () if isinstance(found, Trouble) or entry in found else found

    def tombstone(self, node: str, named: Tombstone) -> Replaced | Trouble:
        """Return what a tombstone of a manifest says."""
        content = b""
        try:
            key = tombstone_key(self._keys.vault_id, NodeId(bytes.fromhex(node)), named)
            found = self._store.get(key, MAXIMUM_VAULT_MANIFEST_BYTES)
            if found is None:
                return Trouble("missing", named.hash.hex()[:8])
            content = found
            return open_tombstone(self.key_for(node, content), NodeId(bytes.fromhex(node)), named, content)
        except (RemoteError, StorageError) as error:
            return _trouble(error, content)


def listed_nodes(store: VaultObjects, vault_id: VaultId) -> list[str]:
    """Return the ids (hex) of all nodes that have a manifest in a store: the one listing, of one small folder.

    Raises:
        StorageError: the store cannot be read.
    """
    nodes = []
    for key in store.keys(manifest_prefix(vault_id)):
        try:
            nodes.append(node_of_manifest_key(key).hex())
        except MalformedError:
            continue  # a file of somebody else's; it has no claim to be a manifest
    return nodes


def _sealed_hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


def _trouble(error: CoveyError, content: bytes) -> Trouble:
    return Trouble(error.code, hashlib.blake2b(content, digest_size=4).hexdigest())


def _check_descent(manifest: VaultManifest, floor: Floor, before: VaultManifest | None) -> None:
    """Apply the rules of `VaultReader.manifest`."""
    same = manifest.manifest_seq == floor.manifest_seq
    following = manifest.manifest_seq == floor.manifest_seq + 1 and floor.manifest_seq > 0
    named = manifest.hash if same else manifest.prev
    if (same or following) and not named.hex().startswith(floor.hash):
        raise RollbackError("the vault has forked: this manifest is not the one that was followed")
    if manifest.last_number < floor.last_number or (before and not _lists_all_of(manifest, before)):
        raise RollbackError("the manifest no longer lists segments that it listed before")


def _lists_all_of(manifest: VaultManifest, before: VaultManifest) -> bool:
    """Return whether both list the same segments, except merged and thinned ones in their place.

    Ranges are not opened for this: only the node itself could have signed anything else.
    """
    if manifest.erased_upto < before.erased_upto:
        return False
    firsts = [entry.first for entry in manifest.segments]
    for entry in before.segments:
        if entry.number <= manifest.last_in_ranges:
            continue
        place = bisect_right(firsts, entry.first) - 1
        listed = manifest.segments[place] if place >= 0 else None
        if listed is None or listed.number < entry.number:
            return False
        if listed != entry and listed.covers <= entry.covers and not listed.is_thinned:
            return False
    return True
