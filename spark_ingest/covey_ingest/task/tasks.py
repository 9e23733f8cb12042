"""The tasks of both engines, as functions that a process far from the committer can call by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from covey_ingest.options import SourceOptions
from covey_ingest.task.reading import work_rows
from covey_ingest.task.writing import Rework, Target, Written, rework, write
from covey_ingest.vault.planning import Task

RESULT = pa.schema([("written", pa.binary())])
RESULT_SQL = "written binary"
"""The same for Spark."""


@dataclass(frozen=True, slots=True)
class TaskPart:
    """Ranges of vaults, and where what is in them goes."""

    source: SourceOptions
    target: Target
    tasks: tuple[Task, ...]


def write_part(part: TaskPart) -> list[Written]:
    """Verify, decode and write what ranges of vaults hold.

    Raises:
        CoveyError: the vault's store or the tables' did not answer.
    """
    return [*write(part.target, _rows(part))]


def write_rows(target: Target, messages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a Spark task; yield rows of `RESULT`."""
    for written in write(target, messages):
        yield pa.RecordBatch.from_pydict({"written": [written.to_bytes()]}, RESULT)


def rework_part(jobs: Sequence[Rework]) -> list[Written]:
    """Write files again."""
    return [written for job in jobs for written in rework(job)]


def _rows(part: TaskPart) -> Iterator[pa.RecordBatch]:
    for place, work in part.tasks:
        yield from work_rows(part.source.open(place), work, part.source.verify)
