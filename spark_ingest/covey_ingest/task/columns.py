"""The columns of `readings`, in one list: decoding, tables, views, the state and the documents are made from it.

A column says where its value comes from, and who else needs it:

    message     the value is that of the source's message row of the same name, the same for all readings of a message
    reading     `exploding` computes it for each reading, and `spark.source.readings` does so in Spark
    key         together these columns name a reading
    known       the value belongs to what the state knows of a message (`messages.MESSAGES`)

To add a column, follow "Add a column" in docs/internals/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class ReadingColumn:
    """A column of `readings`."""

    name: str
    type: pa.DataType
    meaning: str
    """What docs/protocol/ says of it in section 33; a test compares."""
    message: bool = False
    key: bool = False
    known: bool = False


_TEXT, _WHOLE = pa.string(), pa.int64()

COLUMNS = (
    ReadingColumn("author", _TEXT, "signing key of the device (section 5)", message=True, key=True, known=True),
    ReadingColumn("device", _TEXT, "first eight digits of `author`"),
    ReadingColumn("name", _TEXT, "name of the series"),
    ReadingColumn("unit", _TEXT, "unit of the series"),
    ReadingColumn("time", TIMESTAMP, "when the reading was taken"),
    ReadingColumn("value", pa.float64(), "of `DECIMAL` and `FLOAT`: the number, or the double nearest to it"),
    ReadingColumn("whole", _WHOLE, "the number, where it is whole and of magnitude above 2^53"),
    ReadingColumn("flag", pa.bool_(), "the value of `BOOLEAN`"),
    ReadingColumn("text", _TEXT, "the value of `TEXT`"),
    ReadingColumn("data", pa.binary(), "the value of `DATA`"),
    ReadingColumn(
        "alarm",
        _TEXT,
        "`raised`, `ended` or `changed` of a batch of alarms (section 11); null of any other",
        message=True,
    ),
    ReadingColumn("time_quality", _TEXT, "how that is known: see below", message=True, known=True),
    ReadingColumn(
        "clock_offset",
        _WHOLE,
        "microseconds that were added to the monotonic clock of the boot",
        message=True,
        known=True,
    ),
    ReadingColumn("incarnation", _TEXT, "incarnation of the device (section 5)", message=True, key=True, known=True),
    ReadingColumn("seq", _WHOLE, "sequence number of the message (section 5)", message=True, key=True, known=True),
    ReadingColumn("index", pa.int32(), "place of the reading in its batch (section 11)", key=True),
    ReadingColumn("batch_number", _WHOLE, "number of the batch (section 11)", message=True, key=True, known=True),
    ReadingColumn("boot", _TEXT, "boot id of the batch (section 11)", message=True, key=True, known=True),
    ReadingColumn("collector", _TEXT, "signing key of the node that landed it", message=True, known=True),
    ReadingColumn("vault", _TEXT, "id of the vault in which that landing is", message=True),
    ReadingColumn(
        "received_at",
        TIMESTAMP,
        "`received-at` of the record; of one landing, where there are several",
        message=True,
        known=True,
    ),
    ReadingColumn("group", _TEXT, "group of the message; null without one", message=True),
)

READINGS = pa.schema([(column.name, column.type) for column in COLUMNS])
KEY = [column.name for column in COLUMNS if column.key]


def fields(*names: str) -> pa.Schema:
    """Return the schema of some columns, in the order of the names."""
    return pa.schema([READINGS.field(name) for name in names])


def described() -> str:
    """Return the table of docs/protocol/vault.md, section 33, in Markdown."""
    types = {
        pa.string(): "text",
        pa.binary(): "bytes",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        TIMESTAMP: "time",
    }
    rows = [f"| `{each.name}` | {types.get(each.type, each.type)} | {each.meaning} |" for each in COLUMNS]
    return "\n".join(["| column | type | is |", "|---|---|---|", *rows])
