"""What a micro-batch had to pass over is read when it can be, and a store that is away costs no reading."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from covey.errors import CoveyError, StorageError
from covey_ingest.committer.deletions import Deletions
from covey_ingest.options import SourceOptions
from covey_ingest.queries.report import make_report
from covey_ingest.task.tasks import TaskPart, write_part
from covey_ingest.task.writing import Target
from covey_ingest.vault.planning import Planner
from tests.spark.fleet import NOW_US, Author, Collector
from tests.tables.ingesting import audited, ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    """A collector whose key file lies outside the vault, which may go away."""
    collector = Collector(tmp_path / "vault")
    shutil.move(collector.key_file, tmp_path / "vault.key")
    collector.key_file = tmp_path / "vault.key"
    return collector


def _quarantine(tables: Path) -> list[tuple[Any, ...]]:
    names = ("reason", "first_segment", "last_segment", "record")
    return sorted((tuple(row[name] for name in names) for row in rows_of(tables, "quarantine")), key=str)


def test_a_segment_that_failed_is_read_when_it_is_whole_again(  # accepts: 004.24
    collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    entries = [collector.land(device.measure(2), device.measure(1)) for _ in range(5)]
    paths = [collector.segment_path(entry) for entry in entries]
    good = [path.read_bytes() for path in paths]
    paths[1].unlink()
    paths[2].write_bytes(good[2][:-1])
    paths[3].write_bytes(good[4])
    (first,) = ingest(collector.vault, tables, key_file=collector.key_file)
    assert (first.readings, first.quarantined, first.repaired) == (6, 3, 0)
    assert ingest(collector.vault, tables, key_file=collector.key_file) == [], "nothing is any better"

    collector.put(paths[1], good[1])
    collector.put(paths[2], good[2])
    (healed,) = ingest(collector.vault, tables, key_file=collector.key_file)
    assert (healed.readings, healed.quarantined, healed.repaired) == (6, 0, 2)
    assert [row["reason"] for row in make_report(str(tables), NOW_US, None).sections["quarantine"]] == ["decryption"]

    collector.put(paths[3], good[3])
    [last] = ingest(collector.vault, tables, key_file=collector.key_file)
    assert (last.readings, last.repaired) == (3, 1)
    assert audited(tables, collector) == {device.author: 15}
    assert _quarantine(tables) == [
        *(("decryption", number, number, None) for number in (3, 4)),
        ("missing", 2, 2, None),
        *(("repaired", number, number, None) for number in (2, 3, 4)),
    ]
    assert make_report(str(tables), NOW_US, None).sections["quarantine"] == []


def test_a_repaired_segment_that_was_merged_meanwhile_is_read_once(collector: Collector, tables: Path) -> None:
    device = Author(collector, 1)
    entries = [collector.land(device.measure(2)) for _ in range(4)]
    path = collector.segment_path(entries[1])
    good = path.read_bytes()
    path.unlink()
    ingest(collector.vault, tables, key_file=collector.key_file)
    collector.put(path, good)
    collector.compact()
    collector.compact()  # deletes what the first one replaced
    assert not path.exists()
    (healed,) = ingest(collector.vault, tables, key_file=collector.key_file)
    assert (healed.readings, healed.repaired, healed.repeats) == (2, 1, 0)
    assert audited(tables, collector) == {device.author: 8}


def test_a_vault_that_is_not_mounted_costs_no_reading(collector: Collector, tables: Path) -> None:
    device, mounted = Author(collector, 1), collector.vault.with_name("mounted")
    collector.land(device.measure(2))
    ingest(collector.vault, tables, key_file=collector.key_file)
    collector.land(device.measure(3))
    collector.vault.rename(mounted)
    with pytest.raises(CoveyError, match="no vault"):
        ingest(collector.vault, tables, key_file=collector.key_file)
    mounted.rename(collector.vault)
    assert [each.readings for each in ingest(collector.vault, tables, key_file=collector.key_file)] == [3]
    assert audited(tables, collector) == {device.author: 5}
    assert rows_of(tables, "quarantine") == []


def test_a_vault_that_empties_before_a_planned_task_reads_it_passes_nothing_over(
    collector: Collector, tables: Path
) -> None:
    collector.land(Author(collector, 1).measure(2))
    source = SourceOptions(str(collector.vault), collector.key_file)
    planner = Planner(source)
    planned = planner.tasks({}, planner.next_offset({}, None, None))
    collector.vault.rename(collector.vault.with_name("mounted"))
    collector.vault.mkdir()
    tables.mkdir()
    with pytest.raises(StorageError, match="the vault became empty"):
        write_part(TaskPart(source, Target(str(tables), 0, Deletions()), tuple(planned)))
