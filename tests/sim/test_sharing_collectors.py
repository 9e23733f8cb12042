"""Groups divide their devices between collectors: two that share nothing take twice, and each reading lands once.

What a collector takes is bounded here by its relay, which hands over so many envelopes in a second of the simulated
world; so a second counts alike for one collector and for two, whatever machine this runs on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path

import pytest

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core.ids import GroupId, inbox_name, node_id
from covey.core.link.sealer import Outgoing
from covey.core.telemetry.batch import split_number
from covey.core.vault.documents import VaultManifest, entry_key, open_segment
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, VaultReader
from covey.core.wire.message import MessageType, read_message
from covey.limits.vault import SEGMENT_US
from tests.fleet import Device, found
from tests.vault_keys import MemoryKeyFile
from tests.vault_site import KEY, Objects

SENDERS, BATCHES = 4, 60
TAKES_A_SECOND = 10
MOST_SECONDS = 400


class Shard:
    """A relay, a collector behind it with a vault of its own, and the groups that it collects for."""

    def __init__(self, name: str, folder: Path, groups: Iterable[str]) -> None:
        self.collector = Device(name, folder, collects=True)
        self.objects, self._keys = Objects(), MemoryKeyFile(KEY)
        self.senders: list[tuple[Device, GroupId]] = []
        for group in groups:
            members = [Device(f"{group} {number}", folder) for number in range(SENDERS)]
            group_id = found(members[0], self.collector, *members[1:])
            self.senders += [(member, group_id) for member in members]
        hub = self.collector
        keys = NodeKeys(hub.identity, self._keys, hub.store, self.objects, hub.rng)
        self._role = Collector(hub.identity, keys, hub.store, self.objects, hub.rng, SEGMENT_US, lambda *_: None)
        self._waiting: deque[bytes] = deque()
        self.strangers = 0

    @property
    def is_idle(self) -> bool:
        """Say whether each sender knows that all that it said has landed."""
        return all(device.store.outbox.totals()[0] == 0 for device, _ in self.senders)

    def publish(self) -> None:
        """Queue each sender's batches."""
        for device, group_id in self.senders:
            for number in range(BATCHES):
                device.batch(group_id, f"{device.name} {number}".encode())

    def second(self) -> None:
        """Let a second pass."""
        devices = [device for device, _ in self.senders]
        for device in devices:
            device.wait(1)
            device.maintain()
            self._carry(device.sends())
        for _ in range(min(TAKES_A_SECOND, len(self._waiting))):
            self.collector.receive(self._waiting.popleft())
        self.collector.wait(1)
        self.collector.maintain()
        self._role.turn(self.collector.node, self.collector.now)
        self.collector.node.make_acknowledgements_due(self.collector.now)
        self._carry(self.collector.sends())

    def _carry(self, moving: list[Outgoing]) -> None:
        by_address = {inbox_name(device.key): device for device, _ in self.senders}
        for outgoing in moving:
            address = outgoing.topic.rpartition("/")[2]
            if address == inbox_name(self.collector.key):
                self._waiting.append(outgoing.envelope)
            elif address in by_address:
                by_address[address].receive(outgoing.envelope)
            else:
                self.strangers += 1

    def landed(self) -> Counter[bytes]:
        """Return how often each batch is in the vault."""
        ring, node = self._keys.content.ring(), node_id(self.collector.key)
        manifest = VaultReader(self.objects, ring).manifest(node.hex(), Floor())
        assert isinstance(manifest, VaultManifest)
        bodies: Counter[bytes] = Counter()
        for entry in manifest.segments:
            content = self.objects.content[entry_key(KEY.vault_id, node, entry)]
            for record in open_segment(ring.for_object(content), node, entry, content):
                if record_kind(record.message) is RecordKind.MESSAGE:
                    message = read_message(record.message)
                    bodies[split_number(message.body)[1]] += message.type is MessageType.TELEMETRY
        return bodies


def _seconds(shards: list[Shard]) -> int:
    for shard in shards:
        shard.publish()
    for seconds in range(1, MOST_SECONDS):
        for shard in shards:
            shard.second()
        if all(shard.is_idle for shard in shards):
            return seconds
    raise AssertionError("they never ended")


@pytest.mark.slow
def test_two_collectors_on_two_relays_take_twice(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = [Shard("hub", tmp_path / "one", ("orchard", "meadow"))]
    two = [Shard(f"hub of {group}", tmp_path / "two", (group,)) for group in ("orchard", "meadow")]
    alone, divided = _seconds(one), _seconds(two)
    messages = 2 * SENDERS * BATCHES
    assert alone >= messages / TAKES_A_SECOND, "the relay is what bounds it"
    assert divided <= 0.55 * alone
    assert all(shard.strangers == 0 for shard in (*one, *two)), "nothing goes to who collects for others"
    said = [f"{device.name} {number}".encode() for device, _ in one[0].senders for number in range(BATCHES)]
    assert one[0].landed() == two[0].landed() + two[1].landed() == Counter(said)
