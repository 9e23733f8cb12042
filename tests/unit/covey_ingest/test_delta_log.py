"""The log of a Delta table follows the committed micro-batches: each once, whatever was killed when."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="the delta extra is not installed")

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from covey_ingest import clocks, dedup, delta_log, gaps, repairs, seen_orders, table_locations
from covey_ingest.delta_log import DeltaLog
from covey_ingest.gaps import numbers_in, update
from covey_ingest.messages import messages_in
from covey_ingest.report import make_report
from covey_ingest.state_file import replace_state
from covey_ingest.table_files import table_files


def _commit(root: Path, number: int, **more: list[object]) -> None:
    folder = root / "readings" / f"batch={number}"
    folder.mkdir(parents=True)
    time = pa.array([number * 1_000_001, number * 1_000_001 + 7], pa.timestamp("us", "UTC"))
    columns = {"author": ["a", "b"], "incarnation": ["x", "x"], "seq": [number + 1] * 2, "index": [0, 0], "time": time}
    columns |= {"boot": ["first"] * 2, "batch_number": [number + 1] * 2, "collector": ["c"] * 2, "received_at": time}
    pq.write_table(pa.table(columns | more), folder / "part-0.parquet")


def _staged(root: Path, number: int) -> Path:
    """Return a folder of readings that is not committed yet."""
    _commit(root / "staging", number)
    return root / "staging" / "readings" / f"batch={number}"


def _rows(root: Path, table: str = "readings") -> pa.Table:
    files = [pq.read_table(file) for file in table_files(root, table)]
    return pa.concat_tables(files, promote_options="default")


def test_a_replay_adds_nothing_and_what_was_missed_is_added_in_order(tmp_path: Path) -> None:
    _commit(tmp_path, 0)
    DeltaLog(tmp_path, "ingest").publish()
    _commit(tmp_path, 1)
    _commit(tmp_path, 2)
    for _ in range(2):
        DeltaLog(tmp_path, "ingest").publish()
    table = DeltaTable(tmp_path / "readings")
    assert (table.transaction_version("ingest"), len(table.file_uris())) == (2, 3)

    # Killed before the last commit to the log: it comes back as it was.
    (tmp_path / "readings" / "_delta_log" / f"{table.version():020}.json").unlink()
    assert _rows(tmp_path).num_rows == 4
    DeltaLog(tmp_path, "ingest").publish()
    assert _rows(tmp_path).sort_by("seq")["seq"].to_pylist() == [1, 1, 2, 2, 3, 3]


def test_what_is_no_reading_waits_for_the_readings(tmp_path: Path) -> None:
    _commit(tmp_path, 0)
    (tmp_path / "readings" / "batch=0").rename(tmp_path / "killed")
    (tmp_path / "quarantine").mkdir()
    shutil.copytree(tmp_path / "killed", tmp_path / "quarantine" / "batch=0")
    for published in (False, True):
        (tmp_path / "readings").mkdir(exist_ok=True)
        DeltaLog(tmp_path, "ingest").publish()
        assert [delta_log.is_delta(tmp_path / table) for table in ("quarantine", "readings")] == [published] * 2
        if not published:
            (tmp_path / "killed").rename(tmp_path / "readings" / "batch=0")


def test_readers_skip_files_by_time(tmp_path: Path) -> None:
    for number in range(3):
        _commit(tmp_path, number)
    DeltaLog(tmp_path, "ingest").publish()
    actions = pa.table(DeltaTable(tmp_path / "readings").get_add_actions(flatten=True)).sort_by("path")
    least, most = (pa.compute.cast(actions[f"{end}.time"], pa.int64()).to_pylist() for end in ("min", "max"))
    for number in range(3):
        first, last = number * 1_000_001, number * 1_000_001 + 7
        assert first - 1000 < least[number] <= first
        assert last <= most[number] < last + 1000


@pytest.mark.slow
def test_small_files_are_merged_and_what_was_heard_outlives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    log = DeltaLog(tmp_path, "ingest")
    for number in range(5):
        _commit(tmp_path, number)
        log.publish()
    update(tmp_path)
    before = pq.read_table(numbers_in(tmp_path))
    table = DeltaTable(tmp_path / "readings")
    assert len(table.file_uris()) == 2
    assert _rows(tmp_path).num_rows == 10
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert not list((tmp_path / "readings" / "batch=0").glob("*"))
    numbers_in(tmp_path).unlink()
    update(tmp_path)
    assert pq.read_table(numbers_in(tmp_path)).equals(before)


@pytest.mark.slow
def test_nothing_empty_stays_and_no_folder_is_listed_for_a_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    monkeypatch.setattr(table_locations, "VERSIONS_KEPT", 8)
    monkeypatch.setattr(table_locations, "FOLDERS_KEPT", 2)
    old = DeltaLog(tmp_path, "ingest")
    for number in range(16):
        _commit(tmp_path, number)
        (tmp_path / "readings" / f"batch={number}" / "_SUCCESS").touch()
    old.publish()
    gaps.update(tmp_path)
    clocks.update(tmp_path)
    DeltaTable(tmp_path / "readings").vacuum(0, dry_run=False, enforce_retention_duration=False)

    log = DeltaLog(tmp_path, "ingest")
    log.publish()  # lists what an earlier version has left
    assert len(list((tmp_path / "readings").glob("batch=*"))) <= 3
    monkeypatch.setattr(delta_log, "_KEPT_HOURS", 0)
    names: list[str] = []
    patterns = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, pattern: names.append(pattern) or patterns(path, pattern))
    for number in range(16, 40):
        assert not dedup.find(tmp_path, messages_in(_staged(tmp_path, number)), number - 1).copies
        _commit(tmp_path, number)
        for follow in (gaps.update, clocks.update, seen_orders.update, repairs.update):
            follow(tmp_path, number)
        log.publish(number)
    assert "batch=*" not in names
    assert len(list((tmp_path / "readings").iterdir())) <= 4 + 3 + 4, "merged, small, log and files not yet merged"
    assert len(list((tmp_path / "readings" / "_delta_log").glob("*.json"))) <= 8 + 3 * 4
    repeats = dedup.find(tmp_path, messages_in(_staged(tmp_path / "again", 20)), 39)
    assert (len(repeats.known), repeats.copies) == (2, 2), "the log knows where they are now"
    assert sorted(_rows(tmp_path)["seq"].to_pylist()) == sorted([*range(1, 41)] * 2)
    assert DeltaTable(tmp_path / "readings", version=DeltaTable(tmp_path / "readings").version() - 8).file_uris()


@pytest.mark.slow
def test_merging_writes_a_reading_anew_a_few_times_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 8)
    monkeypatch.setattr(delta_log, "MAGNITUDES", (64_000, 512_000, 4_096_000))
    log, noise = DeltaLog(tmp_path, "ingest"), random.Random(1)
    for number in range(128):
        _commit(tmp_path, number, noise=[noise.randbytes(4_000)] * 2)
    log.publish()
    table = pa.table(DeltaTable(tmp_path / "readings").get_add_actions())
    assert sum(table["num_records"].to_pylist()) == 256
    assert len(table) < 20
    assert max(table["size_bytes"].to_pylist()) > 100_000
    merged = sum(file.stat().st_size for file in (tmp_path / "readings").glob("*.parquet"))
    assert merged < 4 * sum(table["size_bytes"].to_pylist()), "at each merge from the first on it would be 8 times"


@pytest.mark.slow
def test_gaps_that_are_counted_anew_from_merged_files_are_those_that_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_log, "BATCHES_PER_MERGE", 4)
    log = DeltaLog(tmp_path, "ingest")
    for number in range(7):
        received = pa.array([(number + 1) * 1_000_000] * 2, pa.timestamp("us", "UTC"))
        # Late data: b's first two numbers change places, over two micro-batches.
        columns = {
            "collector": ["c", "c"],
            "received_at": received,
            "batch_number": [number + 1 + 5 * (number > 4)] * 2,
        }
        columns["batch_number"] = [columns["batch_number"][0], {0: 2, 1: 1}.get(number, columns["batch_number"][1])]
        _commit(tmp_path, number, **columns)
        gaps.update(tmp_path)
        log.publish()

    def standing() -> list[tuple[object, ...]]:
        rows = pq.read_table(gaps.path_in(tmp_path)).to_pylist()
        return [(row["author"], row["first"], row["last"], row["state"]) for row in rows if row["state"] != "closed"]

    assert standing() == [(author, 6, 10, "open") for author in "ab"]
    DeltaTable(tmp_path / "readings").vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert not list((tmp_path / "readings" / "batch=0").glob("*"))
    numbers = tmp_path / ".numbers" / "numbers.parquet"
    state = pq.read_table(numbers)
    numbers.unlink()
    gaps.update(tmp_path)
    assert standing() == [(author, 6, 10, "open") for author in "ab"]
    assert pq.read_table(numbers).equals(state)
    log.publish(last=True)
    assert _rows(tmp_path, "gaps").equals(pq.read_table(gaps.path_in(tmp_path)).replace_schema_metadata(None))
    (gaps.path_in(tmp_path)).unlink()
    (row,) = make_report(str(tmp_path), 10**15, None).sections["gaps"]
    assert (row["state"], row["gaps"], row["batches"]) == ("open", 2, 10), "from the log"


def test_a_new_column_is_added_and_one_of_somebody_elses_survives(tmp_path: Path) -> None:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    log = DeltaLog(tmp_path, "ingest")
    _commit(tmp_path, 0)
    log.publish()
    DeltaTable(tmp_path / "readings").alter.add_columns([Field("note", PrimitiveType("string"))])
    _commit(tmp_path, 1, quality=["good", None])
    log.publish()
    table = DeltaTable(tmp_path / "readings")
    assert [field.name for field in table.schema().fields][-2:] == ["note", "quality"]
    assert _rows(tmp_path).sort_by([("seq", "ascending"), ("author", "ascending")])["quality"].to_pylist() == [
        *(None, None),
        *("good", None),
    ]


def test_a_table_that_is_replaced_whole_is_published_at_last(tmp_path: Path) -> None:
    log, state = DeltaLog(tmp_path, "ingest"), tmp_path / "devices" / "devices.parquet"
    for number in range(3):
        replace_state(state, pa.table({"author": ["a"], "messages": [number]}), number)
        log.publish()
    assert _rows(tmp_path, "devices").to_pylist() == [{"author": "a", "messages": 0}]
    log.publish(last=True)
    log.publish(last=True)
    assert _rows(tmp_path, "devices").to_pylist() == [{"author": "a", "messages": 2}]
    assert DeltaTable(tmp_path / "devices").version() <= 3, "nothing is written for nothing"
