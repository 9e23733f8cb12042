"""The whole way from a vault to tables, read back as any reader of Delta would."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from covey.core.telemetry.batch import ClockKind
from covey.core.wire.message import Loss, LossReason, MessageType
from covey.errors import ConfigurationError
from covey_ingest.__main__ import main
from covey_ingest.committer import deletions
from covey_ingest.committer.tables import opened_tables
from covey_ingest.queries.report import make_report
from tests.outside.holdings import Kind
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector, Given
from tests.tables.ingesting import Recorder, audited, ingest, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.processes]

KEY = ["author", "incarnation", "seq", "index"]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _readings(tables: Path) -> list[dict[str, Any]]:
    return rows_of(tables, "readings", *KEY)


def _device_rows(tables: Path) -> list[dict[str, Any]]:
    return rows_of(tables, "devices")


def test_every_kind_of_reading_arrives_with_honest_time(collector: Collector, tables: Path) -> None:
    device, lost = Author(collector, 1), Author(collector, 2)
    values: list[Given] = [("door", "", BOOTED_US, True), ("t", "Cel", BOOTED_US, 21.5), ("s", "", BOOTED_US, "on")]
    values += [("count", "", BOOTED_US, 2**53 + 1), ("count", "", BOOTED_US, 3)]
    collector.land(device.telemetry(values), device.telemetry([("raw", "", BOOTED_US, b"\x00")]), device.loss(7, 9))
    collector.land(lost.telemetry([("t", "Cel", 0, -1.0)], lost.clock(ClockKind.UNSYNCHRONISED, wall_us=0)))
    (progress,) = ingest(collector.vault, tables)
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
    (loss,) = rows_of(tables, "losses")
    assert (loss["author"], loss["first"], loss["last"], loss["reason"]) == (device.author, 7, 9, "outbox_full")


def test_a_message_that_landed_twice_is_in_the_table_once(collector: Collector, tables: Path) -> None:
    """Through two collectors in one micro-batch, imported again in a later one, and replayed after a kill."""
    other = Collector(collector.vault, seed=5, key=collector.key)
    device = Author(collector, 1)
    messages = [device.measure(20) for _ in range(4)]
    collector.land(*messages[:2])
    other.land(*messages[1:3], received_at_us=NOW_US + 1_000_000)
    (first,) = ingest(collector.vault, tables)
    assert (first.messages, first.readings, first.repeats) == (3, 60, 1)
    came_first = {row["collector"] for row in _readings(tables) if row["seq"] == 2}
    assert came_first == {collector.identity.signing_public.hex()}

    other.land(*messages)
    (second,) = ingest(collector.vault, tables)
    assert (second.messages, second.readings, second.repeats) == (1, 20, 3)
    expected = _readings(tables)
    assert [(row["seq"], row["index"]) for row in expected] == [
        (seq, index) for seq in (1, 2, 3, 4) for index in range(20)
    ]


# accepts: 004.15, 004.19, 004.24
def test_damage_lands_in_the_quarantine_and_the_job_goes_on(collector: Collector, tables: Path) -> None:
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

    (progress,) = ingest(collector.vault, tables)
    assert (progress.readings, progress.quarantined) == (3, 5)
    found = [
        (row["node"] == collector.node.hex(), row["segment"], row["record"], row["reason"])
        for row in rows_of(tables, "quarantine")
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
    (lost,) = ingest(collector.vault, tables)
    assert (lost.readings, lost.quarantined) == (0, 1)
    collector.put(collector.manifest_path, hidden)
    assert [(each.readings, each.quarantined) for each in ingest(collector.vault, tables)] == [(0, 0)]
    other.put(other.manifest_path, good)
    (healed,) = ingest(collector.vault, tables)
    assert (healed.readings, healed.quarantined) == (1, 0)
    assert sum(audited(tables, collector, Kind.UNREADABLE, Kind.FORGED, Kind.GAP).values()) == 4


def test_boots_and_latest_state_of_a_device_survive_late_data(collector: Collector, tables: Path) -> None:
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
    assert len(ingest(collector.vault, tables, segments_per_trigger=1)) == 4
    (row,) = [row for row in _device_rows(tables) if row["author"] == device.author]
    (other,) = [row for row in _device_rows(tables) if row["author"] == gateway.author]
    assert (row["firmware"], row["gateway"]) == ("board 7", gateway.author)
    assert (other["firmware"], other["gateway"]) == ("covey 1", None)
    assert (row["boots"], row["boot_ids"]) == (2, [first_boot.hex(), bytes(8).hex()])
    assert (row["messages"], row["readings"], row["last_seq"]) == (3, 6, 3)
    assert round(row["last_seen"].timestamp() * 1e6) == NOW_US + 2_000_000


def test_two_messages_with_one_number_both_reach_the_table(collector: Collector, tables: Path) -> None:
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
    (first,) = ingest(collector.vault, tables)
    assert (first.messages, first.repeats) == (3, 0)
    other.land(*new, lost[1])
    (second,) = ingest(collector.vault, tables)
    assert (second.messages, second.readings, second.repeats) == (3, 3, 1)
    collector.land(*new)
    (third,) = ingest(collector.vault, tables)
    assert (third.messages, third.readings, third.repeats) == (0, 0, 3)
    assert sorted(row["value"] for row in _readings(tables) if row["name"] == "late") == [20, 21, 22]
    assert len(_readings(tables)) == 12


def test_gaps_list_missing_batches_until_late_data_fills_them(collector: Collector, tables: Path) -> None:
    device = Author(collector, 1)
    messages = [device.measure(1) for _ in range(5)]
    named = Loss(LossReason.EXPIRED, ((4, 4),), ((4, 4),))
    collector.land(messages[0], messages[4], device.sign(MessageType.LOSS, named.to_wire()))
    recorder = Recorder()
    ingest(collector.vault, tables, recorder=recorder)
    assert [lag.segments for lag in recorder.lagging] == [0]

    def rows_now() -> list[tuple[Any, ...]]:
        rows = rows_of(tables, "gaps")
        return [(row["author"], row["first"], row["last"], row["state"], row["reason"]) for row in rows]

    assert rows_now() == [(device.author, 2, 3, "open", None), (device.author, 4, 4, "lost", "expired")]
    assert [row["open_gaps"] for row in _device_rows(tables)] == [2]
    collector.land(*messages[1:3])
    (progress,) = ingest(collector.vault, tables)
    assert progress.bytes > 0
    assert rows_now() == [(device.author, 2, 3, "closed", None), (device.author, 4, 4, "lost", "expired")]
    assert [row["open_gaps"] for row in _device_rows(tables)] == [0]
    report = make_report(str(tables), NOW_US, None)
    assert report.traffic == {"readings": 4, "messages": 4, "devices": 1}
    assert [(row["state"], row["batches"]) for row in report.sections["gaps"]] == [("closed", 2), ("lost", 1)]


def test_mismatched_vault_and_tables_are_refused(collector: Collector, tables: Path, tmp_path: Path) -> None:
    def refused(match: str, vault: Path = collector.vault, key_file: Path = collector.key_file, **options: Any) -> None:
        with pytest.raises(ConfigurationError, match=match):
            ingest(vault, tables, key_file, **options)

    refused("no vault", vault=tmp_path / "nowhere")
    refused("cannot be read", key_file=tmp_path / "no.key")
    tables.mkdir()
    (tables / "somebody's file").touch()
    refused("is not empty")
    (tables / "somebody's file").unlink()
    with opened_tables(str(tables), [collector.key.vault_id]):
        refused("another engine is writing the tables")
    other = Collector(tmp_path / "other", 3)
    refused("filled from another vault", vault=other.vault, key_file=other.key_file)
    mark, copies = tables / "covey.json", tables / "copies" / "tables"
    mark.write_text(mark.read_text().replace('"layout": 1', '"layout": 2'))
    shutil.rmtree(copies)
    refused("a newer Covey wrote the tables")
    mark.write_text("{")
    shutil.rmtree(copies)
    refused("is damaged")


def test_deleted_readings_stay_deleted_and_new_ones_arrive(collector: Collector, tables: Path) -> None:
    gone, stays = Author(collector, 1), Author(collector, 2)
    old, other = gone.measure(3), stays.measure(2)
    collector.land(old, other)
    collector.land(gone.loss(7, 9))
    ingest(collector.vault, tables)
    assert main(["delete", str(tables), "--author", gone.author]) == 0
    assert {row["author"] for row in _readings(tables)} == {stays.author}
    deletions.write(tables, deletions.Deletions({gone.author: NOW_US}))  # as if it had been said then
    shutil.rmtree(tables / "copies" / "tables")
    later = gone.telemetry([("t", "", BOOTED_US + 60_000_000, 1.0)], gone.clock(wall_us=NOW_US))
    year = 365 * 86_400_000_000
    collector.land(old, other, gone.loss(8, 9), received_at_us=NOW_US + year)  # another collector's copies
    collector.land(later, received_at_us=NOW_US + 60_000_000)
    ingest(collector.vault, tables)
    rows = [(row["author"], row["name"], row["value"]) for row in _readings(tables) if row["author"] == gone.author]
    assert rows == [(gone.author, "t", 1.0)]
    assert len(_readings(tables)) == 2 + 1, "and of the other one each once"
    assert [row["first"] for row in rows_of(tables, "losses")] == [8]
    fresh = tables.parent / "fresh"
    fresh.mkdir()
    shutil.copy(deletions.path_in(tables), fresh)
    ingest(collector.vault, fresh)
    assert [row["value"] for row in _readings(fresh) if row["author"] == gone.author] == [1.0]
