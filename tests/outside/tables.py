"""Section 33: rows of tables in a folder or an object store, as any reader of Parquet or Delta has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tests.outside.primitives import RefusedError

_TIME = pa.timestamp("us", "UTC")
READINGS = pa.schema(
    [
        *(
            (name, pa.string())
            for name in ("author", "incarnation", "boot", "name", "unit", "alarm", "time_quality", "text")
        ),
        *((name, pa.int64()) for name in ("seq", "batch_number", "clock_offset", "whole")),
        *(("index", pa.int32()), ("value", pa.float64()), ("flag", pa.bool_()), ("data", pa.binary())),
        *(("collector", pa.string()), ("time", _TIME), ("received_at", _TIME)),
    ]
)
LOSSES = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "incarnation", "reason")),
        *((name, pa.int64()) for name in ("first", "last", "first_number", "last_number")),
    ]
)


class Deletions(NamedTuple):
    """What people have deleted from tables: of authors until when, and of all before when; microseconds since 1970."""

    authors: dict[str, int]
    kept_since: int


def deletions_of(tables: str) -> Deletions:
    """Return what `deletions.json` next to the tables says."""
    content = _object(tables, "deletions.json") if "://" in tables else _file(Path(tables) / "deletions.json")
    if content is None:
        return Deletions({}, 0)
    said = json.loads(content)
    if said["layout"] != 1:
        raise RefusedError("malformed", "deletions")
    return Deletions(said["authors"], said["kept_since"])


def _file(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _object(url: str, name: str) -> bytes | None:
    import obstore
    from obstore.store import from_url

    try:
        store = from_url(url.rstrip("/"), client_options={"allow_http": True})
        return bytes(obstore.get(store, name).bytes())
    except FileNotFoundError:
        return None


def rows_of(tables: str, name: str, schema: pa.Schema) -> ds.Dataset:
    """Return a table's rows, with these columns; one that a file lacks is null, and no table has no rows."""
    try:
        return DeltaTable(f"{tables.rstrip('/')}/{name}").to_pyarrow_dataset(schema=schema)
    except TableNotFoundError:
        return ds.dataset(schema.empty_table())
