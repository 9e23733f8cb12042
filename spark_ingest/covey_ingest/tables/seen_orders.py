"""Which rows of `orders`, `commands` and `settings` exist, and how many each author added on each day.

Both are in a small database next to the tables, which a micro-batch asks only about its own rows: that cost does not
grow with the tables. It needs no Spark.

1. A row is known by its key (`orders.KEYS`), exactly and permanently: by 16 bytes of its BLAKE2b hash.
2. Of one author a table accepts `ROWS_A_DAY` rows for each day on which collectors received them, by their clocks.
   Further ones are left out, counted, and reported in `quarantine`, because any member can sign any number of orders
   and reports. A row left out on one day may still arrive on another one, from another collector.
3. It is derived from the tables only: a committed micro-batch that it lacks is applied before the next comparison, and
   a database that is ahead of the tables, or missing, is rebuilt.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from covey_ingest.committer.committed import committed_after, is_committed
from covey_ingest.task.orders import KEYS

ROWS_A_DAY = {"orders": 10_000, "commands": 2_000, "settings": 10_000}
"""Rows of one author in each table: one every ten seconds. A command's row has up to 64 KiB of output, so that 2,000
are 125 MiB; one a minute is 1,440."""

EXCESS = "excess"
"""The reason by which `quarantine` tells of rows that were left out."""

_DAY_US = 86_400_000_000
_LIMIT = 500
"""Values in one question: fewer than SQLite takes."""

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS upto (batch INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS known (digest BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS brought (name TEXT, author TEXT, day INTEGER, rows INTEGER NOT NULL,
                                        PRIMARY KEY (name, author, day)) WITHOUT ROWID;
"""

_Place = tuple[str, int]
"""An author, and a day since 1970."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Rows of one author and day that a table does not take; `latest_us` is when the last of them came."""

    table: str
    author: str
    day: int
    rows: int
    latest_us: int


@dataclass(slots=True)
class Sifted:
    """What is to be left out of a micro-batch's rows: their places, and what of them is more than a table takes."""

    dropped: list[int] = field(default_factory=list)
    excess: list[Excess] = field(default_factory=list)


def path_in(tables: Path) -> Path:
    """Return the database's path, hidden from readers of the tables."""
    return tables / ".ordered" / "ordered.sqlite"


def update(tables: Path, newest: int | None = None) -> None:
    """Bring it up to date with the tables (rule 3); a damaged database is rebuilt.

    `newest` is the last committed micro-batch, if known.

    Raises:
        OSError: the disk refused.
    """
    try:
        _update(tables, newest)
    except sqlite3.OperationalError as error:
        raise OSError(f"{path_in(tables)}: {error}") from error
    except sqlite3.DatabaseError:
        path_in(tables).unlink()
        _update(tables, newest)


def _update(tables: Path, newest: int | None) -> None:
    if not path_in(tables).exists() and not any((tables / table).exists() for table in KEYS):
        return
    with closing(_opened(tables)) as database, database:
        [last] = database.execute("SELECT coalesce(max(batch), -1) FROM upto").fetchone()
        if not is_committed(tables, last):
            last = -1
            database.execute("DELETE FROM known")
            database.execute("DELETE FROM brought")
            database.execute("DELETE FROM upto")
        missing = committed_after(tables, last, newest)
        if missing:
            for table in KEYS:
                for part in _parts(tables / table, missing, merged=last == -1):
                    _take_in(database, table, part)
            database.execute("DELETE FROM upto")
            database.execute("INSERT INTO upto VALUES (?)", (missing[-1],))


def sift(tables: Path, table: str, rows: pa.Table, newest: int | None = None) -> Sifted:
    """Say which of a micro-batch's rows a table is not to take; `newest` is the last one before.

    `rows` are its `columns`, each key once, in the order in which they came.
    """
    update(tables, newest)
    digests, places, times = _keyed(table, rows)
    found = Sifted()
    excess: Counter[_Place] = Counter()
    with closing(_opened(tables)) as database:
        known = set(_known(database, digests))
        brought = {place: _brought(database, table, place) for place in set(places)}
    latest: dict[_Place, int] = {}
    for number, (digest, place, at_us) in enumerate(zip(digests, places, times, strict=True)):
        if digest in known:
            found.dropped.append(number)
        elif brought[place] >= ROWS_A_DAY[table]:
            found.dropped.append(number)
            excess[place] += 1
            latest[place] = max(latest.get(place, 0), at_us)
        else:
            brought[place] += 1
    found.excess = [Excess(table, *place, count, latest[place]) for place, count in sorted(excess.items())]
    return found


def admitted(tables: Path, table: str, rows: pa.Table, newest: int) -> tuple[pa.Table, list[Excess]]:
    """Return those rows of a micro-batch that a table takes, and what of the others is more than it takes.

    Of rows that say the same, the one that came first is taken.
    """
    key = list(KEYS[table])
    order = [(name, "ascending") for name in dict.fromkeys(["received_at", *key, "collector", "vault", "group"])]
    rows = rows.sort_by(order)
    digests, _, _ = _keyed(table, rows)
    first = {digest: place for place, digest in reversed([*enumerate(digests)])}
    rows = rows.take(pa.array(sorted(first.values()), pa.int64()))
    sifted = sift(tables, table, rows.select(columns(table)), newest)
    left = sorted({*range(len(rows))} - {*sifted.dropped})
    return rows.take(pa.array(left, pa.int64())), sifted.excess


def quarantined(excess: list[Excess], schema: pa.Schema) -> pa.Table:
    """Return rows of `quarantine` that report excess rows, by author."""
    rows = [
        {
            "reason": EXCESS,
            "detail": f"{each.table}: {each.rows} left out, beyond {ROWS_A_DAY[each.table]} of one author and day",
            "author": each.author,
            "received_at": each.latest_us,
        }
        for each in excess
    ]
    return pa.Table.from_pylist(rows, schema)


def columns(table: str) -> list[str]:
    """Return the columns by which a row is known and counted."""
    return list(dict.fromkeys([*KEYS[table], "author", "received_at"]))


def _opened(tables: Path) -> sqlite3.Connection:
    path = path_in(tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.executescript(_SCHEMA)
    return database


def _parts(folder: Path, numbers: list[int], *, merged: bool) -> Iterator[pa.Table]:
    """Yield the rows of micro-batches, or, with `merged`, of a file merged by Delta, some at a time."""
    files = sorted(folder.glob("*.parquet")) if merged else []
    files += [file for number in numbers for file in sorted((folder / f"batch={number}").glob("*.parquet"))]
    for file in files:
        for batch in ds.dataset(str(file), format="parquet").to_batches(columns=columns(folder.name)):
            yield pa.Table.from_batches([batch])


def _take_in(database: sqlite3.Connection, table: str, rows: pa.Table) -> None:
    new: Counter[_Place] = Counter()
    digests, places, _ = _keyed(table, rows)
    for digest, place in zip(digests, places, strict=True):
        new[place] += database.execute("INSERT OR IGNORE INTO known VALUES (?)", (digest,)).rowcount
    database.executemany(
        "INSERT INTO brought VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET rows = rows + excluded.rows",
        [(table, *place, count) for place, count in new.items()],
    )


def _keyed(table: str, rows: pa.Table) -> tuple[list[bytes], list[_Place], list[int]]:
    """Return for each row its digest, author and day, and time of arrival."""
    key = [_plain(rows[name]) for name in KEYS[table]]
    digests = [
        hashlib.blake2b(repr((table, *values)).encode(), digest_size=16).digest() for values in zip(*key, strict=True)
    ]
    times = _plain(rows["received_at"])
    places = [(author, at_us // _DAY_US) for author, at_us in zip(rows["author"].to_pylist(), times, strict=True)]
    return digests, places, times


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Return values that read the same from any writer: times as microseconds."""
    whole = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    values: list[Any] = whole.to_pylist()
    return values


def _known(database: sqlite3.Connection, digests: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(digests), _LIMIT):
        part = digests[start : start + _LIMIT]
        marks = ",".join("?" * len(part))
        yield from (row[0] for row in database.execute(f"SELECT digest FROM known WHERE digest IN ({marks})", part))  # noqa: S608 - marks alone


def _brought(database: sqlite3.Connection, table: str, place: _Place) -> int:
    row = database.execute("SELECT rows FROM brought WHERE (name, author, day) = (?, ?, ?)", (table, *place)).fetchone()
    return 0 if row is None else int(row[0])
