"""The symmetric keys of a vault: one more for each rotation, all in one key file (`key_file.py`).

Objects are sealed with the newest. Each names its key by an id in its clear header, so a current file opens old and new
objects alike; an old file opens nothing new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from covey.core.ids import VaultId
from covey.errors import DecryptionError, UnknownVaultKeyError

_MAGIC = b"HX"
_HEADER_BYTES = 6 + 8


@dataclass(frozen=True, slots=True)
class VaultKey:
    """The symmetric key that seals a vault, and the vault's id. `repr` never shows the key."""

    vault_id: VaultId
    key: bytes = field(repr=False)
    since_us: int = field(default=0, compare=False)
    """When it was drawn, in microseconds since 1970 by the clock of who drew it; 0 where nobody has noted that."""

    @property
    def key_id(self) -> bytes:
        """8 bytes that name the key in clear headers."""
        return hashlib.blake2b(self.key, digest_size=8, person=b"covey/1 vkey id").digest()


class KeyRing:
    """The keys of one vault, newest first; and those that were found shared with who holds `reader_secret`."""

    def __init__(self, keys: tuple[VaultKey, ...], reader_secret: bytes | None = None) -> None:
        self.keys = keys
        self.reader_secret = reader_secret
        self._by_id = {key.key_id: key for key in keys}

    @property
    def newest(self) -> VaultKey:
        """The key that new objects are sealed with."""
        return self.keys[0]

    @property
    def vault_id(self) -> VaultId:
        """The vault that all keys are of."""
        return self.newest.vault_id

    def named(self, key_id: bytes) -> VaultKey | None:
        """Return the key of an id."""
        return self._by_id.get(key_id)

    def learn(self, keys: Iterable[VaultKey]) -> None:
        """Open with these, too."""
        self._by_id |= {key.key_id: key for key in keys}

    def for_object(self, content: bytes) -> VaultKey:
        """Return the key that a vault object's clear header names: 6 bytes of magic, then the key's id.

        Raises:
            DecryptionError: this is no vault object.
            UnknownVaultKeyError: none of ours.
        """
        if content[:2] != _MAGIC or len(content) < _HEADER_BYTES:
            raise DecryptionError("not a vault object")
        key = self._by_id.get(bytes(content[6:_HEADER_BYTES]))
        if key is None:
            raise UnknownVaultKeyError
        return key
