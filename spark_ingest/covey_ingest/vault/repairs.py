"""Skipped segments, until they can be read (004.24: a failed import is retried, never marked done).

A micro-batch with a missing or damaged segment reports it in `quarantine`, and continues. One small file next to the
tables lists the skipped segments, replaced whole after each micro-batch:

1. It holds each span of positions that `quarantine` names as a whole and does not name as repaired. It is derived from
   the table: a committed batch that it lacks is applied first, and a missing file is rebuilt.
2. While the stream runs, its planner checks them: at first at once, then ever more rarely. Those that are whole again
   are named in the next offset (rule 5 of `offsets`), so that a replay reads the same.
3. The micro-batch that reads one reports `repaired`, in the same commit as its readings. `dedup` removes readings of
   parts that had been whole before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.committer.committed import batch_folder
from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.task.schema import RowKind
from covey_ingest.vault.offsets import Span, VaultListing
from covey_ingest.vault.vaults import qualified

SCHEMA = pa.schema(
    [("node", pa.string()), ("first_segment", pa.int64()), ("last_segment", pa.int64()), ("vault", pa.string())]
)
"""Of the home vault (`vaults`) `vault` is empty."""

SPANS_PER_TURN = 32
"""How many are looked at before a micro-batch is planned, and so how many it reads again at most."""

_QUIET_BATCHES = 64
"""Micro-batches without quarantine after which the file says that it has them, so that they are not looked at again."""

_SOON_SECONDS = 10.0
_RARELY_SECONDS = 900.0


def path_in(tables: Path) -> Path:
    """Return the file's path, hidden from readers of the tables."""
    return tables / ".failed" / "failed.parquet"


def update(tables: Path, batch_id: int, home: str = "") -> None:
    """Bring the file up to a batch that is committed (rule 1); `home` is the id of the home vault, in hex."""
    if not (tables / "quarantine").exists():
        return
    failed, last = read_state(path_in(tables), SCHEMA)
    files = _files(tables, last, batch_id)
    if not files:
        if batch_id - last >= _QUIET_BATCHES:
            replace_state(path_in(tables), failed, batch_id)
        return
    reported = _spans_of(files, home)
    repaired = pc.equal(reported["reason"], RowKind.REPAIRED.value)
    spans = pa.concat_tables([failed.cast(SCHEMA), reported.filter(pc.invert(repaired)).select(SCHEMA.names)])
    left = spans.group_by(SCHEMA.names).aggregate([])
    left = left.join(reported.filter(repaired).select(SCHEMA.names), SCHEMA.names, join_type="left anti")
    order = [(name, "ascending") for name in SCHEMA.names]
    replace_state(path_in(tables), left.select(SCHEMA.names).cast(SCHEMA).sort_by(order), batch_id)


def _files(tables: Path, after: int, upto: int) -> list[Path]:
    """Return the files of `quarantine` that are not in ours; merged ones only at a new start."""
    if after < 0:
        return sorted((tables / "quarantine").rglob("*.parquet"))
    numbers = range(after + 1, upto + 1)
    return [file for number in numbers for file in batch_folder(tables, "quarantine", number).glob("*.parquet")]


def _spans_of(files: list[Path], home: str) -> pa.Table:
    """Return the spans of whole segments in files; rows of single messages have none."""
    import pyarrow.dataset as ds  # brings pandas, half a second and 45 MB; Python workers never come here

    schema = SCHEMA.append(pa.field("reason", pa.string()))
    named = ds.field("first_segment").is_valid()
    found = ds.dataset([*map(str, files)], schema=schema, format="parquet").to_table(filter=named)
    vaults = found["vault"]
    return found.set_column(3, SCHEMA.field("vault"), pc.if_else(pc.equal(vaults, home), "", vaults))


@dataclass(slots=True)
class _Wait:
    due: float = 0.0
    seconds: float = _SOON_SECONDS


class Prober:
    """Looks whether what was passed over can be read by now; for the planning process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written_ns = 0
        self._waits: dict[Span, _Wait] = {}

    def whole(self, reader: VaultListing) -> list[Span]:
        """Return spans that can be read now, of those whose turn it is (rule 2)."""
        self._refresh()
        now = time.monotonic()
        due = sorted((wait.due, span.node, span.first, span) for span, wait in self._waits.items() if wait.due <= now)
        found = []
        for *_, span in due[:SPANS_PER_TURN]:
            wait = self._waits[span]
            wait.due, wait.seconds = now + wait.seconds, min(2 * wait.seconds, _RARELY_SECONDS)
            if reader.opens(span.node, span.first, span.last):
                found.append(span)
        return found

    def _refresh(self) -> None:
        """Read the file's spans; known ones keep their turn."""
        if self._path is None or not self._path.exists():
            return
        written_ns = self._path.stat().st_mtime_ns
        if written_ns != self._written_ns:
            rows = read_state(self._path, SCHEMA)[0].to_pylist()
            nodes = [qualified(row["vault"], row["node"], "") for row in rows]
            spans = [
                Span(node, row["first_segment"], row["last_segment"]) for node, row in zip(nodes, rows, strict=True)
            ]
            self._waits = {span: self._waits.get(span, _Wait()) for span in spans}
            self._written_ns = written_ns
