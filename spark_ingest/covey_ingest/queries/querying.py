"""`covey tables query`, `shell` and `export`: SQL over the tables with the views loaded, or a table as plain Parquet.

DuckDB answers queries. An export is a copy of one moment, for programs that cannot read Delta.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import duckdb
import pyarrow.dataset as ds

from covey.adapters.objects.cloud import brief
from covey.core.ids import printable
from covey.errors import ConfigurationError, LocalError, StorageError
from covey_ingest.committer.table_files import check_log, tables_at
from covey_ingest.committer.table_locations import TableLocation, open_table
from covey_ingest.queries.views import create, opened, refresh

_ROWS_AT_ONCE = 1000
_ROWS_PER_FILE = 10_000_000
"""Of an export."""
_PROMPT, _MORE = "covey> ", "  ...> "


class QueryError(LocalError):
    """DuckDB does not understand a query, or cannot answer it."""

    code = "query"


def query(name: str, sql: str, form: str) -> None:
    """Answer one query over the tables at a path or a URL; `form` is table, csv or json.

    Raises:
        ConfigurationError: there are no tables.
        QueryError: the query is wrong.
        StorageError: the tables cannot be read.
    """
    location = tables_at(name)
    with opened(location) as database:
        _answer(database, location, sql, form, sys.stdout)


def shell(name: str) -> None:
    """Answer queries until the input ends. Each sees the tables as they stand when it is asked.

    Raises:
        ConfigurationError: there are no tables.
        StorageError: the tables cannot be read.
    """
    location = tables_at(name)
    statements = _statements()
    print(f"tables at {location.name}: SQL, ended by ';' (SHOW TABLES; lists them, Ctrl-D ends)")
    while _answered(location, statements):
        print("interrupted")


def _answered(location: TableLocation, statements: Iterator[str]) -> bool:
    with opened(location) as database:
        for sql in statements:
            try:
                _answer(database, location, sql, "table", sys.stdout)
            except (QueryError, StorageError) as error:
                print(f"error: {error}", file=sys.stderr)
            except KeyboardInterrupt:
                return True
    return False


def _statements() -> Iterator[str]:
    import readline  # noqa: F401 - gives `input` a history

    lines: list[str] = []
    while True:
        try:
            lines.append(input(_MORE if lines else _PROMPT))
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            lines = []
            continue
        if not "".join(lines).strip():
            lines = []
        elif lines[-1].rstrip().endswith(";"):
            yield "\n".join(lines)
            lines = []


def _answer(database: duckdb.DuckDBPyConnection, location: TableLocation, sql: str, form: str, out: IO[str]) -> None:
    with _query_errors(location):
        refresh(database, location)
        create(database, wide="wide" in sql.lower() or "show" in sql.lower())
        found = database.execute(sql)
        names = [column[0] for column in found.description or ()]
        if form == "table":
            _print_table(names, found, out)
        elif form == "csv":
            writer = csv.writer(out)
            writer.writerow(names)
            for rows in _parts(found):
                writer.writerows(rows)
        else:
            for rows in _parts(found):
                for row in rows:
                    print(json.dumps(dict(zip(names, row, strict=True)), default=_plain, ensure_ascii=False), file=out)


@contextmanager
def _query_errors(location: TableLocation) -> Iterator[None]:
    try:
        yield
    except (duckdb.IOException, duckdb.HTTPException) as error:
        raise StorageError(
            f"the tables at {location.name} cannot be read: {_first_line(error)}",
            hint="if an engine has just replaced a file, try again",
        ) from error
    except duckdb.Error as error:
        raise QueryError(_first_line(error), hint='covey tables query TABLES "SHOW TABLES" lists the tables') from error


def _first_line(error: Exception) -> str:
    return printable(str(error).splitlines()[0])


def _parts(found: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while rows := found.fetchmany(_ROWS_AT_ONCE):
        yield rows


def _print_table(names: list[str], found: duckdb.DuckDBPyConnection, out: IO[str]) -> None:
    """Print columns as wide as the first rows need."""
    if not names:
        return
    widths: list[int] = []
    for rows in _parts(found):
        texts = [["" if value is None else printable(str(_plain(value))) for value in row] for row in rows]
        if not widths:
            widths = [max(len(text) for text in column) for column in zip(names, *texts, strict=True)]
            _print_row(names, widths, out)
            _print_row(["-" * width for width in widths], widths, out)
        for row in texts:
            _print_row(row, widths, out)
    if not widths:
        print("  ".join(names), file=out)


def _print_row(texts: list[str], widths: list[int], out: IO[str]) -> None:
    print("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip(), file=out)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int | float | str | bool | list | dict) or value is None:
        return value
    return str(value)


def export(name: str, table: str, folder: Path) -> int:
    """Write a table's rows into a new folder of Parquet files; return how many.

    Raises:
        ConfigurationError: there are no such tables, or the folder is not empty.
        StorageError: the tables or the folder refused.
    """
    from deltalake.exceptions import DeltaError

    location = tables_at(name)
    check_log(location, table)
    found = open_table(location, table)
    if found is None:
        raise ConfigurationError(f"{name} has no table {table}", hint="name a documented table, such as readings")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} is not empty", hint="name a folder that does not exist yet")
        rows = found.to_pyarrow_dataset()
        ds.write_dataset(
            rows,
            folder,
            format="parquet",
            file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
            max_rows_per_file=_ROWS_PER_FILE,
            max_rows_per_group=131_072,
        )
        return int(rows.count_rows())
    except (OSError, DeltaError) as error:
        raise StorageError(f"{table} cannot be exported to {folder}: {brief(error)}") from error
