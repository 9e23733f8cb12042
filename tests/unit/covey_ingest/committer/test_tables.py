"""Tables in a store or a folder: each reading once, whatever fails at whichever request, and whoever else writes."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

from deltalake import DeltaTable

from covey.adapters.files import synchronise
from covey.core.ids import VaultId
from covey.errors import ConfigurationError, CoveyError, StorageError
from covey_ingest.committer import delta_log, table_locations
from covey_ingest.committer import tables as tables_module
from covey_ingest.committer.table_locations import location_at
from covey_ingest.committer.tables import Tables
from covey_ingest.task.writing import write
from tests.examples import Share, shares
from tests.failing_s3 import FailingS3, Order
from tests.tables_driver import DAY_US, URL, Driver, asked_once, distinct_moments, messages, reworked


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingS3]:
    """An empty store, which nobody asks twice."""
    with FailingS3().running() as server:
        asked_once(server, monkeypatch)
        yield server


def _standing(table: str = "readings", location: str = URL) -> list[tuple[int, ...]]:
    found = DeltaTable(f"{location}/{table}").to_pyarrow_table()
    columns = [found[name].to_pylist() for name in ("seq", "index") if name in found.column_names]
    return sorted(zip(*columns, strict=True))


def _expected(until: int) -> list[tuple[int, int]]:
    return [(number + 1, index) for number in range(until) for index in (0, 1)]


def _check(until: int, why: object = None, location: str = URL) -> None:
    """Check that all tables tell of so many messages, each once."""
    assert _standing("readings", location) == _expected(until), why
    assert _standing("losses", location) == [(number,) for number in range(until)], why
    (device,) = DeltaTable(f"{location}/devices").to_pyarrow_table().to_pylist()
    assert (device["messages"], device["readings"], device["open_gaps"]) == (until, 2 * until, 0), why
    assert sum(DeltaTable(f"{location}/rollups").to_pyarrow_table()["readings"].to_pylist()) == 2 * until, why


@pytest.mark.slow
def test_a_run_goes_on_on_another_machine(store: FailingS3, tmp_path: Path) -> None:
    Driver(tmp_path / "one").run(4)
    Driver(tmp_path / "two").run(7)
    _check(7)
    assert len(store.keys("bucket/tables/state/")) == 1


@pytest.mark.parametrize("share", shares(16, plain=1))
def test_each_reading_once_whenever_a_run_is_killed(
    store: FailingS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    """What a killed driver leaves is the store as it was after one of its changes: from each of them others go on."""
    driver = Driver(tmp_path / "driver", sizes=[2, 3])
    driver.run(2)
    store.moments = []
    with monkeypatch.context() as merging:
        merging.setattr(delta_log, "BATCHES_PER_MERGE", 4)
        driver.run(5)  # a micro-batch, its state, merging; and another one
    assert len(store.moments) > 30
    moments = distinct_moments(store)
    assert len(moments) > 25
    for number, moment in share.of(enumerate(moments)):
        store.objects = dict(moment)
        driver.run(6)
        _check(6, number)


@pytest.mark.parametrize("share", shares(16, plain=1))
def test_a_driver_that_gets_no_answer_changes_nothing_more(store: FailingS3, tmp_path: Path, share: Share) -> None:
    """Each request fails once, each change is made once and its answer lost: the run ends whole, or as if killed."""
    driver = Driver(tmp_path / "driver", sizes=[3])
    driver.run(2)
    before = dict(store.objects)
    store.asked = []
    driver.run(5)
    old = re.compile(r"GET .*/_delta_log/0{19}[01].json")  # read with those that follow, by one call of the library
    named = dict.fromkeys(_kind(asked) for asked in store.asked if not old.fullmatch(asked))
    changes = [asked for asked in named if not asked.startswith(("GET", "HEAD"))]
    strikes = [(asked, Order.CUT) for asked in named] + [(asked, Order.LOSE) for asked in changes]
    assert len(changes) > 10
    for asked, order in share.of(strikes):
        store.objects, store.moments = dict(before), []
        strike = _Strike(store, asked, order)
        store.orders = strike
        try:
            driver.run(5)
            whole = True
        except CoveyError:
            whole = False
        store.orders = lambda _method, _key: Order.OBEY
        assert strike.made_before is not None, asked
        if whole:
            _check(5, (asked, order))
        else:  # the store is as the test before has it
            assert len(store.moments) - strike.made_before == (order is Order.LOSE), (asked, order)


@dataclass
class _Strike:
    """Has a request fail the first time that it is made."""

    store: FailingS3
    asked: str
    order: Order
    made_before: int | None = None
    """Changes until then."""

    def __call__(self, method: str, key: str) -> Order:
        if self.made_before is None and _kind(f"{method} {key}") == self.asked:
            self.made_before = len(self.store.moments)
            return self.order
        return Order.OBEY


def _kind(asked: str) -> str:
    """Return a request without what is drawn anew in each run."""
    return re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{20,}", "*", asked)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["losses", "rollups", "readings"])
def test_an_earlier_run_that_was_only_slow_adds_nothing(store: FailingS3, tmp_path: Path, table: str) -> None:
    """A later run begins just as an earlier one is to put its entry into the log of a table."""
    later = Driver(tmp_path / "later", sizes=[9])

    def begin_another(method: str, key: str) -> Order:
        if method == "PUT" and f"/{table}/_delta_log/" in key and not later.starts:
            later.run(3)
        return Order.OBEY

    with Driver(tmp_path / "slow").begin() as tables:
        written = later.put(tables, range(2))
        store.orders = begin_another
        with pytest.raises(ConfigurationError, match="another engine has started"):
            tables.commit(written, {"node": [2]}, reworked)
    assert later.starts == 1
    _check(3)


@pytest.mark.slow
def test_a_prefix_belongs_to_one_vault_and_is_empty_at_first(store: FailingS3, tmp_path: Path) -> None:
    store.objects["bucket/tables/else"] = (b"", 0.0)
    with pytest.raises(ConfigurationError, match="not empty"):
        Driver(tmp_path / "one").begin()
    del store.objects["bucket/tables/else"]
    Driver(tmp_path / "one").begin()
    with pytest.raises(ConfigurationError, match="another vault"):
        Tables(location_at(URL), tmp_path / "two", [VaultId(bytes([1] * 16))])


@pytest.mark.slow
def test_a_start_compares_each_entry_of_a_log_with_its_copy_once(store: FailingS3, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver")
    driver.run(4)
    store.asked = []
    driver.begin()
    asked = store.asked.count(f"GET bucket/tables/readings/_delta_log/{0:020}.json")
    assert asked <= 3, "by the library as it opens the table and as it commits, and by us"


@pytest.mark.slow
def test_orphans_are_deleted_after_a_day_and_lost_state_is_rebuilt(store: FailingS3, tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver")
    driver.run(2)
    tables = driver.begin()  # never ended, as of a driver that is killed
    orphans = driver.put(tables, range(2, 4))
    forgotten = driver.put(tables, range(2, 4))
    tables.forget(forgotten)
    (orphan,), (gone,) = (
        [f"bucket/tables/readings/{each.files['readings'].key}" for each in put if each.files]
        for put in (orphans, forgotten)
    )
    assert orphan in store.objects
    assert gone not in store.objects
    for key in store.keys("bucket/tables/state/"):
        del store.objects[key]
    driver.run(4)
    assert orphan in store.objects, "it may be somebody's who is still at it"
    store.age(25 * 3600)
    driver.run(5)
    assert orphan not in store.objects
    _check(5)


def _in_folder(folder: Path, sizes: list[int] | None = None) -> Driver:
    return Driver(folder / "committer", str(folder / "tables"), sizes=sizes or [2])


def _named(folder: Path | None) -> set[tuple[Path, int]]:
    """Return the files of tables with their sizes, but for rows that no log names yet: of those only the age counts."""
    files = [each for each in folder.rglob("*") if each.is_file()] if folder else []
    return {
        (each.relative_to(folder), each.stat().st_size)
        for each in files
        if folder and (each.suffix != ".parquet" or ".checkpoint." in each.name)
    }


@pytest.mark.parametrize("share", shares(16, plain=1))
def test_each_reading_once_in_a_folder_whatever_a_killed_run_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    """A copy of the folder after each commit of each log, and after each file: from each of them a run goes on."""
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    driver, moments = _in_folder(tmp_path, [2, 3]), tmp_path / "moments"
    driver.run(2)
    settle, upload = table_locations.Folder.settle, table_locations.FolderStore.upload

    def copied(call: Any) -> Any:
        def then(*given: Any) -> Any:
            shutil.copytree(tmp_path / "tables", moments / f"{len(list(moments.iterdir())):03}-before")
            done = call(*given)
            shutil.copytree(tmp_path / "tables", moments / f"{len(list(moments.iterdir())):03}")
            return done

        return then

    moments.mkdir()
    with monkeypatch.context() as copying:
        copying.setattr(table_locations.Folder, "settle", copied(settle))
        copying.setattr(table_locations.FolderStore, "upload", copied(upload))
        driver.run(5)
    copies = sorted(moments.iterdir())
    assert len(copies) > 40
    distinct = [copy for copy, before in zip(copies, [None, *copies], strict=False) if _named(copy) != _named(before)]
    assert len(distinct) > 20
    for moment in share.of(distinct):
        other = Driver(tmp_path / "again", str(moment), sizes=[3])
        other.run(6)
        _check(6, moment.name, str(moment))


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["empty", "cut", "zeros", "checkpoint"])
def test_a_torn_log_entry_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    """A log entry that was linked and not synced may come back empty, short or full of zeros."""
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4 if harm == "checkpoint" else 64)
    driver = _in_folder(tmp_path)
    driver.run(8)
    log = tmp_path / "tables" / "readings" / "_delta_log"
    torn = max(log.glob("*.checkpoint.parquet" if harm == "checkpoint" else "*.json"))
    entry = torn.read_bytes()
    assert harm == "checkpoint" or b'"covey.offset"' in entry
    torn.write_bytes({"empty": b"", "zeros": bytes(len(entry))}.get(harm, entry[: len(entry) // 2]))
    # The state is of after that micro-batch, and was synced later: with the entry it would be gone, too.
    if harm != "checkpoint":
        shutil.rmtree(tmp_path / "tables" / "state")
    driver.run(10)
    _check(10, harm, driver.location)


@pytest.mark.slow
def test_another_programs_commit_is_no_torn_entry(tmp_path: Path) -> None:
    driver = _in_folder(tmp_path)
    for until in range(1, 5):
        driver.run(until)
    compacted = DeltaTable(f"{driver.location}/readings")
    compacted.optimize.compact()
    version = compacted.version()
    driver.run(6)
    assert DeltaTable(f"{driver.location}/readings", version=version).version() == version
    assert len(DeltaTable(f"{driver.location}/readings").file_uris()) == 2, "and it is not undone"
    _check(6, "after somebody else", driver.location)


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(1, 5))
def test_an_entry_of_ours_without_its_last_line_is_torn(tmp_path: Path, cut: int) -> None:
    driver = _in_folder(tmp_path)
    driver.run(4)
    entry = max((tmp_path / "tables" / "readings" / "_delta_log").glob("*.json"))
    lines = entry.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5, "ours, the file, and three numbers"
    entry.write_bytes(b"".join(lines[:cut]))
    shutil.rmtree(tmp_path / "tables" / "state")
    driver.run(6)
    _check(6, cut, driver.location)


@pytest.mark.slow
def test_the_entry_that_commits_is_synced_before_anything_relies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(table_locations, "synchronise", lambda path: synced.append(path.name) or synchronise(path))
    driver = _in_folder(tmp_path)
    with driver.begin() as tables:
        written = driver.put(tables, range(2))
        assert any(name.endswith(".parquet") for name in synced)
        synced.clear()
        tables.commit(written, {"node": [2]}, reworked)
        version = DeltaTable(f"{driver.location}/readings").version()
        assert synced[-2:] == [f"{version:020}.json", "_delta_log"]


@pytest.mark.slow
@pytest.mark.parametrize("keeps_it", [True, False])
def test_an_entry_that_a_disk_failed_to_sync_counts_only_after_another_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_it: bool
) -> None:
    """The kernel reports a failed write once; then its own copy looks like what was written, until it drops that."""
    driver = _in_folder(tmp_path)
    driver.run(2)
    log = tmp_path / "tables" / "readings" / "_delta_log"
    done: list[str] = []

    def failing(path: Path) -> None:
        if (
            path.parent == log
            and path.suffix == ".json"
            and b'"covey.offset"' in path.read_bytes()
            and "failed" not in done
        ):
            done.append("failed")
            if not keeps_it:
                path.write_bytes(b"")
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if path.parent == log:
            done.append("synced")
        synchronise(path)

    def drop_cached(path: Path) -> None:
        done.append("let go")

    with nullcontext() if keeps_it else pytest.raises(StorageError), driver.begin() as tables:
        monkeypatch.setattr(table_locations, "synchronise", failing)
        monkeypatch.setattr(table_locations, "drop_cached", drop_cached)
        tables.commit(driver.put(tables, range(2, 4)), {"node": [4]}, reworked)
        begun = done.index("failed")
        assert done[begun : begun + 3] == ["failed", "synced", "let go"]
    driver.run(6)
    _check(6, keeps_it, driver.location)


def test_the_folders_of_new_tables_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(table_locations, "synchronise", lambda path: synced.append(path) or synchronise(path))
    driver = _in_folder(tmp_path)
    with driver.begin():
        assert {tmp_path / "tables", tmp_path / "tables" / "readings"} <= {*synced}


@pytest.mark.slow
def test_a_message_that_came_twice_is_in_the_table_once_as_it_came_first(tmp_path: Path) -> None:
    driver = _in_folder(tmp_path)
    with driver.begin() as tables:
        first = list(write(tables.target, [messages(range(2), losses=False), messages(range(1, 3), collector="a")]))
        brought = tables.commit(first, {"node": [3]}, reworked)
        assert (brought.messages, brought.readings, brought.repeats) == (3, 6, 1)
        later = [messages(range(4), received_at=DAY_US + 10**6, losses=False)]
        brought = tables.commit(list(write(tables.target, later)), {"node": [4]}, reworked)
        assert (brought.messages, brought.readings, brought.repeats) == (1, 2, 3)
    assert _standing("readings", driver.location) == _expected(4)
    rows = DeltaTable(f"{driver.location}/readings").to_pyarrow_table().to_pylist()
    assert {row["collector"] for row in rows if row["seq"] == 2} == {"a"}, "of two at one moment, the first by name"
    assert len(list((tmp_path / "tables" / "readings").glob("batch=*/*.parquet"))) == 2, "what was replaced is gone"


@pytest.mark.slow
def test_small_files_are_merged_and_what_was_heard_outlives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 8)
    monkeypatch.setattr(delta_log, "MAGNITUDES", (64_000, 512_000, 4_096_000))
    driver = _in_folder(tmp_path, [1])
    with driver.begin() as tables:
        for number in range(23):
            tables.commit(driver.put(tables, range(number, number + 1)), {"node": [number + 1]}, reworked)
            tables.keep_in_time()
    table = DeltaTable(f"{driver.location}/readings")
    assert len(table.file_uris()) < 16
    assert any("batch=" not in uri for uri in table.file_uris())
    shutil.rmtree(tmp_path / "tables" / "state")
    driver.run(26)
    _check(26, "counted again from merged files", driver.location)


@pytest.mark.slow
def test_the_cost_of_a_micro_batch_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    monkeypatch.setattr(delta_log, "_KEPT_HOURS", 0)
    monkeypatch.setattr(tables_module, "STATE_SECONDS", 0.0)
    monkeypatch.setattr(table_locations, "VERSIONS_KEPT", 8)
    monkeypatch.setattr(table_locations, "FOLDERS_KEPT", 2)
    driver = _in_folder(tmp_path)
    with driver.begin() as tables:
        for number in range(28):
            tables.commit(driver.put(tables, range(number, number + 1)), {"node": [number + 1]}, reworked)
            tables.keep_in_time()
    readings = tmp_path / "tables" / "readings"
    assert len(list(readings.iterdir())) <= 16, "merged, small, log, and files that are not merged yet"
    assert len(list((readings / "_delta_log").glob("*.json"))) <= 8 + 3 * 8
    _check(28, "all of it", driver.location)


@pytest.mark.slow
def test_a_new_column_is_added_and_one_of_somebody_elses_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    driver = _in_folder(tmp_path)
    driver.run(2)
    DeltaTable(f"{driver.location}/readings").alter.add_columns([Field("note", PrimitiveType("string"))])
    wider = tables_module.SCHEMAS["losses"].append(pa.field("quality", pa.string()))
    monkeypatch.setitem(tables_module.SCHEMAS, "losses", wider)
    driver.run(4)
    _check(4, "wider", driver.location)
    names = {table: DeltaTable(f"{driver.location}/{table}").schema().fields for table in ("readings", "losses")}
    assert "note" in [field.name for field in names["readings"]]
    assert "quality" in [field.name for field in names["losses"]]


@pytest.mark.slow
def test_the_change_feed_tells_each_reading_once_and_a_repaired_time_as_an_update(tmp_path: Path) -> None:
    driver = _in_folder(tmp_path)
    slow: dict[str, Any] = {"time_quality": "unsynchronised", "clock_offset": 5 - 10**9, "times": [DAY_US - 10**9] * 2}
    with driver.begin() as tables:
        tables.commit(list(write(tables.target, [messages(range(2), **slow)])), {"node": [2]}, reworked)
        tables.commit(list(write(tables.target, [messages(range(2, 4))])), {"node": [4]}, reworked)
    table = DeltaTable(f"{driver.location}/readings")
    feed = pa.table(table.load_cdf(starting_version=1).read_all())
    kinds = Counter(feed["_change_type"].to_pylist())
    assert kinds == {"insert": 8, "update_preimage": 4, "update_postimage": 4}
    assert {row["time_quality"] for row in table.to_pyarrow_table().to_pylist()} == {"rebased", "synchronised"}
    assert {row["clock_offset"] for row in table.to_pyarrow_table().to_pylist()} == {5}


@pytest.mark.slow
def test_a_clock_that_repairs_no_time_ends_no_engine(tmp_path: Path) -> None:
    driver = _in_folder(tmp_path)
    late = DAY_US + 400 * 86_400_000_000  # a year after it arrived: no clock makes that right
    odd: dict[str, Any] = {"time_quality": "unsynchronised", "clock_offset": 5 - 10**9, "times": [late] * 2}
    with driver.begin() as tables:
        tables.commit(list(write(tables.target, [messages(range(2), **odd)])), {"node": [2]}, reworked)
        tables.commit(list(write(tables.target, [messages(range(2, 4))])), {"node": [4]}, reworked)
    table = DeltaTable(f"{driver.location}/readings")
    assert Counter(table.to_pyarrow_table()["time_quality"].to_pylist()) == {"unsynchronised": 4, "synchronised": 4}
