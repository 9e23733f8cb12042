"""Reading a vault a batch at a time: every message once, in order, whatever is merged, folded, damaged or gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.app.telemetry import landed_batches
from covey.app.telemetry.landed_batches import Batch, LandedBatches
from covey.core.telemetry.doors import DoorGap, DoorMessage, LandedPosition, Plan, batch_id
from covey.core.vault.keys import KeyRing
from covey.core.vault.landed_records import landed_manifest
from covey.core.vault.reading import VaultReader
from tests.group_manifests import first, profile
from tests.spark.fleet import Author, Collector


def _landed(collector: Collector) -> LandedBatches:
    return LandedBatches(VaultReader(DirectoryStore(collector.vault), KeyRing((collector.key,))))


def _all(landed: LandedBatches, node: str) -> tuple[list[str], list[DoorGap], list[Plan]]:
    """Read to the end; return the messages' ids, what was passed over, and the plans."""
    ids, gaps, plans = list[str](), list[DoorGap](), list[Plan]()
    place = LandedPosition(1)
    while (found := landed.next(node, place)) is not None:
        if isinstance(found, DoorGap):
            gaps.append(found)
            place = LandedPosition(found.last + 1)
            continue
        ids += [each.id for each in found.messages]
        gaps += found.passed
        plans.append(found.plan)
        assert found.plan.end > place
        place = found.plan.end
    return ids, gaps, plans


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _fill(collector: Collector, segments: int, messages: int = 2) -> list[str]:
    author, ids = Author(collector, 1), list[str]()
    for _ in range(segments):
        collector.land(*(author.measure(3) for _ in range(messages)))
    ids += [f"{author.author}-{author.incarnation.hex()}-{seq}" for seq in range(1, author.seq + 1)]
    return ids


def test_every_message_comes_once_and_in_order_in_batches_across_segments(collector: Collector) -> None:
    ids = _fill(collector, 5)
    found, gaps, plans = _all(_landed(collector), collector.node.hex())
    assert (found, gaps) == (ids, [])
    assert len(plans) == 1


def test_a_batch_is_bounded_and_a_plan_gives_the_same_messages(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = _fill(collector, 3, 5)
    monkeypatch.setattr(landed_batches, "DOOR_BATCH_MESSAGES", 4)
    landed, node = _landed(collector), collector.node.hex()
    found, _, plans = _all(landed, node)
    assert found == ids
    assert len(plans) == 4
    monkeypatch.setattr(landed_batches, "DOOR_BATCH_MESSAGES", 1)  # a plan stays what it is
    assert [each.id for plan in plans for each in _messages(landed.planned(plan))] == ids
    assert len({batch_id("door", _messages(landed.planned(plan))) for plan in plans}) == 4


def _messages(found: Batch | DoorGap | None) -> tuple[DoorMessage, ...]:
    assert isinstance(found, Batch)
    return found.messages


def test_a_message_with_more_readings_than_a_batch_goes_alone(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    author = Author(collector, 1)
    collector.land(author.measure(2), author.measure(9), author.measure(2), author.measure(2))
    monkeypatch.setattr(landed_batches, "DOOR_BATCH_READINGS", 4)
    found, _, plans = _all(_landed(collector), collector.node.hex())
    assert len(found) == 4
    assert len(plans) == 3


def test_merging_moves_no_place(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = _fill(collector, 6)
    monkeypatch.setattr(landed_batches, "DOOR_BATCH_MESSAGES", 3)
    node = collector.node.hex()
    _, _, plans = _all(_landed(collector), node)
    assert collector.compact().merged
    assert _all(_landed(collector), node)[:2] == (ids, [])
    assert [each.id for plan in plans for each in _messages(_landed(collector).planned(plan))] == ids


def test_a_reader_with_the_old_manifest_finds_merged_segments(collector: Collector) -> None:
    ids = _fill(collector, 6)
    landed, node = _landed(collector), collector.node.hex()
    assert landed.last(node) == 6
    collector.compact()
    assert _all(landed, node)[:2] == (ids, [])


def test_ranges_are_followed_and_one_that_is_gone_is_one_gap(collector: Collector) -> None:
    ids = _fill(collector, 8)
    path = collector.fold(5)
    node = collector.node.hex()
    assert _all(_landed(collector), node)[:2] == (ids, [])
    path.unlink()
    assert _all(_landed(collector), node)[:2] == (ids[10:], [DoorGap(node, 1, 5, "missing")])


def test_a_segment_that_is_gone_or_damaged_is_a_gap_and_the_others_come(collector: Collector) -> None:
    author = Author(collector, 1)
    entries = [collector.land(author.measure(1)) for _ in range(5)]
    collector.segment_path(entries[1]).unlink()
    path = collector.segment_path(entries[3])
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    node = collector.node.hex()
    found, gaps, _ = _all(_landed(collector), node)
    assert [each.rpartition("-")[2] for each in found] == ["1", "3", "5"]
    assert gaps == [DoorGap(node, 2, 2, "missing"), DoorGap(node, 4, 4, "decryption")]


def test_unreadable_messages_are_passed_over_with_a_record(collector: Collector) -> None:
    author = Author(collector, 1)
    collector.land(author.loss(1, 1))
    collector.land(b"no message at all", author.measure(1))
    node = collector.node.hex()
    found, gaps, _ = _all(_landed(collector), node)
    assert len(found) == 1
    assert gaps == [DoorGap(node, 2, 2, "a message: malformed")]
    assert _landed(collector).next(node, LandedPosition(3)) is None
    assert _landed(collector).next("00" * 16, LandedPosition(1)) is None


def test_manifests_and_operations_between_messages_are_nothing_that_is_missing(collector: Collector) -> None:
    author = Author(collector, 1)
    collector.land(author.measure(1), landed_manifest(first()), profile("Pumpen"), author.measure(1))
    found, gaps, _ = _all(_landed(collector), collector.node.hex())
    assert (len(found), gaps) == (2, [])
