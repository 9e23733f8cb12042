"""A stream over a vault whose segments are merged, and deleted, at any moment: each message once, always."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxFiles

from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import VaultBatchReader, VaultStreamReader
from tests.spark.fleet import Author, Collector

SEGMENTS = 12


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    collector = Collector(tmp_path / "vault")
    device = Author(collector, 1)
    for _ in range(SEGMENTS):
        collector.land(device.measure(1), device.measure(2))
    return collector


def _options(collector: Collector, memory: Path | None = None) -> SourceOptions:
    return replace(SourceOptions(str(collector.vault), collector.key_file), memory=memory)


def _stream(collector: Collector, memory: Path | None = None) -> VaultStreamReader:
    return VaultStreamReader(_options(collector, memory))


def _rows(reader: VaultStreamReader | VaultBatchReader, partitions: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for partition in partitions:
        for batch in reader.read(partition):
            yield from batch.to_pylist()


def _places(rows: Iterable[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(row["segment"], row["record"], row["seq"]) for row in rows]


EVERYTHING = [(number, place, 2 * number + place - 1) for number in range(1, SEGMENTS + 1) for place in range(2)]


@pytest.mark.parametrize("grace_us", [0, 10**12])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_stream_that_is_compacted_between_its_micro_batches(collector: Collector, step: int, grace_us: int) -> None:
    stream, rows = _stream(collector), []
    offset: dict[str, Any] = {}
    targets = iter((2_000, 4_000, 8_000, 1_000_000))
    for _ in range(3 * SEGMENTS):
        after = stream.latestOffset(offset, ReadMaxFiles(step))
        if after == offset:
            break
        rows += _places(_rows(stream, stream.partitions(offset, after)))
        offset = after
        collector.compact(target_bytes=next(targets, 1_000_000), grace_us=grace_us)
    assert rows == EVERYTHING


def test_a_micro_batch_that_was_planned_before_reads_what_is_there_now(collector: Collector) -> None:
    stream = _stream(collector)
    first = stream.latestOffset({}, ReadMaxFiles(5))
    end = stream.latestOffset(first, ReadMaxFiles(4))
    planned = stream.partitions(first, end)
    expected = _places(_rows(stream, planned))
    assert expected == EVERYTHING[10:18]
    collector.compact(grace_us=10**12)
    assert _places(_rows(stream, planned)) == expected, "within the grace time the old segments are there"
    collector.compact()
    assert not collector.segment_path(planned[0].work.entries[0]).exists()  # type: ignore[attr-defined]
    assert _places(_rows(stream, planned)) == expected, "after it, the merged one holds their positions"


def test_a_replay_after_a_restart_follows_the_newest_manifest(collector: Collector, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    stream = _stream(collector, memory)
    first = stream.latestOffset({}, ReadMaxFiles(5))
    end = stream.latestOffset(first, ReadMaxFiles(4))
    collector.compact()
    collector.compact()
    second = _stream(collector, memory)
    assert _places(_rows(second, second.partitions(first, end))) == EVERYTHING[10:18]
    collector.manifest_path.unlink()
    lost = _stream(collector, memory)
    rows = _places(_rows(lost, lost.partitions(first, end)))
    assert rows == EVERYTHING[10:18], "a store that loses the manifest later is made up for by what was remembered"


def test_a_micro_batch_ends_where_a_merged_segment_ends(collector: Collector) -> None:
    collector.compact(target_bytes=4_000)
    manifest = collector.manifest
    assert manifest is not None
    ends = [entry.number for entry in manifest.segments]
    stream, met = _stream(collector), []
    offset: dict[str, Any] = {}
    for _ in ends:
        offset = stream.latestOffset(offset, ReadMaxFiles(1))
        met.append(offset[collector.node.hex()][1])
    assert met == ends


def test_an_available_now_query_ends_inside_a_segment_that_was_merged_since(collector: Collector) -> None:
    stream = _stream(collector)
    stream.prepareForTriggerAvailableNow()
    for _ in range(3):
        collector.land(Author(collector, 3).measure(1))
    collector.compact()
    end = stream.latestOffset({}, ReadMaxFiles(100))
    assert end[collector.node.hex()][1] == SEGMENTS
    assert _places(_rows(stream, stream.partitions({}, end))) == EVERYTHING
    later = _stream(collector)
    beyond = later.latestOffset(end, ReadMaxFiles(100))
    assert [place[0] for place in _places(_rows(later, later.partitions(end, beyond)))] == [13, 14, 15]


def test_a_batch_query_reads_each_message_once(collector: Collector) -> None:
    batch = VaultBatchReader(_options(collector))
    planned = batch.partitions()
    collector.compact()
    assert sorted(_places(_rows(batch, batch.partitions()))) == EVERYTHING
    collector.compact()
    assert sorted(_places(_rows(batch, planned))) == EVERYTHING, "also one that was planned before"


def test_a_flipped_bit_of_a_merged_segment_is_one_row_of_quarantine(collector: Collector) -> None:
    collector.compact()
    assert collector.manifest is not None
    path = collector.segment_path(collector.manifest.segments[0])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    batch = VaultBatchReader(_options(collector))
    rows = list(_rows(batch, batch.partitions()))
    assert [(row["kind"], row["segment"]) for row in rows if row["kind"] == "quarantine"] == [("quarantine", 11)]
    assert [place[0] for place in _places(row for row in rows if row["kind"] != "quarantine")] == [12, 12]


def _position(offset: dict[str, Any], collector: Collector) -> list[Any]:
    return list(offset[collector.node.hex()])


# accepts: 004.15, 004.16, 004.24
def test_a_manifest_of_before_a_compaction_is_a_rollback_and_moves_nothing(collector: Collector) -> None:
    before = collector.manifest_path.read_bytes()
    collector.compact()
    stream = _stream(collector)
    offset = stream.latestOffset({}, ReadMaxFiles(100))
    merged = collector.manifest_path.read_bytes()
    for harmed, code in ((before, "rollback"), (merged[:-1], "decryption")):
        collector.put(collector.manifest_path, harmed)
        troubled = stream.latestOffset(offset, ReadMaxFiles(100))
        assert _position(troubled, collector)[:3] == _position(offset, collector)[:3]
        assert _position(troubled, collector)[3].startswith(code)
    collector.put(collector.manifest_path, merged)
    assert _position(stream.latestOffset(troubled, ReadMaxFiles(100)), collector)[3] == ""


@pytest.mark.parametrize("harm", ["merged further", "changed", "split"])
def test_a_manifest_that_takes_back_what_was_merged_is_not_followed(collector: Collector, harm: str) -> None:
    original = collector.manifest
    collector.compact(target_bytes=4_000)
    stream = _stream(collector)
    offset = stream.latestOffset({}, ReadMaxFiles(100))
    manifest = collector.manifest
    assert manifest is not None
    assert original is not None
    first, *others = manifest.segments
    segments = {
        "merged further": (replace(others[0], covers=others[0].number), *others[1:]),
        "changed": (replace(first, hash=bytes(32)), *others),
        "split": (*original.segments[: first.number], *others),
    }[harm]
    collector.publish(replace(manifest, manifest_seq=manifest.manifest_seq + 5, segments=segments))
    after = stream.latestOffset(offset, ReadMaxFiles(100))
    expected = "" if harm == "merged further" else "rollback"  # the first is a merge like any other
    assert _position(after, collector)[3].partition(" ")[0] == expected
