"""The last good manifest of each node, sealed as it was, in a directory of the ingest's own."""

from __future__ import annotations

import os
from pathlib import Path


class FolderMemory:
    """Implements `agent.core.vault_reading.ManifestMemory`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def load(self, node: str) -> bytes | None:
        """Return what was saved for a node."""
        try:
            return (self._root / node).read_bytes()
        except FileNotFoundError:
            return None

    def save(self, node: str, content: bytes) -> None:
        """Keep a manifest durably, before any offset depends on it."""
        self._root.mkdir(parents=True, exist_ok=True)
        temporary = self._root / f".{node}.new"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._root / node)
        folder = os.open(self._root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
