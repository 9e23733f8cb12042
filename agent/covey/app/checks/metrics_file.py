"""A device's numbers as a file that node_exporter's textfile collector reads."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.files import replace_durably
from covey.errors import UsageError


def write_metrics(text: str, path: Path) -> None:
    """Replace the file, at once and readable to all.

    Raises:
        UsageError: node_exporter would not read a file of this name.
        StorageError: it cannot be written.
    """
    if path.suffix != ".prom":
        raise UsageError("--textfile must end in .prom", hint="node_exporter reads no other name")
    replace_durably(path, text.encode(), mode=0o644)
