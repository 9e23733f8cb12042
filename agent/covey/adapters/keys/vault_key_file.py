"""`vault.key`: a vault's id, the keys of its segments, and the readers of these keys."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.keys.key_file import read_secret, write_secret
from covey.core.ids import KEY_BYTES, VAULT_ID_BYTES, VaultId
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.limits.vault import MAXIMUM_KEY_FILE_BYTES


@dataclass(frozen=True, slots=True)
class VaultKeyFile:
    """The file, which the ingest is pointed at, too."""

    path: Path

    def exists(self) -> bool:
        """Say whether there are keys already."""
        return self.path.exists()

    def draw(self, now_us: int) -> None:
        """Draw a vault's id and its first key, if there are none."""
        if not self.exists():
            key = VaultKey(VaultId(secrets.token_bytes(VAULT_ID_BYTES)), secrets.token_bytes(KEY_BYTES), now_us)
            self.write(KeyFile((key,)))

    def read(self) -> KeyFile:
        """Return the file's content.

        Raises:
            ConfigurationError: missing, damaged, or others may read it.
        """
        text = read_secret(self.path, MAXIMUM_KEY_FILE_BYTES)
        return KeyFile.parse(text.decode(errors="replace"))

    def write(self, content: KeyFile) -> None:
        """Replace the file durably.

        Raises:
            StorageError: the disk refused.
        """
        write_secret(self.path, content.to_text().encode())
