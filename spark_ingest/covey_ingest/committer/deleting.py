"""Delete from the tables: all rows of a device, or what collectors received before some moment. Needs no Spark.

1. A deletion is a run like an engine's (rule 4 of `tables`): it stops the run before, and a later run stops it; in a
   folder it does not wait, and is refused while an engine runs. The deletion is noted once its number is taken, and an
   engine reads the note after taking its own; so every later run knows it.
2. The state is stored before a row is deleted, since it refers to files by name; leftovers of a killed run's
   micro-batch are removed from tables, since rewritten rows lose that name.
3. State that names the device goes first, and then each table loses rows in one commit of its log, `readings` last:
   after an interruption, the same command deletes the rest. An engine deletes the replaced files, and changes, a day
   later.
4. A manifest that lists nobody else would be forgotten with its one member, and the one it replaced would seem current.
   Its collector, which is a member as well, is in each landed manifest: so this can happen only to a collector alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from covey.adapters.objects.cloud import brief
from covey.core.ids import KEY_BYTES
from covey.errors import ConfigurationError, ConflictError, StorageError
from covey.limits.tables import MAXIMUM_DELETIONS_BYTES
from covey_ingest.committer import deletions
from covey_ingest.committer.copies import Copies
from covey_ingest.committer.deletions import Deletions
from covey_ingest.committer.delta_log import STATE_TABLES
from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.committer.table_locations import TableLocation, open_table
from covey_ingest.committer.tables import opened_tables
from covey_ingest.task.columns import TIMESTAMP

if TYPE_CHECKING:
    from deltalake import DeltaTable

_OF_DEVICES = ("summaries", "losses", "commands", "settings", "quarantine", "memberships", "rollups", "readings")
_AGED = ("summaries", "losses", "quarantine", "readings")


@dataclass(frozen=True, slots=True)
class Due:
    """Which rows go, of which tables: for pyarrow, and in the SQL of the Delta library. None of it is ever null."""

    tables: tuple[str, ...]
    rows: pc.Expression
    sql: str


def whole_key(beginning: str, authors: Callable[[], list[str]]) -> str:
    """Return the key of the one of these devices whose key begins so; a whole key is asked of nobody.

    Raises:
        ConfigurationError: there is none, or more than one.
    """
    if len(beginning) == 2 * KEY_BYTES:
        return beginning
    found = sorted({author for author in authors() if author.startswith(beginning)})
    if len(found) != 1:
        raise ConfigurationError(
            f"{len(found)} devices in these tables have a key that begins with {beginning!r}",
            hint="give the whole key: column author of the table devices",
        )
    return found[0]


def of_author(author: str) -> Due:
    """Return all rows of a device."""
    named = pc.field("author")
    return Due((*STATE_TABLES, *_OF_DEVICES), named.is_valid() & (named == author), f"author = '{author}'")


def of_before(moment_us: int) -> Due:
    """Return readings, losses and quarantine that collectors had before a moment, in microseconds since 1970."""
    had = pc.field("received_at")
    rows = had.is_valid() & (had < pa.scalar(moment_us, TIMESTAMP))
    moment = f"arrow_cast({moment_us}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return Due(_AGED, rows, f"received_at < {moment}")


def counted(location: TableLocation, due: Due) -> dict[str, int]:
    """Return how many rows would go, by table; tables that have none are left out.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    found = {name: _count(location, name, due) for name in due.tables}
    return {name: rows for name, rows in found.items() if rows}


def authors(location: TableLocation) -> list[str]:
    """Return the keys of the devices in the tables, in hex.

    Raises:
        StorageError: the store refused, or was not reached.
    """
    with _opened(location, "devices") as table:
        return [] if table is None else table.to_pyarrow_table(columns=["author"])["author"].to_pylist()


def delete(location: TableLocation, due: Due, noted: Callable[[Deletions], Deletions]) -> dict[str, int]:
    """Delete rows, and note it: `noted` adds to what was deleted before. Return how many went, by table.

    Raises:
        ConfigurationError: an engine writes these tables, or one has begun meanwhile: stop it, or say it again.
        StorageError: the store refused, or was not reached; what was noted holds, and the rest can be retried.
    """
    with opened_tables(location.name) as tables:
        _note(location, noted)
        tables.log.check_last()
        tables.log.drop_left()
        found = counted(location, due)
        _purge_states(tables.root, due)
        tables.put_state()
        for name in due.tables:
            if name in found:
                tables.log.delta.delete(name, due.sql)
    return found


def _note(location: TableLocation, noted: Callable[[Deletions], Deletions]) -> None:
    content = location.store.get(deletions.NAME, MAXIMUM_DELETIONS_BYTES)
    where = f"{location.name}/{deletions.NAME}"
    before = Deletions() if content is None else Deletions.from_bytes(content, where)
    try:
        Copies(location).replace(deletions.NAME, noted(before).to_bytes(), content)
    except ConflictError as error:
        raise StorageError(
            f"another process replaced {where}", hint="run only one deletion at a time; try again"
        ) from error


def _count(location: TableLocation, name: str, due: Due) -> int:
    with _opened(location, name) as table:
        return 0 if table is None else table.to_pyarrow_dataset().scanner(filter=due.rows).count_rows()


@contextmanager
def _opened(location: TableLocation, name: str) -> Iterator[DeltaTable | None]:
    from deltalake.exceptions import DeltaError

    try:
        yield open_table(location, name)
    except (DeltaError, OSError) as error:
        raise StorageError(f"{location.uri(name)} cannot be read: {brief(error)}") from error


def _purge_states(tables: Path, due: Due) -> None:
    """Delete rows in a committer's folder from everything that is replaced whole."""
    for name in STATE_TABLES:
        if name in due.tables:
            path = tables / name / f"{name}.parquet"
            rows, last = read_state(path, pa.schema([("author", pa.string())]))
            if last >= 0:
                replace_state(path, rows.filter(~due.rows), last)
