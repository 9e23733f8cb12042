"""The messages that stand in the `readings` table, of some authors and incarnations: one scan, for what may be repeats.

The table is that of the folder. Where it lies in an object store, and the folder holds only what the driver needs of
the newest micro-batches, `.readings` in it says where (`store_tables`).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.messages import LINK, MESSAGES, messages_in
from covey_ingest.table_files import table_files
from covey_ingest.table_locations import Bucket, open_table

_ELSEWHERE = ".readings"


def lies_at(tables: Path, url: str) -> None:
    """Note that the table of a folder lies in an object store. Raises OSError."""
    (tables / _ELSEWHERE).write_text(url)


def standing(tables: Path, links: pa.Table, upto: int | None = None) -> pa.Table:
    """Return the messages that stand of these authors, incarnations and, where `links` has them, `seq`; perhaps more.

    With `upto`, only what micro-batches up to that one brought.
    """
    if not len(links):
        return MESSAGES.empty_table()
    elsewhere = tables / _ELSEWHERE
    if not elsewhere.exists():
        files = table_files(tables, "readings")
        return messages_in([file for file in files if upto is None or _number(file) <= upto], links)
    bucket = Bucket.at(elsewhere.read_text())
    table = open_table(bucket.uri("readings"), bucket.options)
    if table is None or "index" not in {field.name for field in table.schema().fields}:
        return MESSAGES.empty_table()
    every: ds.FileSystemDataset = table.to_pyarrow_dataset()
    chosen = [part for part in every.get_fragments() if upto is None or _number(Path(part.path)) <= upto]
    asked = ds.field("index") == 0
    for name in {*LINK, "seq"}.intersection(links.column_names):
        asked &= ds.field(name).isin(pc.unique(links[name]))
    names = [name for name in MESSAGES.names if name in every.schema.names]
    scanned = ds.FileSystemDataset(chosen, every.schema, every.format, every.filesystem)
    found = scanned.to_table(names, filter=asked)
    return found.cast(pa.schema([MESSAGES.field(name) for name in names])).join(
        links.select(LINK).group_by(LINK).aggregate([]), LINK, join_type="left semi"
    )


def _number(file: Path) -> int:
    """Return the micro-batch that a file is of; -1 where it is of many, in order of which nothing is known."""
    name, _, number = file.parent.name.partition("=")
    return int(number) if name == "batch" else -1
