"""Vaults' key files: in memory, and the copy that a reader without the device's key gets."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.keys.vault_key_file import VaultKeyFile, read_vault_keys
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


def plain_copy(own: Path, target: Path) -> Path:
    """Write a copy of a device's own keys, as `covey vault export-key` does, also over an earlier one."""
    VaultKeyFile(target).write(read_vault_keys(own).copy())
    return target
