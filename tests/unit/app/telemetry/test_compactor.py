"""`covey.app.telemetry.compactor`: merged segments and tombstones, and the crash after each step."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from covey.app.telemetry.compactor import Compaction, Compactor
from covey.app.telemetry.node_vault import NodeVault
from covey.core.ids import Incarnation, node_id
from covey.core.now import Now
from covey.core.vault import merging
from covey.core.vault.documents import SegmentEntry, SegmentRange, VaultManifest
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.reading import Floor, VaultReader
from covey.errors import LocalError, StorageError
from tests.fleet import carry
from tests.vault_site import KEY, Site, crashes_at

DAY_US = 86_400_000_000
TARGET = 1_000_000


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _land(site: Site, *bodies: bytes) -> None:
    for body in bodies:
        site.send(body)
        site.land()


def _compactor(site: Site, *keys: VaultKey) -> Compactor:
    if keys:
        site.key_file.write(KeyFile(keys))
    node = NodeVault(site.gate.identity, site.keys(), site.gate.store, site.objects, site.gate.rng)
    return Compactor(node, site.gate.store, site.gate.rng)


def _compact(site: Site, after_us: int = 0, target: int = TARGET) -> Compaction:
    now_us = site.gate.now.wall_us + after_us
    return _compactor(site).compact(target, now_us, 7 * DAY_US, now_us, lambda *_: None)


def _manifest(site: Site) -> VaultManifest:
    manifest = site.manifest()
    assert manifest is not None
    return manifest


def _numbers(site: Site) -> list[tuple[int, int]]:
    return [(entry.first, entry.number) for entry in _manifest(site).segments]


BODIES = [f"batch {number}".encode() for number in range(1, 9)]


def test_small_segments_become_one_and_are_deleted_a_week_later(site: Site) -> None:  # accepts: 004.09
    _land(site, *BODIES)
    small = sorted(key for key in site.objects.content if key.endswith(".hxseg"))
    outcome = _compact(site)
    assert (outcome.segments, outcome.merged, outcome.deleted, outcome.waiting) == (7, 1, 0, 7)
    assert _numbers(site) == [(1, 7), (8, 8)], "the newest segment is the collector's"
    assert len(_manifest(site).tombstones) == 1
    assert site.landed() == BODIES
    assert set(small) < set(site.objects.content), "who planned with the manifest before finds all of it"

    assert _compact(site, after_us=6 * DAY_US).waiting == 7
    assert set(small) < set(site.objects.content)
    outcome = _compact(site, after_us=8 * DAY_US)
    assert (outcome.deleted, outcome.waiting) == (7, 0)
    assert _manifest(site).tombstones == ()
    assert site.landed() == BODIES
    left = sorted(key.rpartition(".")[2] for key in site.objects.content)
    assert left == ["hxkey", "hxman", "hxseg", "hxseg"]


def test_a_merged_segment_is_left_until_there_is_more(site: Site) -> None:
    _land(site, *BODIES[:4])
    assert _compact(site).merged == 1
    before = _manifest(site)
    assert _compact(site).merged == 0
    assert _manifest(site) == before, "nothing to do is nothing written"
    _land(site, *BODIES[4:])
    assert _compact(site).merged == 1
    assert _numbers(site) == [(1, 7), (8, 8)]
    assert site.landed() == BODIES


@pytest.mark.slow
def test_a_merged_segment_is_as_young_as_its_youngest_part(site: Site) -> None:
    _land(site, *BODIES[:2])
    site.gate.now = Now(site.gate.now.monotonic_us, site.gate.now.wall_us - DAY_US)  # somebody sets the clock back
    _land(site, *BODIES[2:4])
    parts = [entry.created_at_us for entry in _manifest(site).segments[:-1]]
    assert _compact(site, after_us=2 * DAY_US).merged == 1
    assert _manifest(site).segments[0].created_at_us == parts[1] > parts[2]


def test_a_dry_run_says_the_same_and_writes_nothing(site: Site) -> None:
    _land(site, *BODIES)
    before = dict(site.objects.content)
    now_us = site.gate.now.wall_us
    planned = _compactor(site).plan(TARGET, now_us, 0, now_us)
    assert site.objects.content == before
    done = _compact(site)
    assert (planned.segments, planned.merged, planned.bytes_before) == (7, 1, done.bytes_before)
    planned = _compactor(site).plan(TARGET, now_us, 0, now_us)
    assert (planned.merged, planned.deleted) == (0, 7)


def test_young_and_large_segments_are_not_merged(site: Site) -> None:
    _land(site, *BODIES)
    assert _compact(site, after_us=-DAY_US).merged == 0
    smallest = min(entry.size for entry in _manifest(site).segments)
    assert _compact(site, target=2 * smallest).merged == 0, "each has half of it already"


@pytest.mark.slow
def test_a_crash_before_any_write_loses_and_doubles_nothing(site: Site) -> None:
    reader = VaultReader(site.objects, KeyRing((KEY,)))
    node = node_id(site.gate.key).hex()
    bodies: list[bytes] = []
    crashed = []
    for step in range(12):
        more = [f"batch {step} {number}".encode() for number in range(3)]
        bodies += more
        _land(site, *more)
        for _ in range(2):  # each also deletes what the one before has replaced
            site.gate.wait(8 * 86_400)
            crashed.append(crashes_at(site, step, lambda: _compact(site)))
            assert site.landed() == bodies, step
            assert isinstance(reader.manifest(node, Floor()), VaultManifest), "a follower sees no rollback"
        site.start()
        site.gate.wait(8 * 86_400)
        _compact(site)
        assert site.landed() == bodies, step
    assert crashed[0]
    assert not crashed[-1]
    site.gate.wait(8 * 86_400)
    _compact(site)
    listed = {key for key in site.objects.content if key.endswith(".hxseg")}
    assert len(listed) == len(_manifest(site).segments), "nothing is left lying"


def test_a_running_collector_goes_on_from_what_a_compaction_published(site: Site) -> None:
    _land(site, *BODIES)
    _compact(site)
    _land(site, b"after", b"and after")
    assert site.landed() == [*BODIES, b"after", b"and after"]
    assert site.said == [], "nobody is told of an error"
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def test_a_collector_that_is_quicker_is_not_written_over(site: Site) -> None:
    _land(site, *BODIES)
    site.send(b"meanwhile")
    put = site.objects.put

    def put_after_a_landing(key: str, content: bytes) -> None:
        site.objects.put = put  # type: ignore[method-assign]
        site.land()
        put(key, content)

    site.objects.put = put_after_a_landing  # type: ignore[method-assign]
    assert _compact(site).merged == 1
    assert site.landed() == [*BODIES, b"meanwhile"]
    assert _numbers(site) == [(1, 7), (8, 8), (9, 9)]


def test_a_collector_with_a_pending_landing_finds_it_after_a_compaction(site: Site) -> None:
    _land(site, *BODIES)
    site.send(b"pending")
    site.objects.refuses, site.objects.lies = (".hxman",), True  # the store says no, and has it none the less
    site.land()
    site.objects.refuses = ()
    _compact(site)
    site.turn(10)
    assert site.landed() == [*BODIES, b"pending"]
    carry(site.ann, site.gate)
    assert site.ann.store.outbox.totals()[0] == 0


def test_two_compactions_do_not_write_over_each_other(site: Site) -> None:
    _land(site, *BODIES)
    replace = site.objects.replace

    def after_another(key: str, content: bytes, before: bytes | None) -> None:
        site.objects.replace = replace  # type: ignore[method-assign]
        _compact(site)
        replace(key, content, before)

    site.objects.replace = after_another  # type: ignore[method-assign]
    with pytest.raises(LocalError, match="another compaction"):
        _compact(site)
    assert site.landed() == BODIES


def test_a_damaged_segment_is_reported_and_not_merged(site: Site) -> None:
    _land(site, *BODIES)
    second = sorted(key for key in site.objects.content if key.endswith(".hxseg"))[1]
    site.objects.content[second] = site.objects.content[second][:-1]
    outcome = _compact(site)
    assert (outcome.unreadable, outcome.merged) == ([2], 0)
    assert len(_manifest(site).segments) == 8


def test_a_store_that_refuses_leaves_what_was(site: Site) -> None:
    _land(site, *BODIES)
    site.objects.refuses = (".hxtomb",)
    with pytest.raises(StorageError):
        _compact(site)
    assert site.landed() == BODIES
    site.objects.refuses = ()
    assert _compact(site).merged == 1


def test_merging_seals_with_the_newest_key(site: Site) -> None:
    newer = VaultKey(KEY.vault_id, bytes(range(1, 33)))
    _land(site, *BODIES[:3])
    now_us = site.gate.now.wall_us
    _compactor(site, newer, KEY).compact(TARGET, now_us, 0, now_us, lambda *_: None)
    merged = next(key for key in site.objects.content if key.count("-") == 2 and key.endswith(".hxseg"))
    assert site.objects.content[merged][6:14] == newer.key_id


def _entry(first: int, last: int) -> SegmentEntry:
    return SegmentEntry(last, Incarnation(bytes(8)), bytes([first % 256] * 32), 100, 1, 1, last - first + 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_layout_names_each_position_once_in_ranges_of_a_bounded_size(  # accepts: 004.11
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.core.vault.merging.VAULT_RANGE_SEGMENTS", 10)
    chance = random.Random(seed)
    listed: list[SegmentEntry] = [_entry(number, number) for number in range(1, chance.randint(12, 120))]
    ranges: list[tuple[SegmentRange, tuple[SegmentEntry, ...]]] = []
    for _ in range(30):
        while len(listed) >= 20:
            entries, listed = tuple(listed[:10]), listed[10:]
            ranges.append((SegmentRange(entries[0].first, entries[-1].number, chance.randbytes(32), 1), entries))
        everything = [entry for _, entries in ranges for entry in entries] + listed
        if len(everything) > 2:
            first = chance.randrange(len(everything) - 2)
            group = everything[first : first + chance.randint(2, 8)][: len(everything) - 1 - first]
            merged = [_entry(group[0].first, group[-1].number)] if len(group) > 1 else []
            layout = merging.layout(ranges, tuple(listed), merged)
            known = dict(ranges)
            before = len(ranges)
            ranges = [
                (each, known[each])
                if isinstance(each, SegmentRange)
                else (SegmentRange(each[0].first, each[-1].number, chance.randbytes(32), 1), each)
                for each in layout.ranges
            ]
            listed = list(layout.listed)
            assert len(ranges) <= before + 1
            after = [entry for _, entries in ranges for entry in entries] + listed
            assert after == list(merging.substituted(everything, merged))
            assert all(1 <= len(entries) <= 10 for _, entries in ranges)
            assert 1 <= len(listed) < 20
            assert set(layout.dropped) == known.keys() - {named for named, _ in ranges}
        following = everything[-1].number + 1
        listed += [_entry(number, number) for number in range(following, following + chance.randint(0, 5))]
    small = [len(entries) < 5 for _, entries in ranges]
    assert not any(one and other for one, other in itertools.pairwise(small)), "small ranges melt"


@pytest.mark.slow
def test_a_merge_over_the_edge_of_a_range_is_no_rollback(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.app.telemetry.collector.VAULT_RANGE_SEGMENTS", 3)
    _land(site, *BODIES)
    assert _manifest(site).last_in_ranges == 3
    reader, node = VaultReader(site.objects, KeyRing((KEY,))), node_id(site.gate.key).hex()
    assert isinstance(reader.manifest(node, Floor()), VaultManifest)
    _compact(site)
    assert _numbers(site) == [(1, 7), (8, 8)]
    assert isinstance(reader.manifest(node, Floor()), VaultManifest), "what both list stands in the merged one"
