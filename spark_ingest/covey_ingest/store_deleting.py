"""Deletes from tables in an object store: what `deleting` does for those in a folder. Needs no Spark.

1. It is a run as an ingest is one (rule 3 of `store_log`): it shuts out the one before, and one that begins meanwhile
   shuts it out. What was deleted is noted once its number is taken, and an ingest reads the note once it has taken its
   own; so who finds after noting that its number is still the last one is read by all that come after it.
2. The state is put before a row goes, since it stands for files that are asked for by their names; and what a killed
   ingest has left of a micro-batch in some tables is taken out, since rows that are written anew lose that name.
3. State that names the device goes first, and then a table loses rows in one commit of its log, `readings` last: who
   was interrupted, whenever it was, says it again. Objects that held them, and changes, go a day later, by the ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from covey.adapters.objects.cloud import brief
from covey.errors import ConflictError, StorageError
from covey.limits.tables import MAXIMUM_DELETIONS_BYTES
from covey_ingest import deletions
from covey_ingest.deleting import Due, purge_states
from covey_ingest.deletions import Deletions
from covey_ingest.store_tables import StoreTables
from covey_ingest.table_locations import Bucket, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable


def counted(bucket: Bucket, due: Due) -> dict[str, int]:
    """Return how many rows would go, by table; tables that have none are left out.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    found = {name: _count(bucket, name, due) for name in due.tables}
    return {name: rows for name, rows in found.items() if rows}


def authors(bucket: Bucket) -> list[str]:
    """Return the keys of the devices in the tables, in hex.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    with _opened(bucket, "devices") as table:
        return [] if table is None else table.to_pyarrow_table(columns=["author"])["author"].to_pylist()


def delete(bucket: Bucket, due: Due, noted: Callable[[Deletions], Deletions]) -> dict[str, int]:
    """Delete rows, and note it: `noted` adds to what was deleted before. Return how many went, by table.

    Raises:
        ConfigurationError: the tables are published ones; or an ingest has begun meanwhile, and it is to be said again.
        StorageError: the store refused, or was not reached; what was noted holds, and the rest can be retried.
    """
    with (
        TemporaryDirectory(prefix="covey-deleting-") as folder,
        StoreTables(bucket.url, Path(folder) / "tables") as tables,
    ):
        _note(bucket, noted)
        tables.log.check_last()
        tables.log.drop_left()
        found = counted(bucket, due)
        purge_states(tables.root, due)
        tables.put_state()
        for name in due.tables:
            if name in found:
                tables.log.delta.delete(name, due.sql)
    return found


def _note(bucket: Bucket, noted: Callable[[Deletions], Deletions]) -> None:
    """Add to what was deleted, where nobody else does meanwhile."""
    content = bucket.store.get(deletions.NAME, MAXIMUM_DELETIONS_BYTES)
    where = f"{bucket.url}/{deletions.NAME}"
    before = Deletions() if content is None else Deletions.from_bytes(content, where)
    try:
        bucket.store.replace(deletions.NAME, noted(before).to_bytes(), content)
    except ConflictError as error:
        raise StorageError(f"somebody else has replaced {where}", hint="say it again: one at a time") from error


def _count(bucket: Bucket, name: str, due: Due) -> int:
    with _opened(bucket, name) as table:
        return 0 if table is None else table.to_pyarrow_dataset().scanner(filter=due.rows).count_rows()


@contextmanager
def _opened(bucket: Bucket, name: str) -> Iterator[DeltaTable | None]:
    """Open a table, if there is one, and turn the errors of reading it into ours."""
    from deltalake.exceptions import DeltaError

    try:
        yield open_table(bucket.uri(name), bucket.options)
    except (DeltaError, OSError) as error:
        raise StorageError(f"{bucket.uri(name)} cannot be read: {brief(error)}") from error
