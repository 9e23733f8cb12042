"""Sealed objects of a vault: `header || nonce || sealed` (docs/protocol/vault.md, "Vault").

Clear header of all: a 6-byte magic and the 8-byte id of the vault key. The sealed content is bound to the place that
its key in the store names.
"""

from __future__ import annotations

import hashlib

from covey.core import crypto
from covey.core.vault.keys import VaultKey
from covey.errors import DecryptionError, LimitError, MalformedError

_HEADER_BYTES = 6 + 8


def seal_object(magic: bytes, key: VaultKey, binding: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    """Return `header || nonce || sealed`, as all objects of a vault are."""
    header = magic + key.key_id
    return header + nonce + crypto.aead_seal(plaintext, header + binding, nonce, key.key)


def open_object(magic: bytes, key: VaultKey, binding: bytes, content: bytes, maximum: int) -> bytes:
    """Return what `seal_object` sealed.

    Raises:
        RemoteError: too long, of another kind, or sealed with another key or for another place.
    """
    if len(content) > maximum:
        raise LimitError(f"the vault object has more than {maximum} bytes")
    header, nonce = content[:_HEADER_BYTES], content[_HEADER_BYTES : _HEADER_BYTES + crypto.NONCE_BYTES]
    if len(nonce) != crypto.NONCE_BYTES or not header.startswith(magic):
        raise MalformedError("not a vault object of this kind")
    if header != magic + key.key_id:
        raise DecryptionError("the object is sealed with another vault key")
    return crypto.aead_open(content[_HEADER_BYTES + crypto.NONCE_BYTES :], header + binding, nonce, key.key)


def content_nonce(key: VaultKey, binding: bytes, plaintext: bytes) -> bytes:
    """Return the nonce of an object that is named by its content: the same content gives the same object."""
    hashed = hashlib.blake2b(key=key.key, digest_size=crypto.NONCE_BYTES, person=b"covey/1 merge")
    hashed.update(len(binding).to_bytes(8, "big") + binding + plaintext)
    return hashed.digest()
