"""What a micro-batch had to pass over is read when it can be, and a store that is away costs no reading."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from covey.errors import CoveyError, TransientError
from covey_ingest import dedup, repairs
from covey_ingest.report import make_report
from tests.spark.fleet import NOW_US, Author, Collector
from tests.spark.ingesting import audited, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    """A collector whose key file lies outside the vault, which may go away."""
    collector = Collector(tmp_path / "vault")
    shutil.move(collector.key_file, tmp_path / "vault.key")
    collector.key_file = tmp_path / "vault.key"
    return collector


def _quarantine(tables: Path) -> list[tuple[Any, ...]]:
    rows = ds.dataset(tables / "quarantine", partitioning="hive").to_table().to_pylist()
    names = ("batch", "reason", "first_segment", "last_segment", "record")
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


def _failed(tables: Path) -> list[tuple[int, int]]:
    rows = pq.read_table(repairs.path_in(tables)).to_pylist()
    return [(row["first_segment"], row["last_segment"]) for row in rows]


def _replay(tables: Path, batch_id: int) -> None:
    """Go back to where this micro-batch was planned, and nothing of it written."""
    for path in (tables / ".checkpoint" / "commits").glob(f"*{batch_id}*"):
        path.unlink()
    for table in ("readings", "quarantine", "losses"):
        shutil.rmtree(tables / table / f"batch={batch_id}", ignore_errors=True)


def test_a_segment_that_failed_is_read_when_it_is_whole_again(  # accepts: 004.24
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    entries = [collector.land(device.measure(2), device.measure(1)) for _ in range(5)]
    paths = [collector.segment_path(entry) for entry in entries]
    good = [path.read_bytes() for path in paths]
    paths[1].unlink()
    paths[2].write_bytes(good[2][:-1])
    paths[3].write_bytes(good[4])
    (first,) = ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert (first.readings, first.quarantined, first.repaired) == (6, 3, 0)
    assert _failed(tables) == [(2, 2), (3, 3), (4, 4)]
    assert ingest(spark, collector.vault, tables, key_file=collector.key_file) == [], "nothing is any better"

    collector.put(paths[1], good[1])
    collector.put(paths[2], good[2])
    (healed,) = ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert (healed.readings, healed.quarantined, healed.repaired) == (6, 0, 2)
    assert _failed(tables) == [(4, 4)]
    assert [row["reason"] for row in make_report(str(tables), NOW_US, None).sections["quarantine"]] == ["decryption"]

    # Killed before the readings were renamed; the file that says what failed is lost, too.
    _replay(tables, 1)
    shutil.rmtree(repairs.path_in(tables).parent)
    collector.put(paths[3], good[3])
    reported = ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert [(each.batch_id, each.readings, each.repaired) for each in reported] == [(1, 6, 2), (2, 3, 1)]
    assert audited(tables, collector) == {device.author: 15}
    assert _failed(tables) == []
    assert _quarantine(tables) == [
        (0, "decryption", 3, 3, None),
        (0, "decryption", 4, 4, None),
        (0, "missing", 2, 2, None),
        (1, "repaired", 2, 2, None),
        (1, "repaired", 3, 3, None),
        (2, "repaired", 4, 4, None),
    ]
    assert make_report(str(tables), NOW_US, None).sections["quarantine"] == []


def test_a_repaired_segment_that_was_merged_meanwhile_is_read_once(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    entries = [collector.land(device.measure(2)) for _ in range(4)]
    path = collector.segment_path(entries[1])
    good = path.read_bytes()
    path.unlink()
    ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert _failed(tables) == [(2, 2)]
    collector.put(path, good)
    collector.compact()
    collector.compact()  # deletes what the first one replaced
    assert not path.exists()
    (healed,) = ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert (healed.readings, healed.repaired, healed.repeats) == (2, 1, 0)
    assert audited(tables, collector) == {device.author: 8}


@pytest.mark.parametrize("empty", [True, False])
def test_a_vault_that_is_not_mounted_costs_no_reading(
    spark: SparkSession, collector: Collector, tables: Path, empty: bool
) -> None:
    device, mounted = Author(collector, 1), collector.vault.with_name("mounted")
    collector.land(device.measure(2))
    ingest(spark, collector.vault, tables, key_file=collector.key_file)
    collector.land(device.measure(3))
    ingest(spark, collector.vault, tables, key_file=collector.key_file)
    _replay(tables, 1)
    collector.vault.rename(mounted)
    if empty:
        collector.vault.mkdir()
    with pytest.raises(CoveyError, match="empty" if empty else "no vault"):
        ingest(spark, collector.vault, tables, key_file=collector.key_file)
    if empty:
        collector.vault.rmdir()
    mounted.rename(collector.vault)
    assert [each.readings for each in ingest(spark, collector.vault, tables, key_file=collector.key_file)] == [3]
    assert audited(tables, collector) == {device.author: 5}
    assert not (tables / "quarantine").exists()


def test_a_vault_that_changes_between_two_looks_commits_nothing(
    spark: SparkSession, collector: Collector, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Author(collector, 1)
    collector.land(device.measure(2), device.loss(7, 9))
    path = collector.segment_path(collector.land(device.measure(3)))
    good, find = path.read_bytes(), dedup.find

    def and_then_a_segment_fails(*given: Any) -> dedup.Repeats:
        path.unlink()
        return find(*given)

    with monkeypatch.context() as patched:
        patched.setattr(dedup, "find", and_then_a_segment_fails)
        with pytest.raises(TransientError, match="the vault changed"):
            ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert not list((tables / "readings").glob("batch=*"))

    # What a killed run had committed of the others is not taken for this one's.
    stale = tables / "quarantine" / "batch=0"
    stale.mkdir(parents=True)
    (stale / "part-0.parquet").write_bytes(b"of another attempt")
    collector.put(path, good)
    (written,) = ingest(spark, collector.vault, tables, key_file=collector.key_file)
    assert (written.readings, written.losses, written.quarantined) == (5, 1, 0)
    assert not stale.exists()
    assert audited(tables, collector) == {device.author: 5}
