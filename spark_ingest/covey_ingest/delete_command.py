"""`covey ingest delete` and `covey ingest retain`: delete rows from tables, or say how many would go."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from covey.config.ingest_options import delete_parser, retain_parser
from covey.errors import MissingPackageError, StorageError
from covey_ingest import deletions
from covey_ingest.deletions import Deletions
from covey_ingest.table_lock import locked

if TYPE_CHECKING:
    from covey_ingest.deleting import Due
    from covey_ingest.table_locations import Bucket

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Deleted:
    """What went, or would go: rows by table."""

    what: str
    is_done: bool
    rows: dict[str, int]

    def to_json(self) -> str:
        """Return a document of it."""
        return json.dumps({"deleted": self.is_done, "what": self.what, "rows": self.rows})

    def __str__(self) -> str:
        rows = ", ".join(f"{rows} of {table}" for table, rows in self.rows.items()) or "no rows"
        return f"{'deleted' if self.is_done else 'would delete'} {self.what}: {rows}"


def main(words: list[str]) -> int:
    """Do it, and print what went.

    Raises:
        CoveyError: it cannot be done.
    """
    if find_spec("pyarrow") is None:
        raise MissingPackageError("what deletes from tables", "pyarrow", in_debian=False)
    done, as_json = _delete_device(words[1:]) if words[0] == "delete" else _retain(words[1:])
    print(done.to_json() if as_json else done)
    return 0


def _delete_device(words: list[str]) -> tuple[Deleted, bool]:
    from covey_ingest.deleting import of_author, whole_key

    options = delete_parser().parse_args(words)
    until_us = time.time_ns() // 1000
    author = whole_key(options.author, lambda: _authors(options.tables))

    def noted(before: Deletions) -> Deletions:
        return before.with_author(author, until_us)

    rows = _delete(options.tables, of_author(author), noted, dry_run=options.dry_run)
    return Deleted(f"all of {author}", not options.dry_run, rows), options.json


def _retain(words: list[str]) -> tuple[Deleted, bool]:
    from covey_ingest.deleting import of_before

    options = retain_parser().parse_args(words)
    bound_us = time.time_ns() // 1000 - options.days * _DAY_US

    def noted(before: Deletions) -> Deletions:
        return before.with_bound(bound_us)

    rows = _delete(options.tables, of_before(bound_us), noted, dry_run=options.dry_run)
    return Deleted(f"what is older than {options.days} days", not options.dry_run, rows), options.json


def _authors(tables: Path | str) -> list[str]:
    from covey_ingest import deleting, store_deleting

    root = _root(tables)
    return deleting.authors(root) if isinstance(root, Path) else store_deleting.authors(root)


def _delete(tables: Path | str, due: Due, noted: Callable[[Deletions], Deletions], *, dry_run: bool) -> dict[str, int]:
    from covey_ingest import store_deleting
    from covey_ingest.deleting import counted, delete

    root = _root(tables)
    if not isinstance(root, Path):
        return store_deleting.counted(root, due) if dry_run else store_deleting.delete(root, due, noted)
    if dry_run:
        return counted(root, due)
    try:
        with locked(root):
            return delete(root, due, noted(deletions.read(root)))
    except OSError as error:
        raise StorageError(f"the tables at {root} refused: {error}") from error


def _root(tables: Path | str) -> Path | Bucket:
    """Return where the tables are."""
    from covey_ingest.table_files import checked_root

    if isinstance(tables, str) and find_spec("deltalake") is None:
        raise MissingPackageError("what deletes from tables in an object store", "deltalake", in_debian=False)
    return checked_root(str(tables))
