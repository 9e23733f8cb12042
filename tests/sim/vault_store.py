"""An object store in memory that refuses, and that sometimes says no to what it has stored."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.ids import EpochId, GroupId, VaultId, node_id
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.key_file import KeyFile
from covey.core.vault.key_object import key_object_key, seal_key_object
from covey.core.vault.keys import VaultKey
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.errors import ConflictError, StorageError
from covey.limits.vault import MAXIMUM_VAULT_MANIFEST_BYTES
from tests.fleet import identity
from tests.sim.ledger import check
from tests.vault_keys import MemoryKeyFile

if TYPE_CHECKING:
    from tests.sim.world import World

VAULT_KEY = VaultKey(VaultId(bytes(range(16))), bytes(range(32)))


class SimKeyFile(MemoryKeyFile):
    """The collector's vault keys: a file of its own, which no restored state takes along."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.content = KeyFile((VAULT_KEY,), {world.group_id: world.template.epoch_id}, (), bytes(range(1, 33)))

    def write(self, content: KeyFile) -> None:
        """Replace it; the power may go before and after."""
        self._world.collector.boundary()
        super().write(content)
        self._world.collector.boundary()


class VaultStore:
    """Implements `covey.ports.ObjectStore`; reads every manifest that is put, as the ingest would."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.key_chance = random.Random("vault keys")
        collector = identity("collector")
        shared = key_object_key(VAULT_KEY.vault_id, node_id(collector.signing_public))
        self._objects = {shared: seal_key_object(collector, world.vault_keys.content, self.key_chance.randbytes)}
        self._seen: VaultManifest | None = None
        self._epochs: dict[tuple[bytes, GroupId], EpochId] = {}

    def put(self, key: str, content: bytes) -> None:
        """Store an object, or not, and perhaps lie about it."""
        world = self._world
        world.collector.boundary()
        if world.happens(world.plan.vault_refuses):
            raise StorageError("the vault is unreachable")
        if not key.endswith(".hxkey"):
            world.ledger.seen_nonce(content[14:38], content)
            self._check_key(content[6:14])
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
        if self._happens(key, world.plan.vault_refuses):
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
        ledger = self._world.ledger
        check(sorted(messages) == sorted(ledger.landed.values()), "the vault is not what was landed")

    def _happens(self, key: str, share: float) -> bool:
        """Say whether a fault happens. Reading keys has a chance of its own: most worlds have no other key."""
        if key.endswith(".hxkey"):
            return self._world.raging and self.key_chance.random() < share
        return self._world.happens(share)

    def _check_key(self, key_id: bytes) -> None:
        """A key seals nothing more when a group that its collector believed in has another epoch."""
        epochs = {group.group_id: group.epoch_id for group in self._world.collector.groups()}
        used = {group_id: epoch for (used, group_id), epoch in self._epochs.items() if used == key_id}
        over = any(epochs.get(group_id) != epoch for group_id, epoch in used.items())
        check(not over, "sealed with a key that a removed device may have")
        self._epochs |= {(key_id, group_id): epoch for group_id, epoch in epochs.items()}

    def _read_manifest(self, content: bytes) -> None:
        before = self._seen
        node = self._world.collector.node_id
        check(len(content) <= MAXIMUM_VAULT_MANIFEST_BYTES, "a manifest that nobody may read")
        key, floor = self._key_of(content), before.manifest_seq if before else 0
        manifest = documents.open_vault_manifest(key, node, content, floor)
        known = before.segments if before else ()
        check(manifest.segments[: len(known)] == known, "a manifest forgets or changes a segment")
        self._seen = manifest
        for number in range(len(known), len(manifest.segments)):
            for message in self._messages(number):
                self._world.ledger.land(message)

    def _messages(self, number: int) -> list[bytes]:
        assert self._seen is not None
        node, entry = self._world.collector.node_id, self._seen.segments[number]
        key = documents.entry_key(VAULT_KEY.vault_id, node, entry)
        check(key in self._objects, "a manifest lists a segment that is not there")
        content = self._objects[key]
        raws = [record.message for record in documents.open_segment(self._key_of(content), node, entry, content)]
        return [raw for raw in raws if record_kind(raw) is RecordKind.MESSAGE]

    def _key_of(self, content: bytes) -> VaultKey:
        return self._world.vault_keys.content.ring().for_object(content)
