"""`covey_ingest.task.orders`: landed operations and reports to rows; hostile ones go into quarantine alone."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.bodies import Note
from covey.core.history.body import OperationBody
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import GroupId, Incarnation, LinkSeq, ManifestHash
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.vault.documents import SegmentRecord
from covey.core.wire.message import MessageType, write_message
from tests.fleet import identity
from tests.unit.covey_ingest.recorded import recorded
from tests.vectors import load

pytest.importorskip("pyarrow", reason="the ingest is not installed")

from covey_ingest.task.message_rows import BYTES_PER_BATCH
from covey_ingest.task.rows import Verify

ANN, BEN = identity("ann"), identity("ben")
GROUP = GroupId(bytes(32))
NOW_US = 1_789_000_000_000_000


def _order(body: OperationBody, made_at_us: int = NOW_US) -> Operation:
    log = Log(ANN.signing_public, Incarnation(bytes(8)))
    operation = Operation(
        GROUP, log, 1, None, (), 1, ManifestHash(bytes(32)), made_at_us, int(body.kind), body.to_wire()
    )
    return sign_operation(operation, ANN)


def _report(kind: MessageType, body: bytes, number: int = 1) -> bytes:
    incarnation = Incarnation(bytes(8))
    return write_message(BEN, kind, ANN.signing_public, GROUP, incarnation, number, LinkSeq(number), NOW_US, body)


def _rows(*raws: bytes) -> list[dict[str, Any]]:
    records = [SegmentRecord(NOW_US + 5, raw, 1, index) for index, raw in enumerate(raws)]
    return [row for batch in recorded(records) for row in batch.to_pylist()]


def test_the_vector_of_orders_gives_a_row_each() -> None:
    [segment] = [each for each in load("vault")["segments"] if each["name"].startswith("orders")]
    setting, command, applied, done = _rows(*(bytes.fromhex(raw) for _, raw in segment["records"]))
    assert [row["kind"] for row in (setting, command, applied, done)] == ["order", "order", "setting", "result"]
    assert setting["ordered"]["operation"] == applied["reported"]["operation"]
    assert command["ordered"]["operation"] == done["reported"]["operation"]
    assert {applied["author"], done["author"]}.isdisjoint({setting["author"], command["author"]})


def test_an_order_says_who_what_and_when() -> None:
    setting = _order(SettingOrder(EVERYBODY, "app.mode", "eco"))
    command = _order(CommandOrder(EVERYBODY, "reboot", {"in": "5"}, bytes(16), NOW_US + 1))
    rows = _rows(setting.raw, command.raw)
    assert [row["kind"] for row in rows] == ["order", "order"]
    assert rows[0]["author"] == ANN.signing_public.hex()
    assert rows[0]["group"] == GROUP.hex()
    first, second = (row["ordered"] for row in rows)
    assert (first["operation"], first["kind"], first["subject"]) == (setting.id.hex(), "setting", "app.mode")
    assert (first["value"], first["secret"], first["selector"]) == ('"eco"', False, "all")
    assert (second["subject"], second["value"], second["once"]) == ("reboot", '{"in": "5"}', "00" * 16)
    assert second["deadline"] > second["ordered_at"]


def test_nothing_of_a_sealed_value_is_in_a_row() -> None:
    [row] = _rows(_order(SettingOrder(EVERYBODY, "app.password", sealed=b"ciphertext")).raw)
    assert (row["ordered"]["value"], row["ordered"]["secret"]) == (None, True)
    assert "ciphertext" not in str(row)
    [row] = _rows(_order(CommandOrder(EVERYBODY, "set-wifi", {"ssid": "barn"}, bytes(16), sealed=b"ciphertext")).raw)
    assert (row["ordered"]["value"], row["ordered"]["secret"]) == ('{"ssid": "barn"}', True)
    assert "ciphertext" not in str(row)


def test_reports_are_a_row_for_each_setting_and_command() -> None:
    order = _order(SettingOrder(EVERYBODY, "app.mode", "eco"))
    keys = [ReportedSetting(key, order.id, SettingState.APPLIED, value=5) for key in ("app.a", "app.b")]
    result = OrderResult(order.id, CommandState.DONE, 1, 3, 2, synchronised=True, exit=0, output=b"\xff\x00")
    rows = _rows(
        _report(MessageType.SETTING_REPORT, SettingReport(tuple(keys)).to_wire()),
        _report(MessageType.ORDER_RESULT, result.to_wire()),
    )
    assert [(row["kind"], row["reported"]["key"]) for row in rows] == [
        ("setting", "app.a"),
        ("setting", "app.b"),
        ("result", None),
    ]
    assert {row["author"] for row in rows} == {BEN.signing_public.hex()}
    done = rows[-1]["reported"]
    assert (done["state"], done["exit"], done["output"], done["synchronised"]) == ("done", 0, b"\xff\x00", True)


def test_hostile_operations_are_quarantined_alone() -> None:
    order = _order(SettingOrder(EVERYBODY, "app.mode", "eco"))
    forged = order.raw[:-1] + bytes([order.raw[-1] ^ 1])
    late = _order(SettingOrder(EVERYBODY, "app.mode", "eco"), made_at_us=2**62)
    note = _order(Note("text/plain", b"for people"))
    rows = _rows(forged, late.raw, note.raw, _report(MessageType.SETTING_REPORT, b"\x00"), order.raw)
    assert [row["kind"] for row in rows] == ["quarantine"] * 4 + ["order"]
    assert [row["reason"] for row in rows[:4]] == ["signature", "malformed", "malformed", "malformed"]


def test_outputs_bound_an_arrow_batch() -> None:
    order = _order(SettingOrder(EVERYBODY, "app.mode", "eco"))
    result = OrderResult(order.id, CommandState.DONE, 1, 3, 2, exit=0, output=bytes(64 * 1024))
    raw = _report(MessageType.ORDER_RESULT, result.to_wire())
    records = [SegmentRecord(NOW_US, raw, 1, index) for index in range(300)]
    batches = recorded(records, Verify.NONE)
    assert sum(batch.num_rows for batch in batches) == 300
    assert max(batch.nbytes for batch in batches) < BYTES_PER_BATCH + 200_000
