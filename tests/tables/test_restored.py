"""Tables that were restored from a backup continue: nothing is doubled, and what the vault no longer has is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from covey.app.telemetry.restored_vault import stand_for_lost
from covey.core.ids import Incarnation
from covey.core.now import Now
from covey.core.vault.erasing import ErasureDue
from covey.core.wire.message import Loss, LossReason, MessageType
from tests.outside.holdings import Kind
from tests.spark.fleet import NOW_US, Author, Collector
from tests.tables.ingesting import audited, ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_DAY_US = 86_400_000_000


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _rounds(collector: Collector, device: Author, tables: Path, count: int) -> None:
    for _ in range(count):
        collector.land(device.measure(2))
        ingest(collector.vault, tables)


def _put_back(backup: Path, tables: Path) -> None:
    shutil.rmtree(tables)
    shutil.copytree(backup, tables)


def test_older_tables_catch_up_from_the_vault(collector: Collector, tables: Path, tmp_path: Path) -> None:
    device = Author(collector, 1)
    _rounds(collector, device, tables, 2)
    shutil.copytree(tables, tmp_path / "backup")
    _rounds(collector, device, tables, 3)
    collector.compact()
    _put_back(tmp_path / "backup", tables)
    assert sum(each.readings for each in ingest(collector.vault, tables)) == 6
    assert audited(tables, collector) == {device.author: 10}
    assert rows_of(tables, "quarantine") == []
    assert rows_of(tables, "gaps") == []


def test_segments_deleted_meanwhile_become_gaps_with_a_reason(
    collector: Collector, tables: Path, tmp_path: Path
) -> None:
    device = Author(collector, 1)
    _rounds(collector, device, tables, 2)
    shutil.copytree(tables, tmp_path / "backup")
    _rounds(collector, device, tables, 3)
    collector.land(device.measure(2), received_at_us=NOW_US + _DAY_US)
    ingest(collector.vault, tables)
    collector.erase(ErasureDue(None, NOW_US + 1), NOW_US + _DAY_US)
    _put_back(tmp_path / "backup", tables)
    assert sum(each.readings for each in ingest(collector.vault, tables)) == 2
    (gap,) = rows_of(tables, "gaps")
    assert (gap["first"], gap["last"], gap["state"], gap["reason"]) == (3, 5, "lost", "erased")


def test_a_backup_unpacked_over_newer_tables_continues(collector: Collector, tables: Path, tmp_path: Path) -> None:
    device = Author(collector, 1)
    _rounds(collector, device, tables, 2)
    shutil.copytree(tables, tmp_path / "backup")
    _rounds(collector, device, tables, 3)
    shutil.copytree(tmp_path / "backup", tables, dirs_exist_ok=True)
    _rounds(collector, device, tables, 1)
    assert audited(tables, collector) == {device.author: 12}


@pytest.mark.parametrize("older", ["covey.json", "state", "readings", "devices", "gaps"])
def test_a_part_of_the_tables_that_is_older_than_the_rest_is_brought_up(
    collector: Collector, tables: Path, tmp_path: Path, older: str
) -> None:
    device = Author(collector, 1)
    _rounds(collector, device, tables, 2)
    shutil.copytree(tables, tmp_path / "backup")
    for _ in range(3):
        lost = Loss(LossReason.OUTBOX_FULL, ((device.seq + 1, device.seq + 1),), ((device.number + 2,) * 2,))
        collector.land(device.measure(2), device.sign(MessageType.LOSS, lost.to_wire()))
        device.number += 1
        ingest(collector.vault, tables)
    part = tables / older
    if part.is_dir():
        shutil.rmtree(part)
        shutil.copytree(tmp_path / "backup" / older, part)
    else:
        shutil.copy(tmp_path / "backup" / older, part)
    _rounds(collector, device, tables, 1)
    assert audited(tables, collector, Kind.GAP) == {device.author: 12}
    assert [(row["first"], row["state"], row["reason"]) for row in rows_of(tables, "gaps", "first")] == [
        (number, "lost", "outbox_full") for number in (4, 6, 8)
    ]


def _leave_out(collector: Collector) -> None:
    """Let a collector continue its vault as one does whose state was restored."""
    node = collector.node_vault()
    collector.incarnation = Incarnation(b"restored")
    stand_for_lost(node, collector.store, collector.incarnation, lambda *_: None, Now(0, NOW_US))
    collector.manifest = node.manifest


def test_positions_that_a_restored_hub_leaves_out_hold_no_reader_up(collector: Collector, tables: Path) -> None:
    device = Author(collector, 1)
    _rounds(collector, device, tables, 1)
    _leave_out(collector)
    _rounds(collector, device, tables, 2)
    assert audited(tables, collector) == {device.author: 6}
    assert rows_of(tables, "quarantine") == []


def test_tables_that_are_ahead_of_a_restored_hub_take_what_it_lands_from_then_on(
    collector: Collector, tables: Path, tmp_path: Path
) -> None:
    device, lost = Author(collector, 1), Author(collector, 2)
    _rounds(collector, device, tables, 2)
    shutil.copytree(collector.vault, tmp_path / "backup")
    for _ in range(3):
        collector.land(lost.measure(2))
        ingest(collector.vault, tables)
    shutil.rmtree(collector.vault)
    shutil.copytree(tmp_path / "backup", collector.vault)
    [once] = ingest(collector.vault, tables)
    assert (once.readings, once.quarantined) == (0, 1), "it says that the vault is older"

    _leave_out(collector)
    _rounds(collector, device, tables, 3)
    assert [row["reason"] for row in rows_of(tables, "quarantine")] == ["rollback"]
    rows = [row["author"] for row in rows_of(tables, "readings")]
    assert (rows.count(device.author), rows.count(lost.author), len(rows)) == (10, 6, 16)
