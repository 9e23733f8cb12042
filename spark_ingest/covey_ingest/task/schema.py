"""The rows that the source yields: one for each message, its readings in list columns.

`exploding` makes readings of them where they are written: lists cross from Python into Spark several times faster than
a row for each reading does. Rows of kind `telemetry` fill the list columns; those of other kinds leave them empty.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.memberships import MEMBERSHIP
from covey_ingest.task.orders import ORDERED, REPORTED
from covey_ingest.task.summaries import SUMMARISED


class RowKind(StrEnum):
    """What a row tells of."""

    TELEMETRY = "telemetry"
    LOSS = "loss"
    """A signed admission that messages will never come: rows with `first` to `last` on the author's link to the
    collector, and rows with `first_number` to `last_number` of the batches among them, which count over all links."""
    SUMMARY = "summary"
    """A window of one series in a summary, in `summary`; the numbers of the batches that a summary replaces are in rows
    of `loss`, with the reason `thinned 1:12`, where a window has twelve readings."""
    ORDER = "order"
    """An operation by which somebody orders something, in `ordered`."""
    RESULT = "result"
    """What a device reports of a command, in `reported`."""
    SETTING = "setting"
    """What a device reports of one setting, in `reported`."""
    MEMBERSHIP = "membership"
    """A member of a group as a signed manifest lists it, or what a signed profile calls a group, in `membership`."""
    QUARANTINE = "quarantine"
    """Something that failed: where, and why. Where it is a whole segment, `first` to `last` are the node's positions
    that were passed over."""
    REPAIRED = "repaired"
    """A segment that had been passed over is among the rows now: `first` to `last` are as they were told then."""


def _field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list(name: str, kind: pa.DataType) -> pa.Field:
    return _field(name, pa.list_(pa.field("element", kind, nullable=False)))


MESSAGE_SCHEMA = pa.schema(
    [
        _field("kind", pa.string()),
        pa.field("vault", pa.string()),  # hex of the vault's id
        pa.field("collector", pa.string()),  # hex of the collector's signing key
        _field("node", pa.string()),  # hex of the vault node
        pa.field("segment", pa.int64()),
        pa.field("record", pa.int32()),  # the message's place in its segment
        pa.field("author", pa.string()),  # hex of the device's signing key
        pa.field("incarnation", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("link_seq", pa.int64()),  # contiguous from the author to this collector: what gaps are found by
        pa.field("batch_number", pa.int64()),  # of the batch among all of its author's
        pa.field("received_at", TIMESTAMP),
        pa.field("boot", pa.string()),
        pa.field("alarm", pa.string()),
        pa.field("time_quality", pa.string()),
        pa.field("clock_offset", pa.int64()),  # microseconds from the boot's monotonic clock to the times
        _field("booleans_from", pa.int32()),  # values of readings [from, until) are truth values
        _field("booleans_until", pa.int32()),
        _list("names", pa.string()),  # of each series
        _list("units", pa.string()),
        _list("series", pa.int16()),  # of each reading: its place in names and units
        _list("times", TIMESTAMP),
        _list("values", pa.float64()),  # the first readings' values; then come the texts, then the data
        _list("wholes", pa.int64()),  # empty, or of the first values each that no double holds, and 0 for each other
        _list("texts", pa.string()),
        _list("data", pa.binary()),
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("first_number", pa.int64()),
        pa.field("last_number", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("group", pa.string()),  # that the message, the order or the manifest is of, in hex
        pa.field("ordered", ORDERED),
        pa.field("reported", REPORTED),
        pa.field("membership", MEMBERSHIP),
        pa.field("summary", SUMMARISED),
    ]
)
