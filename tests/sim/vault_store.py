"""An object store in memory that refuses, and that sometimes says no to what it has stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.ids import VaultId
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.keys import KeyRing, VaultKey
from covey.errors import ConflictError, StorageError
from covey.limits.vault import MAXIMUM_VAULT_MANIFEST_BYTES
from tests.sim.ledger import check

if TYPE_CHECKING:
    from tests.sim.world import World

VAULT_KEY = VaultKey(VaultId(bytes(range(16))), bytes(range(32)))
VAULT_KEYS = KeyRing((VAULT_KEY,))


class VaultStore:
    """Implements `covey.ports.ObjectStore`; reads every manifest that is put, as the ingest would."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._objects: dict[str, bytes] = {}
        self._seen: VaultManifest | None = None

    def put(self, key: str, content: bytes) -> None:
        """Store an object, or not, and perhaps lie about it."""
        world = self._world
        world.collector.boundary()
        if world.happens(world.plan.vault_refuses):
            raise StorageError("the vault is unreachable")
        world.ledger.seen_nonce(content[14:38], content)
        if key.endswith(".hxseg"):
            check(self._objects.setdefault(key, content) == content, "a segment was replaced by another")
        self._objects[key] = content
        if key.endswith(".hxman"):
            self._read_manifest(content)
        world.collector.boundary()
        if world.happens(world.plan.vault_lies):
            raise StorageError("the vault did not answer in time")

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store an object where it is what it was."""
        if self._objects.get(key) != before:
            raise ConflictError("replaced")
        self.put(key, content)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._objects.pop(key, None)

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return an object."""
        world = self._world
        if world.happens(world.plan.vault_refuses):
            raise StorageError("the vault is unreachable")
        content = self._objects.get(key)
        assert content is None or len(content) <= maximum
        return content

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys."""
        return iter(sorted(key for key in self._objects if key.startswith(prefix)))

    def check_everything_opens(self) -> None:
        """Open every segment that the last manifest lists, and compare with what was seen on the way."""
        if self._seen is None:
            check(not self._world.ledger.landed, "what has landed is gone")
            return
        messages = [message for number in range(len(self._seen.segments)) for message in self._messages(number)]
        check(sorted(messages) == sorted(self._world.ledger.landed.values()), "the vault is not what was landed")

    def _read_manifest(self, content: bytes) -> None:
        before = self._seen
        node = self._world.collector.node_id
        check(len(content) <= MAXIMUM_VAULT_MANIFEST_BYTES, "a manifest that nobody may read")
        manifest = documents.open_vault_manifest(VAULT_KEY, node, content, before.manifest_seq if before else 0)
        known = before.segments if before else ()
        check(manifest.segments[: len(known)] == known, "a manifest forgets or changes a segment")
        self._seen = manifest
        for number in range(len(known), len(manifest.segments)):
            for message in self._messages(number):
                self._world.ledger.land(message)

    def _messages(self, number: int) -> list[bytes]:
        assert self._seen is not None
        node, entry = self._world.collector.node_id, self._seen.segments[number]
        key = documents.segment_key(VAULT_KEY.vault_id, node, entry.number, entry.incarnation)
        check(key in self._objects, "a manifest lists a segment that is not there")
        return [record.message for record in documents.open_segment(VAULT_KEY, node, entry, self._objects[key])]
