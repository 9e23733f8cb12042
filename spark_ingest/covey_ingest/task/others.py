"""The source's message rows that are not readings, by target table: plain Arrow."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.task import memberships, summaries
from covey_ingest.task.memberships import MEMBERSHIP
from covey_ingest.task.orders import ORDERED, REPORTED
from covey_ingest.task.schema import MESSAGE_SCHEMA, RowKind
from covey_ingest.task.summaries import SUMMARISED

_LANDED = ("collector", "vault", "received_at")
_LOSSES = (
    *("author", "incarnation", "first", "last", "first_number", "last_number", "reason", "seq"),
    *_LANDED,
)
_QUARANTINE = (
    *("reason", "detail", "collector", "vault", "node", "segment", "record"),
    *("author", "incarnation", "seq", "received_at"),
)
_SUMMARIES = ("time_quality", "clock_offset", "incarnation", "seq", "boot")
_COMMANDS = (
    *("operation", "state", "code", "why", "exit", "output", "cut"),
    *("taken_at", "started_at", "ended_at", "synchronised", "reported_at"),
)
_SETTINGS = ("operation", "key", "state", "value", "code", "why", "reported_at")

_Plan = tuple[tuple[RowKind, ...], dict[str, str]]
"""The kinds of rows that a table takes; its columns, and where each comes from: `struct.field`, or a message's own."""


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _inside(struct: str, names: tuple[str, ...]) -> dict[str, str]:
    return {name: f"{struct}.{name}" for name in names}


_PLANS: Mapping[str, _Plan] = {
    "losses": ((RowKind.LOSS,), _same(*_LOSSES)),
    summaries.TABLE: (
        (RowKind.SUMMARY,),
        _same("author", "group")
        | _inside("summary", tuple(each.name for each in SUMMARISED))
        | _same(*_SUMMARIES, *_LANDED),
    ),
    "quarantine": (
        (RowKind.QUARANTINE, RowKind.REPAIRED),
        _same(*_QUARANTINE) | {"first_segment": "first", "last_segment": "last"},
    ),
    "orders": (
        (RowKind.ORDER,),
        _same("group", "author") | _inside("ordered", tuple(each.name for each in ORDERED)) | _same(*_LANDED),
    ),
    "commands": ((RowKind.RESULT,), _same("group", "author", *_LANDED) | _inside("reported", _COMMANDS)),
    "settings": ((RowKind.SETTING,), _same("group", "author", *_LANDED) | _inside("reported", _SETTINGS)),
    memberships.TABLE: (
        (RowKind.MEMBERSHIP,),
        _same("group", "author") | _inside("membership", tuple(each.name for each in MEMBERSHIP)) | _same(*_LANDED),
    ),
}
_STRUCTS = {"summary": SUMMARISED, "ordered": ORDERED, "reported": REPORTED, "membership": MEMBERSHIP}


def _type_of(source: str) -> pa.DataType:
    struct, _, name = source.rpartition(".")
    return _STRUCTS[struct].field(name).type if struct else MESSAGE_SCHEMA.field(name).type


SMALL_TABLES = {
    table: pa.schema([(name, _type_of(source)) for name, source in columns.items()])
    for table, (_, columns) in _PLANS.items()
}
"""The schemas of tables that hold no readings."""


def other_rows(messages: pa.RecordBatch) -> dict[str, pa.Table]:
    """Return the rows of each small table among message rows; tables without any are left out."""
    found = {}
    there = {*pc.unique(messages["kind"]).to_pylist()}
    for table, (kinds, columns) in _PLANS.items():
        if there.isdisjoint(kinds):
            continue
        rows = messages.filter(pc.is_in(messages["kind"], pa.array([kind.value for kind in kinds])))
        if len(rows):
            arrays = [_column(rows, source) for source in columns.values()]
            found[table] = pa.table(arrays, schema=SMALL_TABLES[table])
    return found


def _column(rows: pa.RecordBatch, source: str) -> pa.Array:
    struct, _, name = source.rpartition(".")
    return pc.struct_field(rows[struct], name) if struct else rows[name]
