"""Orders and what became of them, from the vault to the tables: each once, in whatever order they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import GroupId, ManifestHash, OperationId
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.wire.message import MessageType
from covey_ingest.tables.seen_orders import ROWS_A_DAY
from tests.spark.fleet import NOW_US, Author, Collector
from tests.tables.ingesting import ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def _order(author: Author, number: int, body: SettingOrder | CommandOrder) -> Operation:
    log = Log(author.identity.signing_public, author.incarnation)
    group, manifest = GroupId(bytes(32)), ManifestHash(bytes(32))
    previous = None if number == 1 else OperationId(bytes(32))
    parents = () if previous is None else (previous,)
    raw = body.to_wire()
    return sign_operation(
        Operation(group, log, number, previous, parents, number, manifest, NOW_US, int(body.kind), raw), author.identity
    )


def _reported(device: Author, order: Operation, state: SettingState, after_us: int) -> bytes:
    report = SettingReport((ReportedSetting("app.mode", order.id, state),))
    return device.sign(MessageType.SETTING_REPORT, report.to_wire(), NOW_US + after_us)


def test_each_order_and_report_is_there_once(tmp_path: Path, tables: Path) -> None:
    """A result comes before its order, and all of it again, over another collector, too."""
    collector = Collector(tmp_path / "vault")
    other = Collector(tmp_path / "vault", 1, collector.key)
    operator, device = Author(collector, 1), Author(collector, 2)
    command = _order(operator, 1, CommandOrder(EVERYBODY, "journal", {}, bytes(16)))
    setting = _order(operator, 2, SettingOrder(EVERYBODY, "app.mode", "eco"))
    result = OrderResult(command.id, CommandState.DONE, 1, 3, 2, exit=0, output=b"x" * 65_536)
    reported = device.sign(MessageType.ORDER_RESULT, result.to_wire())
    collector.land(reported, device.measure(3))
    ingest(tmp_path / "vault", tables)
    handed_over = _reported(device, setting, SettingState.HANDED_OVER, 1)
    applied = _reported(device, setting, SettingState.APPLIED, 2)
    collector.land(setting.raw, handed_over, applied, applied, setting.raw)
    other.land(setting.raw, command.raw, applied, reported)
    ingest(tmp_path / "vault", tables)
    reverted = _reported(device, setting, SettingState.REVERTED, 3)
    reapplied = _reported(device, setting, SettingState.APPLIED, 4)
    other.land(command.raw, handed_over, reported, reverted, reapplied)
    ingest(tmp_path / "vault", tables)
    assert sorted(row["operation"] for row in rows_of(tables, "orders")) == sorted([command.id.hex(), setting.id.hex()])
    [done] = rows_of(tables, "commands")
    assert (done["operation"], done["author"], len(done["output"])) == (command.id.hex(), device.author, 65_536)
    said = sorted(rows_of(tables, "settings"), key=lambda row: row["reported_at"])
    assert [row["state"] for row in said] == ["handed_over", "applied", "reverted", "applied"]
    assert len(rows_of(tables, "readings")) == 3
    assert not rows_of(tables, "quarantine")


def test_invented_orders_are_bounded_counted_and_reported(
    tmp_path: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROWS_A_DAY, "orders", 3)
    collector = Collector(tmp_path / "vault")
    mallory, operator = Author(collector, 1), Author(collector, 2)
    invented = [_order(mallory, number, SettingOrder(EVERYBODY, "app.mode", "eco")).raw for number in range(1, 6)]
    collector.land(*invented, _order(operator, 1, SettingOrder(EVERYBODY, "app.mode", "dry")).raw)
    [progress] = ingest(tmp_path / "vault", tables)
    collector.land(*invented)
    ingest(tmp_path / "vault", tables)
    authors = [row["author"] for row in rows_of(tables, "orders")]
    assert sorted(authors) == sorted([mallory.author] * 3 + [operator.author])
    reported = [(row["reason"], row["author"], row["detail"]) for row in rows_of(tables, "quarantine")]
    assert reported == 2 * [("excess", mallory.author, "orders: 2 left out, beyond 3 of one author and day")]
    assert progress.quarantined == 1
