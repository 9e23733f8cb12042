"""Landed summaries to rows: one for each window of each series, and one for each range of numbers that it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from covey.core.telemetry.batch import Kind
from covey.core.telemetry.summaries import Summary
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.time_quality import offset, wall_times

TABLE = "summaries"
SUMMARISED = pa.struct(
    [
        ("name", pa.string()),
        ("unit", pa.string()),
        ("kind", pa.string()),  # decimal, boolean, float, text, data
        ("time", TIMESTAMP),  # of the first reading
        ("until", TIMESTAMP),  # of the last one
        ("width", pa.int64()),  # of the window, in microseconds
        ("readings", pa.int64()),
        ("exact_sum", pa.decimal128(38, 9)),  # of decimals and booleans; null for the others
        ("sum", pa.float64()),  # the same, or the double nearest to it; null for texts and data, as the next four
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
        ("first", pa.float64()),
        ("last", pa.float64()),
        ("index", pa.int32()),  # place of the window in its summary
    ]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def thinned_reason(summary: Summary) -> str:
    """Return what the tables call the numbers of a summary's batches: `thinned 1:12`, readings for each window."""
    return f"thinned 1:{float(f'{summary.readings / summary.windows:.2g}'):.0f}"


def summary_rows(summary: Summary, received_at_us: int) -> Iterator[dict[str, Any]]:
    """Yield the columns of each window that differ, as `MESSAGE_SCHEMA` calls them.

    Raises:
        MalformedError: neither device nor collector knew the time.
    """
    windows = [window for each in summary.series for window in each.windows]
    taken = np.array([[window.first_us, window.last_us] for window in windows], np.int64)
    walls, quality = wall_times(summary.clock, taken.reshape(-1), received_at_us)
    whose = {
        "boot": summary.clock.boot_id.hex(),
        "time_quality": quality.value,
        "clock_offset": offset(summary.clock, quality, received_at_us),
    }
    times = [_EPOCH + timedelta(microseconds=time) for time in walls.tolist()]
    index = 0
    for each in summary.series:
        for window in each.windows:
            row: dict[str, Any] = {
                "name": each.name,
                "unit": each.unit,
                "kind": each.kind.name.lower(),
                "time": times[2 * index],
                "until": times[2 * index + 1],
                "width": summary.window_us,
                "readings": window.readings,
                "index": index,
            }
            if each.kind in {Kind.DECIMAL, Kind.BOOLEAN}:
                power = 10**each.scale
                digits = tuple(map(int, str(abs(window.total))))
                row["exact_sum"] = Decimal((int(window.total < 0), digits, -each.scale))
                row["sum"] = window.total / power
                row |= {name: getattr(window, name) / power for name in ("minimum", "maximum", "first", "last")}
            elif each.kind is Kind.FLOAT:
                row["sum"] = window.total
                row |= {name: getattr(window, name) for name in ("minimum", "maximum", "first", "last")}
            yield whose | {"summary": row}
            index += 1
