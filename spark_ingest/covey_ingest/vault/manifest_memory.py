"""The last good manifest of each node, sealed as it was, in a directory of the ingest's own."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.files import replace_file


class FolderMemory:
    """Implements `covey.core.vault.reading.ManifestMemory`."""

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
        replace_file(self._root / node, content, 0o666)
