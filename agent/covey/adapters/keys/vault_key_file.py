"""`vault.key`: a vault's id and the keys that its segments are sealed with."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.keys.key_file import read_secret, write_secret
from covey.core.ids import VaultId
from covey.core.vault.keys import KeyRing, VaultKey, key_file_text, key_from_file_text

_MAXIMUM_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class VaultKeyFile:
    """The file, which the ingest is pointed at, too."""

    path: Path

    def exists(self) -> bool:
        """Say whether there are keys already."""
        return self.path.exists()

    def keys(self) -> KeyRing:
        """Read the keys; the first time, draw one, and the vault's id.

        Raises:
            ConfigurationError: damaged, or others may read it.
        """
        if not self.exists():
            self._write(KeyRing((VaultKey(VaultId(secrets.token_bytes(16)), secrets.token_bytes(32)),)))
        text = read_secret(self.path, _MAXIMUM_FILE_BYTES)
        return KeyRing(key_from_file_text(text.decode(errors="replace")))

    def rotate(self) -> KeyRing:
        """Draw a new key for what lands from now on; the older ones stay, as what they sealed stays."""
        before = self.keys()
        after = KeyRing((VaultKey(before.vault_id, secrets.token_bytes(32)), *before.keys))
        self._write(after)
        return after

    def copy_to(self, target: Path) -> None:
        """Write a copy for the ingest, mode 0600."""
        write_secret(target, key_file_text(*self.keys().keys).encode())

    def _write(self, keys: KeyRing) -> None:
        write_secret(self.path, key_file_text(*keys.keys).encode())
