"""The keys that this device's node seals with: a new one after each removal, shared with the permitted readers.

1. Before anything is sealed, the groups are compared with the epochs of the newest key (`core/vault/key_file.py`). If
   an epoch is over, a member was removed, left, was banned, or a group is gone: a key is drawn first. So the next start
   acts on a removal from just before a power cut, and several of them in one turn cost one key. Whether the removed
   device had the key is not asked, because nobody knows all copies of a file.
2. The new key is in the file before anything is sealed with it, and in the key object before a manifest is.
3. It is given to present members that hold the key before, and to readers that a person named. A device shows that it
   holds a key by its own signed key object, which opens with that key or names it.
4. Other processes of this device do the same: the store's transaction keeps them apart.
5. Two rotations of one process are at least `VAULT_ROTATION_US` apart; meanwhile nothing is sealed, rather than with a
   key that a removed device has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest
from covey.core.ids import KEY_BYTES, DeviceKey, EpochId, GroupId, NodeId, node_id
from covey.core.now import Now
from covey.core.vault.key_file import KeyFile, VaultKeyReader
from covey.core.vault.key_object import (
    KeyObject,
    hint_of,
    key_object_key,
    key_object_prefix,
    node_of_key_object_key,
    read_key_object,
    seal_key_object,
)
from covey.core.vault.keys import KeyRing, VaultKey
from covey.errors import ConflictError, RemoteError, StorageError
from covey.limits.vault import (
    MAXIMUM_KEY_OBJECT_BYTES,
    MAXIMUM_VAULT_KEYS,
    MAXIMUM_VAULT_READERS,
    VAULT_ROTATION_US,
)
from covey.ports import ObjectStore, Transactions

_TRIES = 3
"""Another process of this device publishes at the same moments: at a rotation."""

Groups = Sequence[GroupManifest]
"""What this device believes of each group that it is in."""


class KeyFileAccess(Protocol):
    """Where the keys lie: a file, or the memory of a simulated device."""

    def read(self) -> KeyFile:
        """Return the keys; `ConfigurationError`, `StorageError`."""

    def write(self, content: KeyFile) -> None:
        """Replace them durably; `StorageError`."""


class NodeKeys:
    """The keys of one node of one vault."""

    def __init__(
        self,
        identity: Identity,
        file: KeyFileAccess,
        store: Transactions,
        objects: ObjectStore,
        rng: Callable[[int], bytes],
    ) -> None:
        self._identity = identity
        self._file = file
        self._store = store
        self._objects = objects
        self._rng = rng
        self._rests_until_us = 0
        self._published: tuple[bytes, frozenset[VaultKeyReader]] | None = None

    def ring(self) -> KeyRing:
        """Return the keys as they are now: another process may have rotated them. Raises as the file does."""
        return self._file.read().ring()

    def prepare(self, groups: Groups, now: Now) -> int | None:
        """See to it that what is sealed next is sealed for who may read it.

        Returns None, or until when nothing may be sealed (rule 5), in monotonic microseconds.

        Raises:
            StorageError: the disk or the vault refused; nothing may be sealed.
        """
        epochs = {group.group_id: group.epoch_id for group in groups}
        held = self._file.read()
        if held.is_outdated(epochs):
            if now.monotonic_us < self._rests_until_us:
                return self._rests_until_us
            self.rotate(groups, now, lambda content: content.is_outdated(epochs))
            self._rests_until_us = now.monotonic_us + VAULT_ROTATION_US
        elif held.epochs != epochs or held.reader_secret is None:
            self._note(epochs)
        self._publish()
        return None

    def rotate(self, groups: Groups, now: Now, is_due: Callable[[KeyFile], bool] = lambda _content: True) -> KeyFile:
        """Draw a key for what is sealed from now on; the older ones stay, as what they sealed stays.

        Raises:
            StorageError: the disk or the vault refused, or there are too many keys.
        """
        readers = self._readers(groups)
        with self._store.transaction():
            held = self._file.read()
            if not is_due(held):
                return held  # another process was quicker
            if len(held.keys) >= MAXIMUM_VAULT_KEYS:
                raise StorageError(
                    f"the vault has {len(held.keys)} keys, the maximum",
                    hint="each removal of a device makes a key: find out what removes so many, then start a new vault",
                )
            key = VaultKey(held.vault_id, self._rng(KEY_BYTES), now.wall_us)
            rotated = KeyFile(
                (key, *held.keys),
                {group.group_id: group.epoch_id for group in groups},
                readers,
                held.reader_secret or self._rng(KEY_BYTES),
            )
            self._file.write(rotated)
        return rotated

    def _note(self, epochs: dict[GroupId, EpochId]) -> None:
        """Note that the newest key is good under these epochs."""
        with self._store.transaction():
            held = self._file.read()
            if not held.is_outdated(epochs):
                self._file.write(replace(held, epochs=epochs, reader_secret=held.reader_secret or self._rng(KEY_BYTES)))

    def _readers(self, groups: Groups) -> tuple[VaultKeyReader, ...]:
        """Return the readers of the next key (rule 3)."""
        held = self._file.read()
        members = {member.keys.signing_public for group in groups for member in group.members}
        nodes = {node_id(device): device for device in members - {self._identity.signing_public}}
        found = {each.device: each for each in held.readers if each.device in members}
        for device, shared in self._objects_of(nodes, held):
            if device in found or _names(shared, held):
                found[device] = VaultKeyReader(shared.reader_public, device)
        named = [each for each in held.readers if each.device is None]
        devices = sorted(found.values(), key=lambda each: each.public)
        return tuple([*named, *devices][:MAXIMUM_VAULT_READERS])

    def _objects_of(self, nodes: dict[NodeId, DeviceKey], held: KeyFile) -> list[tuple[DeviceKey, KeyObject]]:
        found = []
        for key in self._objects.keys(key_object_prefix(held.vault_id)):
            try:
                node = node_of_key_object_key(key)
                content = self._objects.get(key, MAXIMUM_KEY_OBJECT_BYTES) if node in nodes else None
                if content is not None:
                    found.append((nodes[node], read_key_object(held.vault_id, node, content)))
            except RemoteError:
                continue  # nobody is a reader by an object that is damaged
        return found

    def _publish(self) -> None:
        """Put the key object where it does not say yet what the file does (rule 2).

        Raises:
            StorageError: the store refused.
        """
        held = self._file.read()
        if self._published == _version(held):
            return
        name = key_object_key(held.vault_id, node_id(self._identity.signing_public))
        for _ in range(_TRIES):
            before = self._objects.get(name, MAXIMUM_KEY_OBJECT_BYTES)
            held = self._file.read()  # after what stands there: so nothing newer is written over
            if before is None or not self._says(before, held):
                try:
                    self._objects.replace(name, seal_key_object(self._identity, held, self._rng), before)
                except ConflictError:
                    continue
            self._published = _version(held)
            return
        raise StorageError("another process of this device publishes vault keys at the same time")

    def _says(self, content: bytes, held: KeyFile) -> bool:
        try:
            found = read_key_object(held.vault_id, node_id(self._identity.signing_public), content)
        except RemoteError:
            return False
        same = found.key_id == held.newest.key_id and found.reader_public == held.reader_public
        return same and found.sealed.keys() == {hint_of(each.public) for each in held.readers}


def _version(content: KeyFile) -> tuple[bytes, frozenset[VaultKeyReader]]:
    return content.newest.key_id, frozenset(content.readers)


def _names(shared: KeyObject, held: KeyFile) -> bool:
    try:
        return held.newest in shared.open(held.ring())
    except RemoteError:
        return False
