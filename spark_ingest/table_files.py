"""Where tables lie and of which files they consist, for readers that are not Spark. Parquet and Delta alike.

A Delta table's files are those that its log lists; a Parquet table's are all of its committed micro-batches. Either
way they are plain Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.errors import ConfigurationError

TABLES = ("readings", "devices", "gaps", "losses", "quarantine")

_MARK = "covey.json"
"""What the ingest puts beside the tables that it writes."""


def checked_root(location: str) -> Path:
    """Return the folder of the tables.

    Raises:
        ConfigurationError: there is none, or no ingest has written to it.
    """
    root = Path(location).absolute()
    hint = "give the folder that covey ingest writes its tables to"
    if "://" in location:
        raise ConfigurationError(f"the report reads tables in a folder, not {location[:80]}", hint=hint)
    if not root.is_dir():
        raise ConfigurationError(f"there is no folder {root}", hint=hint)
    if not (root / _MARK).is_file() and not any((root / table).is_dir() for table in TABLES):
        raise ConfigurationError(f"{root} holds no tables of the ingest", hint=hint)
    return root


def table_files(root: Path, table: str) -> list[Path]:
    """Return a table's data files, sorted; none where there is no such table yet.

    Raises:
        ConfigurationError: it is a Delta table, and what reads its log is not installed.
    """
    folder = root / table
    if (folder / "_delta_log").is_dir():
        return sorted(_delta_files(folder))
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith((".", "_")))


def _delta_files(folder: Path) -> Iterator[Path]:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise ConfigurationError(
            f"{folder} is a Delta table, and nothing here reads one", hint="pip install 'covey[delta]'"
        ) from None
    for uri in DeltaTable(folder).file_uris():
        yield Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else Path(uri)
