"""The rows of records, as a task makes them of an opened segment."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from covey.core.telemetry.decoding import KnownLayouts
from covey.core.vault.entries import SegmentRecord
from covey_ingest.task.rows import Origin, Verify, record_rows, rows_from


def recorded(records: Sequence[SegmentRecord], verify: Verify = Verify.ALL) -> list[pa.RecordBatch]:
    """Return the Arrow batches of these records."""
    rows = rows_from(Origin("n", "c", 1))
    return [*record_rows(rows, KnownLayouts(), records, verify), *rows.rest()]
