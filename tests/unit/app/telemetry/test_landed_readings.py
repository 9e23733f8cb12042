"""What has landed comes once: whoever landed it, how often, and whatever beside it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.app.telemetry.landed_readings import Unread, each_message
from covey.core.telemetry.doors import DoorMessage
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from tests.spark.fleet import Author, Collector


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _read(*collectors: Collector) -> tuple[list[tuple[str, int]], list[Unread]]:
    """Return each message's id with how many readings it has, and what could not be read."""
    reader = VaultReader(DirectoryStore(collectors[0].vault), KeyRing((collectors[0].key,)))
    found = list(each_message(reader, [each.node.hex() for each in collectors]))
    messages = [(each.id, len(each.readings)) for each in found if isinstance(each, DoorMessage)]
    return messages, [each for each in found if isinstance(each, Unread)]


def _id(author: Author, seq: int) -> str:
    return f"{author.author}-{author.incarnation.hex()}-{seq}"


@pytest.mark.slow
def test_messages_landed_twice_come_once(collector: Collector) -> None:
    other = Collector(collector.vault, seed=1, key=collector.key)
    pump, gate = Author(collector, 1), Author(collector, 2)
    messages = [pump.measure(3) for _ in range(1100)]  # more than a page of bits
    collector.land(*messages[:700], gate.measure(2))
    collector.land(*messages[600:700])
    other.land(*messages[500:])
    found, unread = _read(collector, other)
    assert unread == []
    assert sorted(found) == sorted([*((_id(pump, seq), 3) for seq in range(1, 1101)), (_id(gate, 1), 2)])


def test_a_damaged_segment_is_reported_and_the_rest_is_read(collector: Collector) -> None:
    pump = Author(collector, 1)
    entries = [collector.land(pump.measure(1)) for _ in range(3)]
    damaged = collector.segment_path(entries[1])
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found, unread = _read(collector)
    assert found == [(_id(pump, 1), 1), (_id(pump, 3), 1)]
    assert [each.what for each in unread] == [f"segment 2 of node {collector.node.hex()}"]


def test_consecutive_lost_segments_are_reported_together(collector: Collector) -> None:
    pump = Author(collector, 1)
    entries = [collector.land(pump.measure(1)) for _ in range(6)]
    for entry in (*entries[:3], entries[4]):
        collector.segment_path(entry).unlink()
    entry = entries[5]
    collector.segment_path(entry).write_bytes(b"nothing")
    found, unread = _read(collector)
    assert found == [(_id(pump, 4), 1)]
    node = collector.node.hex()
    assert [each.what for each in unread] == [f"segment {which} of node {node}" for which in ("1 to 3", "5", "6")]


def test_a_damaged_manifest_is_reported_but_not_an_empty_node(collector: Collector) -> None:
    other = Collector(collector.vault, seed=1, key=collector.key)
    assert _read(collector, other) == ([], [])
    collector.land(Author(collector, 1).measure(1))
    collector.manifest_path.write_bytes(b"nothing")
    found, unread = _read(collector, other)
    assert found == []
    assert [each.what for each in unread] == [f"the manifest of node {collector.node.hex()}"]
