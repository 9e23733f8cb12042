"""A vault's key file in memory."""

from __future__ import annotations

from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey


class MemoryKeyFile:
    """Implements `node_keys.KeyFileAccess`: what was written lasts, whatever process ends."""

    def __init__(self, *keys: VaultKey) -> None:
        self.content = KeyFile(keys)

    def read(self) -> KeyFile:
        """Return what stands there."""
        return self.content

    def write(self, content: KeyFile) -> None:
        """Replace it, by way of the text."""
        self.content = KeyFile.parse(content.to_text())
