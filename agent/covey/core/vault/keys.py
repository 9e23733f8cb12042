"""The symmetric keys of a vault: one more for each rotation, all in one key file (docs/protocol.md, 14).

Objects are sealed with the newest. Each names its key by an id in its clear header, so whoever holds the file opens old
and new ones alike; whoever holds an old file opens nothing new.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from covey.core.ids import KEY_BYTES, VAULT_ID_BYTES, VaultId, from_hex
from covey.errors import ConfigurationError, DecryptionError, MalformedError


@dataclass(frozen=True, slots=True)
class VaultKey:
    """The symmetric key that seals a vault, and the vault's id. `repr` never shows the key."""

    vault_id: VaultId
    key: bytes = field(repr=False)

    @property
    def key_id(self) -> bytes:
        """8 bytes that name the key in clear headers."""
        return hashlib.blake2b(self.key, digest_size=8, person=b"covey/1 vkey id").digest()


def key_file_text(*keys: VaultKey) -> str:
    """Return the content of a key file with a vault's keys, newest first; only its owner may read it (mode 0600)."""
    entries = [{"key_id": key.key_id.hex(), "key": key.key.hex()} for key in keys]
    return json.dumps({"vault_id": keys[0].vault_id.hex(), "keys": entries}, indent=2) + "\n"


def key_from_file_text(text: str) -> tuple[VaultKey, ...]:
    """Parse a vault key file: the vault's keys, newest first.

    Raises:
        ConfigurationError: not a key file, or a key that does not match its id. The message never holds the content.
    """
    try:
        document = json.loads(text)
        vault_id = VaultId(from_hex(document["vault_id"], VAULT_ID_BYTES))
        keys = tuple([VaultKey(vault_id, from_hex(entry["key"], KEY_BYTES)) for entry in document["keys"]])
        named = [from_hex(entry["key_id"], 8) for entry in document["keys"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MalformedError):
        raise _bad_key_file() from None
    if not keys or named != [key.key_id for key in keys] or len(set(named)) != len(named):
        raise _bad_key_file()
    return keys


def _bad_key_file() -> ConfigurationError:
    return ConfigurationError(
        "not a vault key file",
        hint="take a fresh copy of vault.key from the collector that owns the vault",
    )


class KeyRing:
    """The keys of one vault, newest first."""

    def __init__(self, keys: tuple[VaultKey, ...]) -> None:
        self.keys = keys
        self._by_id = {key.key_id: key for key in keys}

    @property
    def newest(self) -> VaultKey:
        """The key that new objects are sealed with."""
        return self.keys[0]

    @property
    def vault_id(self) -> VaultId:
        """The vault that all keys are of."""
        return self.newest.vault_id

    def for_object(self, content: bytes) -> VaultKey:
        """Return the key that a vault object's clear header names: 6 bytes of magic, then the key's id.

        Raises:
            DecryptionError: none of ours.
        """
        key = self._by_id.get(bytes(content[6:14]))
        if key is None:
            raise DecryptionError("sealed with a vault key that the key file does not hold")
        return key
