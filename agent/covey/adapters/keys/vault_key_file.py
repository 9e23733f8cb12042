"""A file with a vault's id, its keys, and the readers of these keys (docs/protocol/vault.md, section 14).

1. A device's own file, `vault.key`, is wrapped with the device's storage key, and has a second copy.
2. A copy for a reader is plain: the reader has no key of this device.
3. A plain file that a person puts in the own file's place replaces it: the next one who reads it wraps it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.keys.identity_file import MAXIMUM_FILE_BYTES, read_seed
from covey.adapters.keys.key_file import (
    copy_of,
    mend_secret,
    read_secret,
    read_secret_twice,
    replace_found,
    write_secret,
    write_secret_twice,
)
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.wrapped_file import is_wrapped_content, unwrapped, wrapped
from covey.core.crypto import wipe
from covey.core.ids import KEY_BYTES, VAULT_ID_BYTES, VaultId
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.errors import ConfigurationError, DecryptionError
from covey.limits.vault import MAXIMUM_KEY_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = "vault.key"
"""What the own file is bound to, wherever the state folder is."""
_MAXIMUM_BYTES = 2 * MAXIMUM_KEY_FILE_BYTES
"""Wrapped it is in base64."""
EXPORT_HINT = "on the device that owns it: covey vault export-key FILE; then name that copy"


@dataclass(frozen=True, slots=True)
class VaultKeyFile:
    """The file. `opens` returns the storage key of the device whose own it is, which is wiped; None for a copy."""

    path: Path
    opens: Callable[[], StorageKey] | None = field(default=None, repr=False)

    def exists(self) -> bool:
        """Say whether there are keys already."""
        return self.path.exists() or (self.opens is not None and copy_of(self.path).exists())

    def draw(self, now_us: int) -> None:
        """Draw a vault's id and its first key, if there are none; for a device's own file."""
        if not self.exists():
            key = VaultKey(VaultId(secrets.token_bytes(VAULT_ID_BYTES)), secrets.token_bytes(KEY_BYTES), now_us)
            write_secret_twice(self.path, self._stored(KeyFile((key,))), only_first=True)

    def read(self) -> KeyFile:
        """Return the file's content.

        Raises:
            ConfigurationError: missing, damaged, another device's, or others may read it.
            TransientError: what seals the device's key does not open it now.
        """
        if self.opens is None:
            return _parsed(read_secret(self.path, _MAXIMUM_BYTES))
        problem: ConfigurationError | None = None
        found = read_secret_twice(self.path, _MAXIMUM_BYTES)
        for raw in found:
            try:
                content = self._opened(raw)
            except ConfigurationError as error:
                problem = problem or error
                continue
            if is_wrapped_content(raw):
                mend_secret(self.path, raw, found)
            else:
                replace_found(self.path, self._stored(content), found)
            return content
        assert problem is not None
        raise problem

    def write(self, content: KeyFile) -> None:
        """Replace the file durably.

        Raises:
            StorageError: the disk refused.
        """
        write = write_secret if self.opens is None else write_secret_twice
        write(self.path, self._stored(content))

    def _stored(self, content: KeyFile) -> bytes:
        text = content.to_text().encode()
        if self.opens is None:
            return text
        storage_key = self.opens()
        try:
            return wrapped(text, storage_key, _NAME)
        finally:
            storage_key.wipe()

    def _opened(self, raw: bytearray) -> KeyFile:
        if self.opens is None or not is_wrapped_content(raw):
            return _parsed(raw)
        storage_key = self.opens()
        try:
            return _parsed(unwrapped(raw, storage_key, _NAME))
        except DecryptionError as error:
            raise ConfigurationError(
                f"{self.path} is damaged, or another device's",
                hint=f"restore it from a backup of this device; or take a copy of the keys. {EXPORT_HINT}",
            ) from error
        finally:
            storage_key.wipe()


def read_vault_keys(path: Path) -> KeyFile:
    """Read a key file for a program that is not the device: a copy, or the own file of the device in the same folder.

    The device's key is needed for that, and wiped at once. It must open without a person.

    Raises:
        ConfigurationError: missing, damaged, others may read it; or the device's key needs a passphrase or a PIN.
        TransientError: what seals the device's key does not open it now.
    """
    if not is_wrapped_content(read_secret(path, _MAXIMUM_BYTES)):
        return VaultKeyFile(path).read()
    identity = path.with_name("identity.key")
    problem: ConfigurationError | None = None
    for raw in read_secret_twice(identity, MAXIMUM_FILE_BYTES):
        try:
            seed = read_seed(raw, identity, _nobody)
        except ConfigurationError as error:
            problem = problem or error
            continue
        finally:
            wipe(raw)
        try:
            return VaultKeyFile(path, lambda seed=seed: StorageKey(seed.reveal())).read()  # type: ignore[misc]
        except ConfigurationError as error:
            problem = problem or error
        finally:
            seed.wipe()
    assert problem is not None
    raise problem


def _nobody() -> bytearray:
    raise ConfigurationError("the key of the device needs a passphrase or PIN to open its vault.key", hint=EXPORT_HINT)


def _parsed(text: bytes | bytearray) -> KeyFile:
    if is_wrapped_content(text):
        raise ConfigurationError("this vault.key opens for its own device alone", hint=EXPORT_HINT)
    return KeyFile.parse(text.decode(errors="replace"))
