"""The messages in the table `readings`, of some authors and incarnations: one scan, for what may be repeats.

The committer's folder holds only what it needs of the newest micro-batches; `.readings` in it says where the tables
are.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.committer.table_locations import location_at, open_table
from covey_ingest.tables.messages import LINK, MESSAGES

_ELSEWHERE = ".readings"


def lies_at(tables: Path, location: str) -> None:
    """Note where the tables of a committer's folder are. Raises OSError."""
    (tables / _ELSEWHERE).write_text(location)


def standing(tables: Path, links: pa.Table, upto: int | None = None) -> pa.Table:
    """Return the messages that stand of these authors, incarnations and, where `links` has them, `seq`; perhaps more.

    With `upto`, only what micro-batches up to that one brought.
    """
    if not len(links):
        return MESSAGES.empty_table()
    table = open_table(location_at((tables / _ELSEWHERE).read_text()), "readings")
    if table is None:
        return MESSAGES.empty_table()
    every: ds.FileSystemDataset = table.to_pyarrow_dataset()
    chosen = [part for part in every.get_fragments() if upto is None or _number(Path(part.path)) <= upto]
    asked = ds.field("index") == 0
    for name in {*LINK, "seq"}.intersection(links.column_names):
        asked &= ds.field(name).isin(pc.unique(links[name]))
    scanned = ds.FileSystemDataset(chosen, every.schema, every.format, every.filesystem)
    found = scanned.to_table(MESSAGES.names, filter=asked)
    return found.cast(MESSAGES).join(links.select(LINK).group_by(LINK).aggregate([]), LINK, join_type="left semi")


def _number(file: Path) -> int:
    """Return a file's micro-batch; -1 for a merged file, whose order is unknown."""
    name, _, number = file.parent.name.partition("=")
    return int(number) if name == "batch" else -1
