"""The writer of one node's part of a vault: its current manifest and the next one.

Several processes of one device may write: a collector, and a person's command. The conditional put keeps them apart:
a late one finds another manifest than it read, reads again, and continues from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.app.telemetry.node_keys import NodeKeys
from covey.app.telemetry.torn_manifest import relisted
from covey.core.crypto import NONCE_BYTES, Identity
from covey.core.ids import node_id
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.keys import VaultKey
from covey.errors import DecryptionError, MalformedError, StorageError, UnknownVaultKeyError
from covey.limits.vault import MANIFEST_KEPT_EACH, MAXIMUM_VAULT_MANIFEST_BYTES
from covey.ports import ObjectStore

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


class NodeVault:
    """Reads and replaces the manifest of this device's node. The keys are asked each time: they may be rotated."""

    def __init__(
        self,
        identity: Identity,
        keys: NodeKeys,
        store: SqliteStore,
        objects: ObjectStore,
        rng: Callable[[int], bytes],
    ) -> None:
        self.identity = identity
        self.node = node_id(identity.signing_public)
        self.keys = keys
        self.objects = objects
        self.manifest: VaultManifest | None = None
        self._store = store
        self._rng = rng
        self._key = documents.manifest_key(keys.ring().vault_id, self.node)
        self._sealed: bytes | None = None
        self._put: bytes | None = None
        """The manifest that was put last, whatever the store said."""
        self._known = False
        self._kept_upto = -MANIFEST_KEPT_EACH
        """The last position in the manifest that was kept here last (`torn_manifest.py`)."""
        self.was_torn = False
        """Whether the vault's manifest was torn, and was made again."""

    @property
    def newest_key(self) -> VaultKey:
        """The key that new objects are sealed with."""
        return self.keys.ring().newest

    def ensure_known(self) -> None:
        """Read the vault's manifest if it is not known: after an uncertain put, or after another process's. Raises as
        `load`."""
        published = self.manifest.manifest_seq if self.manifest else 0
        if not self._known or self._store.landing.manifest_floor() > published:
            self.load()

    def load(self, *, restored: bool = False) -> None:
        """Read the vault's manifest; if it was `restored`, an older one than was published is accepted.

        Raises:
            StorageError: it holds an older manifest than this device has published, or cannot be read.
            RemoteError: the manifest there is damaged, or not of this vault.
        """
        floor = self._store.landing.manifest_floor()
        content = self.objects.get(self._key, MAXIMUM_VAULT_MANIFEST_BYTES)
        if self._put is not None and content is not None and content != self._put and self._put.startswith(content):
            self.objects.replace(self._key, self._put, content)  # the store has torn it
            content = self._put
        manifest = None
        if content is not None:
            try:
                manifest = documents.open_vault_manifest(
                    self.keys.ring().for_object(content), self.node, content, 0 if restored else floor
                )
            except UnknownVaultKeyError:
                raise
            except (DecryptionError, MalformedError):
                if not self._relist(content):
                    raise
                return
        elif floor:
            raise StorageError(
                f"the vault has lost this device's manifest {floor}",
                hint="restore the vault from a backup, or use an empty vault with a new vault.key",
            )
        self._sealed, self.manifest, self._known = content, manifest, True

    def _relist(self, torn: bytes) -> bool:
        """Put another manifest in the place of a torn one; say no where something could be lost."""
        ring = self.keys.ring()
        manifest = relisted(ring, self.identity, self._store, self.objects)
        if manifest is None:
            return False
        self._sealed, self.was_torn = torn, True
        self.publish(manifest)
        return True

    def publish(self, manifest: VaultManifest, *, adds: bool = False) -> None:
        """Put the manifest that follows the one known; its objects are there already (004.12, 004.13).

        With `adds` it only lists one more segment. Any other one is kept here before this returns (`torn_manifest.py`).

        Raises:
            ConflictError: another process has replaced that one; `load` tells by what.
            StorageError: the store refused, or says so.
        """
        sealed = documents.seal_vault_manifest(self.newest_key, manifest, self.identity, self._rng(NONCE_BYTES))
        self._known, self._put = False, sealed  # until the store says yes, it may hold either
        self.objects.replace(self._key, sealed, self._sealed)
        self._sealed, self.manifest, self._known = sealed, manifest, True
        if not adds or manifest.last_number >= self._kept_upto + MANIFEST_KEPT_EACH:
            with self._store.transaction():
                self._store.landing.keep_manifest(sealed)
            self._kept_upto = manifest.last_number
