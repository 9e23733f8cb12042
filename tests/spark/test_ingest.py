"""The whole way from a vault to tables, read back as any reader of Parquet would."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from covey.core.telemetry.batch import ClockKind
from covey.core.wire.message import Loss, LossReason, MessageType
from covey.errors import ConfigurationError
from covey_ingest import deletions, devices, gaps, merging
from covey_ingest.__main__ import main
from covey_ingest.report import make_report
from covey_ingest.source import FORMAT
from covey_ingest.tables import Tables, readings
from tests.outside.holdings import Kind
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given
from tests.spark.ingesting import Recorder, audited, ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEY = ["author", "incarnation", "seq", "index"]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _table(tables: Path, name: str) -> pa.Table:
    """Read a table as pyarrow does, which knows nothing of Spark."""
    return ds.dataset(tables / name, partitioning="hive").to_table()


def _readings(tables: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _table(tables, "readings").sort_by([(name, "ascending") for name in KEY]).to_pylist()
    return rows


def _device_rows(tables: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(devices.path_in(tables)).to_pylist()
    return rows


def test_every_kind_of_reading_arrives_with_honest_time(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device, lost = Author(collector, 1), Author(collector, 2)
    values: list[Given] = [("door", "", BOOTED_US, True), ("t", "Cel", BOOTED_US, 21.5), ("s", "", BOOTED_US, "on")]
    values += [("count", "", BOOTED_US, 2**53 + 1), ("count", "", BOOTED_US, 3)]
    collector.land(device.telemetry(values), device.telemetry([("raw", "", BOOTED_US, b"\x00")]), device.loss(7, 9))
    collector.land(lost.telemetry([("t", "Cel", 0, -1.0)], lost.clock(ClockKind.UNSYNCHRONISED, wall_us=0)))
    (progress,) = ingest(spark, collector.vault, tables)
    assert (progress.readings, progress.messages, progress.losses, progress.quarantined) == (7, 3, 1, 0)

    rows = [row for row in _readings(tables) if row["author"] == device.author]
    columns = ["seq", "index", "name", "unit", "value", "whole", "flag", "text", "data"]
    assert [[row[column] for column in columns] for row in rows] == [
        [1, 0, "t", "Cel", 21.5, None, None, None, None],
        [1, 1, "count", "", 2.0**53, 2**53 + 1, None, None, None],
        [1, 2, "count", "", 3, None, None, None, None],
        [1, 3, "door", "", None, None, True, None, None],
        [1, 4, "s", "", None, None, None, "on", None],
        [2, 0, "raw", "", None, None, None, None, b"\x00"],
    ]
    assert {row["device"] for row in rows} == {device.author[:8]}
    assert {row["collector"] for row in rows} == {collector.identity.signing_public.hex()}
    assert {round(row["time"].timestamp() * 1e6) for row in rows} == {NOW_US}
    (late,) = [row for row in _readings(tables) if row["author"] == lost.author]
    assert (late["time_quality"], late["time"].year) == ("arrival", 2027)
    (loss,) = _table(tables, "losses").to_pylist()
    assert (loss["author"], loss["first"], loss["last"], loss["reason"]) == (device.author, 7, 9, "outbox_full")
    assert spark.read.parquet(str(tables / "readings")).count() == 7


def test_each_reading_once_whatever_a_kill_left_behind(spark: SparkSession, collector: Collector, tables: Path) -> None:
    """Every state between two steps of a micro-batch, made by hand: see the rules of `tables`."""
    fleet = [Author(collector, seed) for seed in range(3)]
    for _ in range(4):
        collector.land(*(device.measure(50) for device in fleet))
    ingest(spark, collector.vault, tables, segments_per_trigger=2)
    expected, expected_devices = _readings(tables), _device_rows(tables)
    assert len(expected) == 4 * 3 * 50
    checkpoint = tables / ".checkpoint"

    def forget_commit() -> None:
        (checkpoint / "commits" / "1").unlink()
        (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)

    # Killed after all was written, before Spark noted it.
    forget_commit()
    ingest(spark, collector.vault, tables)
    assert (_readings(tables), _device_rows(tables)) == (expected, expected_devices)

    # Killed after the readings were renamed, before `devices` followed.
    forget_commit()
    _devices_of_batch_0(tables)
    ingest(spark, collector.vault, tables)
    assert (_readings(tables), _device_rows(tables)) == (expected, expected_devices)

    # Killed while the readings were being written.
    forget_commit()
    _devices_of_batch_0(tables)
    (tables / ".staging").mkdir(exist_ok=True)
    (tables / "readings" / "batch=1").rename(tables / ".staging" / "readings-1-half")
    reported = ingest(spark, collector.vault, tables)
    assert [(each.batch_id, each.readings) for each in reported] == [(1, 300)]
    assert (_readings(tables), _device_rows(tables)) == (expected, expected_devices)
    assert not list((tables / ".staging").glob("*"))
    kept = [pq.read_table(file, partitioning=None) for file in (tables / "rollups").glob("batch=*/*.parquet")]
    assert sum(sum(part["readings"].to_pylist()) for part in kept) == len(expected), "and in the rollups"

    assert audited(tables, collector) == {device.author: 200 for device in fleet}


def test_a_message_that_landed_twice_is_in_the_table_once(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    """Through two collectors in one micro-batch, imported again in a later one, and replayed after a kill."""
    other = Collector(collector.vault, seed=5, key=collector.key)
    device = Author(collector, 1)
    messages = [device.measure(20) for _ in range(4)]
    collector.land(*messages[:2])
    other.land(*messages[1:3], received_at_us=NOW_US + 1_000_000)
    (first,) = ingest(spark, collector.vault, tables)
    assert (first.messages, first.readings, first.repeats) == (3, 60, 1)
    came_first = {row["collector"] for row in _readings(tables) if row["seq"] == 2}
    assert came_first == {collector.identity.signing_public.hex()}

    other.land(*messages)
    (second,) = ingest(spark, collector.vault, tables)
    assert (second.messages, second.readings, second.repeats) == (1, 20, 3)
    expected, expected_devices = _readings(tables), _device_rows(tables)
    assert [(row["seq"], row["index"]) for row in expected] == [
        (seq, index) for seq in (1, 2, 3, 4) for index in range(20)
    ]

    # The second micro-batch is gone from the table: what had been heard of it must not stand in its way.
    (tables / ".checkpoint" / "commits" / "1").unlink()
    (tables / ".checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    shutil.rmtree(tables / "readings" / "batch=1")
    ingest(spark, collector.vault, tables)
    assert (_readings(tables), _device_rows(tables)) == (expected, expected_devices)


def _devices_of_batch_0(tables: Path) -> None:
    """Put back the `devices` that batch 0 left: half of everything."""
    table = pq.read_table(devices.path_in(tables))
    for name in ("messages", "readings", "last_seq"):
        halved = pa.array([value // 2 for value in table[name].to_pylist()], pa.int64())
        table = table.set_column(table.schema.get_field_index(name), name, halved)
    pq.write_table(table.replace_schema_metadata({b"covey.batch": b"0"}), devices.path_in(tables))


# accepts: 004.15, 004.19, 004.24
def test_damage_lands_in_the_quarantine_and_the_job_goes_on(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    other = Collector(collector.vault, seed=5, key=collector.key)
    entries = [collector.land(device.measure(1)) for _ in range(5)]
    flipped, swapped, removed = (collector.segment_path(entry) for entry in entries[1:4])
    content = bytearray(flipped.read_bytes())
    content[60] ^= 1
    flipped.write_bytes(bytes(content))
    shutil.copy(collector.segment_path(entries[0]), swapped)
    removed.unlink()
    forged = bytearray(device.measure(1))
    forged[-1] ^= 1
    collector.land(bytes(forged), device.measure(1))
    other.land(Author(other, 9).measure(1))
    good = other.manifest_path.read_bytes()
    other.put(other.manifest_path, good[:-1])

    (progress,) = ingest(spark, collector.vault, tables)
    assert (progress.readings, progress.quarantined) == (3, 5)
    found = [
        (row["node"] == collector.node.hex(), row["segment"], row["record"], row["reason"])
        for row in _table(tables, "quarantine").to_pylist()
    ]
    assert sorted(found, key=str) == sorted(
        [
            (True, 2, None, "decryption"),
            (True, 3, None, "decryption"),
            (True, 4, None, "missing"),
            (True, 6, 0, "signature"),
            (False, None, None, "decryption"),
        ],
        key=str,
    )
    hidden = collector.manifest_path.read_bytes()
    collector.manifest_path.unlink()
    (lost,) = ingest(spark, collector.vault, tables)
    assert (lost.readings, lost.quarantined) == (0, 1)
    collector.put(collector.manifest_path, hidden)
    assert [(each.readings, each.quarantined) for each in ingest(spark, collector.vault, tables)] == [(0, 0)]
    other.put(other.manifest_path, good)
    (healed,) = ingest(spark, collector.vault, tables)
    assert (healed.readings, healed.quarantined) == (1, 0)
    assert sum(audited(tables, collector, Kind.UNREADABLE, Kind.FORGED, Kind.GAP).values()) == 4


def test_boots_and_latest_state_of_a_device_survive_late_data(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    first_boot = device.boot_id
    early = device.measure(1)
    board = "b" * 64
    readings = [("firmware", "", BOOTED_US, "covey 1"), (f"board/{device.author}/firmware", "", BOOTED_US, "board 7")]
    gateway = Author(collector, 2)
    collector.land(device.measure(2))
    collector.land(gateway.telemetry([*readings, (f"board/{board}/firmware", "", BOOTED_US, "never heard of")]))
    device.boot_id = bytes(8)
    collector.land(device.measure(3), received_at_us=NOW_US + 2_000_000)
    collector.land(early, received_at_us=NOW_US + 1_000_000)
    assert len(ingest(spark, collector.vault, tables, segments_per_trigger=1)) == 4
    (row,) = [row for row in _device_rows(tables) if row["author"] == device.author]
    (other,) = [row for row in _device_rows(tables) if row["author"] == gateway.author]
    assert (row["firmware"], row["gateway"]) == ("board 7", gateway.author)
    assert (other["firmware"], other["gateway"]) == ("covey 1", None)
    assert (row["boots"], row["boot_ids"]) == (2, [first_boot.hex(), bytes(8).hex()])
    assert (row["messages"], row["readings"], row["last_seq"]) == (3, 6, 3)
    assert round(row["last_seen"].timestamp() * 1e6) == NOW_US + 2_000_000


def test_what_two_collectors_got_under_one_number_is_in_the_table_twice(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    """Of a card that was written back: one has what its lost life numbered, the other what it goes on with."""
    other = Collector(collector.vault, seed=5, key=collector.key)
    device = Author(collector, 1)
    collector.land(device.measure(3))
    copied = device.seq, device.number
    lost = [device.measure(3) for _ in range(2)]
    collector.land(*lost)
    device.seq, device.number = copied
    device.boot_id = b"another."
    new = [device.telemetry([("late", "Cel", BOOTED_US, 20 + n)]) for n in range(3)]
    (first,) = ingest(spark, collector.vault, tables)
    assert (first.messages, first.repeats) == (3, 0)
    other.land(*new, lost[1])
    (second,) = ingest(spark, collector.vault, tables)
    assert (second.messages, second.readings, second.repeats) == (3, 3, 1)
    collector.land(*new)
    (third,) = ingest(spark, collector.vault, tables)
    assert (third.messages, third.readings, third.repeats) == (0, 0, 3)
    assert sorted(row["value"] for row in _readings(tables) if row["name"] == "late") == [20, 21, 22]
    assert len(_readings(tables)) == 12


def _followed(spark: SparkSession, tables: Path, checkpoint: Path) -> list[int]:
    """Return how many readings a stream that follows the table takes in: all files that it has not seen yet."""
    counts: list[int] = []
    schema = spark.read.parquet(f"{tables}/readings").schema
    stream = spark.readStream.schema(schema).parquet(f"{tables}/readings").writeStream.trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(checkpoint))
    stream.foreachBatch(lambda rows, _: counts.append(rows.count())).start().awaitTermination()
    return counts


def test_small_files_are_merged_where_asked_and_what_is_known_can_still_be_made_anew(
    spark: SparkSession, collector: Collector, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "FOLDERS_PER_MERGE", 4)
    device, readings_landed = Author(collector, 1), 0

    def take_in(batches: int, *, merge_files: bool = False) -> None:
        nonlocal readings_landed
        for number in range(batches):
            late = device.measure(1)
            collector.land(device.measure(2), *([late] if number else [device.loss(7, 9)]))
            readings_landed += 3 if number else 2
        written = ingest(spark, collector.vault, tables, segments_per_trigger=1, merge_files=merge_files)
        assert len(written) == batches

    # A stream that follows the table meets each reading once: a file stays as it is, and where it is.
    take_in(3)
    assert sum(_followed(spark, tables, tmp_path / "follower")) == readings_landed
    before_more = readings_landed
    take_in(2)
    assert sum(_followed(spark, tables, tmp_path / "follower")) == readings_landed - before_more

    take_in(4, merge_files=True)
    assert len(list((tables / "readings").iterdir())) == len(list((tables / "losses").iterdir())) + 1 == 2
    (row,) = _device_rows(tables)
    assert len(_readings(tables)) == row["readings"]
    before = pq.read_table(gaps.path_in(tables)).to_pylist()
    assert [(gap["state"], gap["numbers"]) for gap in before] == [("open", 1)] * 3

    shutil.rmtree(tables / ".numbers")
    gaps.path_in(tables).unlink()
    collector.land(device.measure(1))
    (last,) = ingest(spark, collector.vault, tables)
    assert (last.readings, last.repeats) == (1, 0)
    recounted = pq.read_table(gaps.path_in(tables)).to_pylist()
    assert [gap["first"] for gap in recounted] == [gap["first"] for gap in before]
    assert spark.read.parquet(str(tables / "readings")).count() == len(_readings(tables)) == row["readings"] + 1
    assert make_report(str(tables), NOW_US, None).traffic["readings"] == row["readings"] + 1


def test_what_is_missing_stands_in_gaps_until_late_data_fills_it(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    device = Author(collector, 1)
    messages = [device.measure(1) for _ in range(5)]
    named = Loss(LossReason.EXPIRED, ((4, 4),), ((4, 4),))
    collector.land(messages[0], messages[4], device.sign(MessageType.LOSS, named.to_wire()))
    recorder = Recorder()
    ingest(spark, collector.vault, tables, recorder=recorder)
    assert [lag.segments for lag in recorder.lagging] == [0]

    def rows_now() -> list[tuple[Any, ...]]:
        rows = pq.read_table(gaps.path_in(tables)).to_pylist()
        return [(row["author"], row["first"], row["last"], row["state"], row["reason"]) for row in rows]

    assert rows_now() == [(device.author, 2, 3, "open", None), (device.author, 4, 4, "lost", "expired")]
    assert [row["open_gaps"] for row in _device_rows(tables)] == [2]
    collector.land(*messages[1:3])
    (progress,) = ingest(spark, collector.vault, tables)
    assert progress.bytes > 0
    assert rows_now() == [(device.author, 2, 3, "closed", None), (device.author, 4, 4, "lost", "expired")]
    assert [row["open_gaps"] for row in _device_rows(tables)] == [0]
    report = make_report(str(tables), NOW_US, None)
    assert report.traffic == {"readings": 4, "messages": 4, "devices": 1}
    assert [(row["state"], row["batches"]) for row in report.sections["gaps"]] == [("closed", 2), ("lost", 1)]


def test_a_vault_reads_as_a_batch_too_and_shows_no_key(spark: SparkSession, collector: Collector) -> None:
    collector.land(Author(collector, 1).measure(4))
    frame = spark.read.format(FORMAT).options(keyFile=str(collector.key_file)).load(str(collector.vault))
    assert readings(frame).where("value > 20.1").count() == 2
    plan = frame._jdf.queryExecution().toString()
    assert collector.key.key.hex() not in plan + json.dumps(spark.sparkContext.getConf().getAll())


def test_what_does_not_belong_together_is_refused_before_anything_starts(
    spark: SparkSession, collector: Collector, tables: Path, tmp_path: Path
) -> None:
    def refused(match: str, vault: Path = collector.vault, key_file: Path = collector.key_file) -> None:
        with pytest.raises(ConfigurationError, match=match):
            ingest(spark, vault, tables, tmp_path / "checkpoint", key_file)

    with pytest.raises(ConfigurationError, match="maxSegmentsPerTrigger"):
        ingest(spark, collector.vault, tables, segments_per_trigger=0)
    refused("no vault", vault=tmp_path / "nowhere")
    refused("cannot be read", key_file=tmp_path / "no.key")
    with Tables(tables) as held:
        refused("another ingest")
        held.belong_to(tmp_path / "its own checkpoint", [collector.key.vault_id])
    refused("another checkpoint")


def test_what_was_deleted_does_not_come_back_and_the_device_goes_on(
    spark: SparkSession, collector: Collector, tables: Path
) -> None:
    gone, stays = Author(collector, 1), Author(collector, 2)
    old, other = gone.measure(3), stays.measure(2)
    collector.land(old, other)
    collector.land(gone.loss(7, 9))
    ingest(spark, collector.vault, tables)
    assert main(["delete", str(tables), "--author", gone.author]) == 0
    assert {row["author"] for row in _readings(tables)} == {stays.author}
    deletions.write(tables, deletions.Deletions({gone.author: NOW_US}))  # as if it had been said then
    later = gone.telemetry([("t", "", BOOTED_US + 60_000_000, 1.0)], gone.clock(wall_us=NOW_US))
    year = 365 * 86_400_000_000
    collector.land(old, other, gone.loss(8, 9), received_at_us=NOW_US + year)  # another collector's copies
    collector.land(later, received_at_us=NOW_US + 60_000_000)
    ingest(spark, collector.vault, tables)
    rows = [(row["author"], row["name"], row["value"]) for row in _readings(tables) if row["author"] == gone.author]
    assert rows == [(gone.author, "t", 1.0)]
    assert len(_readings(tables)) == 2 + 1, "and of the other one each once"
    assert [row["first"] for row in _table(tables, "losses").to_pylist()] == [8]
    fresh = tables.parent / "fresh"
    fresh.mkdir()
    shutil.copy(deletions.path_in(tables), fresh)
    ingest(spark, collector.vault, fresh)
    assert [row["value"] for row in _readings(fresh) if row["author"] == gone.author] == [1.0]
