"""Operators' orders, and devices' reports of them, as rows: one for each signed statement. Needs no Spark.

    orders      one row for each operation: who ordered what. Key: `operation`
    commands    a device's result of a command, reported once. Key: `operation` and `author`
    settings    a device's state of a setting, for each report. Key: `operation`, `author`, `key`, `state`, `code` and
                `reported_at`: a state may recur

1. They are joined by `operation`, in any order of arrival: a result may precede its order, or lack it.
2. Of a sealed value or argument the tables record only that it is `secret`.
3. A result that a board signed is the board's row, whichever gateway delivered it; a gateway's statement for it is the
   gateway's row.
4. Times are those of their clocks: `ordered_at` the author's, unchecked; `reported_at`, `taken_at`, `started_at` and
   `ended_at` the device's, `synchronised` if reliable; `received_at` the collector's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.bodies import read_body
from covey.core.history.kinds import ORDER_KINDS, OperationKind
from covey.core.history.operation import Operation
from covey.core.history.orders import Scalar
from covey.core.settings.states import SettingReport, SettingState
from covey.core.wire.message import Message, MessageType
from covey.errors import MalformedError

_TIME = pa.timestamp("us", tz="UTC")
_CALENDAR_ENDS_US = 253_402_300_800_000_000

ORDERED = pa.struct(
    [
        ("operation", pa.string()),
        ("kind", pa.string()),  # operator, setting, command, approval
        ("subject", pa.string()),  # the key, the action, the device that is an operator, or the approved operation
        ("value", pa.string()),  # JSON: a setting's value, a command's arguments, whether an operator was added
        ("secret", pa.bool_()),
        ("selector", pa.string()),
        ("deadline", _TIME),
        ("once", pa.string()),
        ("ordered_at", _TIME),
    ]
)
REPORTED = pa.struct(
    [
        ("operation", pa.string()),
        ("key", pa.string()),  # of a setting
        ("state", pa.string()),
        ("value", pa.string()),  # JSON: what holds in a setting's stead
        ("code", pa.string()),
        ("why", pa.string()),
        ("exit", pa.int32()),
        ("output", pa.binary()),
        ("cut", pa.bool_()),
        ("taken_at", _TIME),
        ("started_at", _TIME),
        ("ended_at", _TIME),
        ("synchronised", pa.bool_()),
        ("reported_at", _TIME),
    ]
)
KEYS = {
    "orders": ("operation",),
    "commands": ("operation", "author"),
    "settings": ("operation", "author", "key", "state", "code", "reported_at"),
}
"""The tables, and what no two rows of one have in common."""

Row = dict[str, Any]


def ordered(operation: Operation) -> Row:
    """Return the `ORDERED` of a landed operation.

    Raises:
        RemoteError: malformed, or no order.
    """
    if operation.kind not in ORDER_KINDS:
        raise MalformedError(f"a vault cannot contain operations of kind {operation.kind}: a newer Covey?")
    row = read_body(operation).order_row()
    if row.get("value") is not None:
        row["value"] = json.dumps(row["value"], ensure_ascii=False)
    if row.get("deadline") is not None:
        row["deadline"] = _time(row["deadline"])
    row |= {"operation": operation.id.hex(), "ordered_at": _time(operation.made_at_us)}
    return row | {"kind": OperationKind(operation.kind).word}


def reported_rows(message: Message) -> Iterator[tuple[str, bool, Row]]:
    """Yield whose row it is, whether it is of a setting, and the `REPORTED` of a landed report.

    There is one for a command, and one for each of the device's settings; a board reports each of its own by itself.

    Raises:
        RemoteError: malformed.
    """
    said_at = _time(message.sent_at_us)
    if message.type is MessageType.ORDER_RESULT:
        result = OrderResult.from_wire(message.body)
        by_board = result.board is not None and result.signature is not None
        author = result.board if by_board and result.board is not None else message.author
        why = result.why if by_board or result.board is None else f"{result.why} (board {result.board.hex()[:8]})"
        state = result.state.name.lower()
        if result.setting:
            state = SettingState.APPLIED.name.lower() if result.state is CommandState.DONE else state
        row = {
            "operation": result.order.hex(),
            "key": result.setting or None,
            "state": state,
            "code": result.code,
            "why": why,
            "exit": result.exit,
            "output": result.output,
            "cut": result.cut,
            "taken_at": _time(result.taken_us),
            "started_at": None if result.started_us is None else _time(result.started_us),
            "ended_at": _time(result.ended_us),
            "synchronised": result.synchronised,
            "reported_at": said_at,
        }
        yield author.hex(), bool(result.setting), row
        return
    for each in SettingReport.from_wire(message.body).settings:
        row = {
            "operation": each.operation.hex(),
            "key": each.key,
            "state": each.state.name.lower(),
            "value": _json(each.value),
            "code": each.code,
            "why": each.why,
            "reported_at": said_at,
        }
        yield message.author.hex(), True, row


def _json(value: Scalar | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _time(time_us: int) -> int:
    if time_us >= _CALENDAR_ENDS_US:
        raise MalformedError("the operation's clock is after the year 9999")
    return time_us
