"""How a stream moves through a vault: what is planned, what is told, and what a hostile store cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.core.vault.reading import VaultReader
from covey.errors import StorageError
from covey_ingest.options import FolderMemory
from covey_ingest.vault.key_file import read_key_file
from covey_ingest.vault.offsets import Offset, latest_offset, ranges
from tests.spark.fleet import Author, Collector


def _reader(collector: Collector) -> VaultReader:
    return VaultReader(DirectoryStore(collector.vault), read_key_file(collector.key_file))


def _numbers(reader: VaultReader, start: Offset, end: Offset) -> list[int]:
    return [entry.number for work in ranges(reader, start, end) for entry in work.entries]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    collector = Collector(tmp_path / "vault")
    device = Author(collector, 1)
    for _ in range(5):
        collector.land(device.measure(1))
    return collector


def test_a_limit_bounds_each_step_and_an_idle_vault_does_not_move(collector: Collector) -> None:
    reader = _reader(collector)
    seen: list[int] = []
    offset: Offset = {}
    for _ in range(3):
        after = latest_offset(reader, offset, 2)
        seen += _numbers(reader, offset, after)
        offset = after
    assert seen == [1, 2, 3, 4, 5]
    assert latest_offset(reader, offset, 2) == offset


def test_a_limit_is_shared_between_nodes_until_it_is_used_up(collector: Collector) -> None:
    other = Collector(collector.vault, seed=7, key=collector.key)
    other.land(Author(other, 2).measure(1))
    offset = latest_offset(_reader(collector), {}, 4)
    assert {node: position[1] for node, position in offset.items()} == {collector.node.hex(): 3, other.node.hex(): 1}


def test_an_available_now_query_ends_at_what_was_there(collector: Collector) -> None:
    reader = _reader(collector)
    until = latest_offset(reader, {}, None)
    collector.land(Author(collector, 3).measure(1))
    assert latest_offset(reader, {}, None, until)[collector.node.hex()][1] == 5


def test_a_replay_names_the_same_segments_in_a_new_process(collector: Collector) -> None:
    end = latest_offset(_reader(collector), {}, 3)
    collector.land(Author(collector, 3).measure(1))
    assert _numbers(_reader(collector), {}, end) == [1, 2, 3]


def _truncate(collector: Collector) -> None:
    collector.put(collector.manifest_path, collector.manifest_path.read_bytes()[:-1])


def _flip(collector: Collector) -> None:
    content = bytearray(collector.manifest_path.read_bytes())
    content[100] ^= 1
    collector.put(collector.manifest_path, bytes(content))


def _remove(collector: Collector) -> None:
    collector.manifest_path.unlink()


def _roll_back(collector: Collector) -> None:
    manifest = collector.manifest
    assert manifest is not None
    collector.publish(replace(manifest, manifest_seq=manifest.manifest_seq - 1, segments=manifest.segments[:-1]))


def _fork(collector: Collector) -> None:
    manifest = collector.manifest
    assert manifest is not None
    collector.publish(replace(manifest, created_at_us=manifest.created_at_us + 1))


def _fork_next(collector: Collector) -> None:
    manifest = collector.manifest
    assert manifest is not None
    collector.publish(replace(manifest, manifest_seq=manifest.manifest_seq + 1, prev=bytes(32)))


def _shrink(collector: Collector) -> None:
    manifest = collector.manifest
    assert manifest is not None
    collector.publish(replace(manifest, manifest_seq=manifest.manifest_seq + 9, segments=manifest.segments[:-1]))


def _another_nodes(collector: Collector) -> None:
    other = Collector(collector.vault, seed=7, key=collector.key)
    other.land(Author(other, 2).measure(1))
    other.manifest_path.replace(collector.manifest_path)


# accepts: 004.15, 004.16, 004.20, 004.21, 004.23, 004.24
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (_truncate, "decryption"),
        (_flip, "decryption"),
        (_remove, "missing"),
        (_roll_back, "rollback"),
        (_fork, "rollback"),
        (_fork_next, "rollback"),
        (_shrink, "rollback"),
        (_another_nodes, "decryption"),
    ],
)
def test_a_bad_manifest_is_reported_once_and_moves_nothing(
    collector: Collector, harm: Callable[[Collector], None], code: str, restarted: bool
) -> None:
    reader = _reader(collector)
    before = latest_offset(reader, {}, None)
    good = collector.manifest_path.read_bytes()
    harm(collector)
    if restarted:
        reader = _reader(collector)
    troubled = latest_offset(reader, before, None)
    works = list(ranges(reader, before, troubled))
    assert [(work.trouble.partition(" ")[0], work.entries) for work in works] == [(code, ())]
    assert troubled[collector.node.hex()][:3] == before[collector.node.hex()][:3]
    assert latest_offset(reader, troubled, None) == troubled

    collector.put(collector.manifest_path, good)
    collector.land(Author(collector, 9).measure(1))
    healed = latest_offset(reader, troubled, None)
    assert _numbers(reader, troubled, healed) == [6]
    assert not [work for work in ranges(reader, troubled, healed) if work.trouble]


def test_a_range_that_shrank_is_an_error(collector: Collector) -> None:
    end = latest_offset(_reader(collector), {}, None)
    _roll_back(collector)
    with pytest.raises(StorageError):
        list(ranges(_reader(collector), {}, end))


# accepts: 004.11
def test_folding_older_segments_into_ranges_changes_nothing_for_a_stream(collector: Collector) -> None:
    reader = _reader(collector)
    after_two = latest_offset(reader, {}, 2)
    collector.fold(3)
    collector.fold(1)
    collector.land(Author(collector, 3).measure(1))
    end = latest_offset(reader, after_two, None)
    assert _numbers(reader, after_two, end) == [3, 4, 5, 6]
    assert _numbers(_reader(collector), {}, end) == [1, 2, 3, 4, 5, 6]
    assert not [position for position in end.values() if position[3]]


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"HXRNG\x01")])
def test_a_damaged_range_is_reported_and_read_after_its_repair(
    collector: Collector, harm: Callable[[Path], None]
) -> None:
    path = collector.fold(3)
    content = path.read_bytes()
    harm(path)
    reader = _reader(collector)
    troubled = latest_offset(reader, {}, None)
    assert [work.entries for work in ranges(reader, {}, troubled)] == [()]
    assert latest_offset(reader, troubled, None) == troubled
    collector.put(path, content)
    assert _numbers(reader, troubled, latest_offset(reader, troubled, None)) == [1, 2, 3, 4, 5]


# accepts: 004.16
def test_a_remembered_manifest_serves_a_replay_and_keeps_the_floor(collector: Collector, tmp_path: Path) -> None:
    def reader() -> VaultReader:
        keys = read_key_file(collector.key_file)
        return VaultReader(DirectoryStore(collector.vault), keys, FolderMemory(tmp_path / "memory"))

    end = latest_offset(reader(), {}, None)
    _roll_back(collector)
    assert _numbers(reader(), {}, end) == [1, 2, 3, 4, 5]
    assert latest_offset(reader(), {}, None)[collector.node.hex()][3] != "", "the floor outlives a lost offset"
    (tmp_path / "memory" / collector.node.hex()).write_bytes(b"damaged")
    with pytest.raises(StorageError):
        _numbers(reader(), {}, end)


class _CountingStore(DirectoryStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lists: list[str] = []

    def keys(self, prefix: str):  # type: ignore[no-untyped-def]
        self.lists.append(prefix)
        return super().keys(prefix)


# accepts: 004.01, 004.17, 004.18
def test_segments_are_never_listed(collector: Collector) -> None:
    store = _CountingStore(collector.vault)
    reader = VaultReader(store, read_key_file(collector.key_file))
    end = latest_offset(reader, {}, None)
    for work in ranges(reader, {}, end):
        for entry in work.entries:
            assert reader.segment(work.node, entry) is not None
    assert [prefix.rpartition("objects/")[2] for prefix in store.lists] == ["manifests/"]


def test_bytes_bound_a_step_and_a_segment_beyond_the_bound_goes_alone(collector: Collector) -> None:
    other = Collector(collector.vault, seed=7, key=collector.key)
    for _ in range(3):
        other.land(*(Author(other, seed).measure(9) for seed in range(8)))
    reader = _reader(collector)
    offset: dict[str, Any] = {}
    large = max(entry.size for entry in other.manifest.segments) if other.manifest else 0
    small = max(entry.size for entry in collector.manifest.segments) if collector.manifest else 0
    assert 4 * small < large
    steps: list[int] = []
    while (after := latest_offset(reader, offset, None, None, 4 * small)) != offset:
        entries = [entry for work in ranges(reader, offset, after) for entry in work.entries]
        assert len(entries) == 1 or sum(entry.size for entry in entries) <= 4 * small
        steps.append(len(entries))
        offset = after
    assert sum(steps) == 8
    assert max(steps) >= 2
