"""A node's key object: its vault keys, sealed for the allowed readers (docs/protocol/vault.md, section 13, "Sharing
keys").

The newest key is sealed for each reader separately, the older ones under the newest. So a reader that missed any number
of rotations needs one object, and a former reader opens nothing of it.

    1. It is signed by the key whose node id matches its place, and names vault and node.
    2. A reader finds its seal by a hash of its public key: the object reveals the node, and no reader.
    3. A seal contains the key that the object names, which opens the node's own list of keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from covey.core import crypto
from covey.core.crypto import NONCE_BYTES, Identity
from covey.core.ids import (
    KEY_BYTES,
    NODE_ID_BYTES,
    VAULT_ID_BYTES,
    DeviceKey,
    NodeId,
    NoisePublic,
    VaultId,
    from_hex,
    node_id,
)
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.wire import cbor
from covey.errors import DecryptionError, MalformedError, UnknownVaultKeyError, WrongVaultError
from covey.limits.vault import (
    MAXIMUM_KEY_OBJECT_BYTES,
    MAXIMUM_KEY_OBJECT_ITEMS,
    MAXIMUM_VAULT_KEYS,
    MAXIMUM_VAULT_READERS,
)

_DOMAIN = b"covey/1 vault keys"
_SEALED_KEY_BYTES = KEY_BYTES + crypto.SEAL_BYTES
_HINT_BYTES = 8
_SUFFIX = ".hxkey"


def key_object_prefix(vault_id: VaultId) -> str:
    """Return the prefix under which all nodes' key objects lie."""
    return f"vaults/{vault_id.hex()}/objects/keys/"


def key_object_key(vault_id: VaultId, node: NodeId) -> str:
    """Return the key of a node's key object."""
    return f"{key_object_prefix(vault_id)}{node.hex()}{_SUFFIX}"


def node_of_key_object_key(key: str) -> NodeId:
    """Return the node id that a key object's key names.

    Raises:
        MalformedError: not a key object's key.
    """
    name = key.rpartition("/")[2]
    if not name.endswith(_SUFFIX):
        raise MalformedError("not a key object's key")
    return NodeId(from_hex(name.removesuffix(_SUFFIX), NODE_ID_BYTES))


def hint_of(reader: NoisePublic) -> bytes:
    """Return what a reader finds its seal by."""
    return hashlib.blake2b(reader, digest_size=_HINT_BYTES, person=b"covey/1 vkeyhint").digest()


@dataclass(frozen=True, slots=True)
class KeyObject:
    """A key object whose signature verified; `open` takes a reader's own keys."""

    vault_id: VaultId
    signing_public: DeviceKey
    reader_public: NoisePublic
    key_id: bytes
    ephemeral_public: NoisePublic
    nonce: bytes
    sealed: dict[bytes, bytes]
    """The newest key, sealed for each reader, by the reader's hint."""
    keys: bytes
    """All of the node's keys, newest first, sealed under the newest."""

    def open(self, ring: KeyRing) -> tuple[VaultKey, ...]:
        """Return the node's keys, newest first.

        Raises:
            RemoteError: rule 3, or nothing is sealed for who holds the ring.
        """
        newest = ring.named(self.key_id) or self._unsealed(ring.reader_secret)
        binding = _binding(self.vault_id, node_id(self.signing_public))
        plaintext = crypto.aead_open(self.keys, binding, self.nonce, newest.key)
        value = cbor.decode(plaintext, MAXIMUM_KEY_OBJECT_BYTES, MAXIMUM_KEY_OBJECT_ITEMS)
        found = cbor.many(_read_key, MAXIMUM_VAULT_KEYS)(value)
        keys = tuple([VaultKey(self.vault_id, key, since_us) for key, since_us in found])
        if not keys or keys[0] != newest:
            raise MalformedError("the key object contains other keys than it names")
        return keys

    def _unsealed(self, reader_secret: bytes | None) -> VaultKey:
        sealed = None
        if reader_secret is not None:
            sealed = self.sealed.get(hint_of(NoisePublic(crypto.scalar_base(reader_secret))))
        if sealed is None or reader_secret is None:
            raise UnknownVaultKeyError
        key = VaultKey(self.vault_id, crypto.box_open(sealed, self.nonce, self.ephemeral_public, reader_secret))
        if key.key_id != self.key_id:
            raise DecryptionError("the key is not the one that the object names")
        return key


def seal_key_object(identity: Identity, content: KeyFile, rng: Callable[[int], bytes]) -> bytes:
    """Return a node's key object, for the readers that its key file names."""
    assert content.reader_public is not None, "whoever seals can be sealed for"
    newest, nonce, ephemeral = content.newest, rng(NONCE_BYTES), rng(KEY_BYTES)
    node = node_id(identity.signing_public)
    sealed = {
        hint_of(reader.public): crypto.box_seal(newest.key, nonce, reader.public, ephemeral)
        for reader in content.readers
    }
    keys = cbor.encode([[key.key, key.since_us] for key in content.keys])
    document = cbor.encode_growing(
        [
            1,
            content.vault_id,
            node,
            identity.signing_public,
            content.reader_public,
            newest.key_id,
            crypto.scalar_base(ephemeral),
            nonce,
            [[hint, sealed[hint]] for hint in sorted(sealed)],
            crypto.aead_seal(keys, _binding(content.vault_id, node), nonce, newest.key),
        ]
    )
    return cbor.encode([crypto.sign(_DOMAIN, document, identity), document])


def read_key_object(vault_id: VaultId, node: NodeId, content: bytes) -> KeyObject:
    """Read the key object that stands under a node's key.

    Raises:
        RemoteError: malformed, of another vault or node, or not signed by it (rule 1).
    """
    signature, document = cbor.record(
        cbor.decode(content, MAXIMUM_KEY_OBJECT_BYTES),
        "key object",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_KEY_OBJECT_BYTES),
    )
    version, named_vault, named_node, signing_public, reader, key_id, ephemeral, nonce, sealed, keys = cbor.record(
        cbor.decode_growing(document, MAXIMUM_KEY_OBJECT_BYTES),
        "key object document",
        cbor.uint(255),
        cbor.octets(VAULT_ID_BYTES),
        cbor.octets(NODE_ID_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.octets(8),
        cbor.octets(KEY_BYTES),
        cbor.octets(NONCE_BYTES),
        cbor.many(_read_sealed, MAXIMUM_VAULT_READERS),
        cbor.octets_to(MAXIMUM_KEY_OBJECT_BYTES),
    )
    if version != 1:
        raise MalformedError(f"key object version {version}: a newer Covey?")
    if named_vault != vault_id or named_node != node or node_id(signing_public) != node:
        raise WrongVaultError("the key object's ids do not match its key")
    crypto.verify(_DOMAIN, document, signature, signing_public)
    crypto.check_noise_key(reader)
    return KeyObject(vault_id, signing_public, reader, key_id, ephemeral, nonce, dict(sealed), keys)


def _read_sealed(value: object) -> tuple[bytes, bytes]:
    hint, sealed = cbor.record(value, "sealed key", cbor.octets(_HINT_BYTES), cbor.octets(_SEALED_KEY_BYTES))
    return hint, sealed


def _read_key(value: object) -> tuple[bytes, int]:
    key, since_us = cbor.record(value, "vault key", cbor.octets(KEY_BYTES), cbor.uint())
    return key, since_us


def _binding(vault_id: VaultId, node: NodeId) -> bytes:
    return cbor.encode(["covey/1 vault keys", vault_id, node])
