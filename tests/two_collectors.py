"""A sender, somebody else, and two collectors with one vault in memory, on a perfect wire."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core import crypto
from covey.core.group.manifest import COLLECTOR
from covey.core.ids import node_id
from covey.core.telemetry.batch import split_number
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, VaultReader
from covey.core.wire.message import Message, MessageType, read_message
from covey.limits.relay import COLLECTOR_CHECK_US, COLLECTOR_SILENT_US
from covey.limits.vault import SEGMENT_US
from tests.fleet import Device, carry, found
from tests.vault_keys import MemoryKeyFile
from tests.vault_site import KEY, Objects

SILENT_S = COLLECTOR_SILENT_US / 1e6
CHECK_S = COLLECTOR_CHECK_US / 1e6


class World:
    """A sender, somebody else, and two collectors: `first` is the one that rendezvous hashing gives the sender."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.bob = Device("ann", folder), Device("bob", folder)
        collectors = [Device(f"collector {number}", folder, collects=True) for number in range(2)]
        self.group_id = found(self.ann, self.bob, *collectors)
        carry(self.ann, self.bob, *collectors)
        self.first, self.second = sorted(
            collectors, key=lambda each: crypto.digest(b"covey/1 rendez", self.ann.key + each.key), reverse=True
        )
        self.objects = Objects()
        self.key_files = {each.name: MemoryKeyFile(KEY) for each in (self.ann, self.bob, *collectors)}
        self._roles = {each.name: self.role(each) for each in collectors}

    def role(self, device: Device) -> Collector:
        """Return what lands in the vault as a device's node."""
        keys = NodeKeys(device.identity, self.key_files[device.name], device.store, self.objects, device.rng)
        return Collector(device.identity, keys, device.store, self.objects, device.rng, SEGMENT_US, lambda *_: None)

    def push(self, device: Device) -> int:
        """Let a device land its own telemetry."""
        return self.role(device).push(device.node, device.now, lambda _: None)

    def publish(self, *bodies: bytes) -> None:
        """Queue batches at the sender."""
        for body in bodies:
            self.ann.batch(self.group_id, body)

    def pass_time(self, seconds: float, *up: Device) -> None:
        """Let time pass, with some devices reachable."""
        end_us = self.ann.now.monotonic_us + int(seconds * 1e6)
        while self.ann.now.monotonic_us < end_us:
            for device in (self.ann, self.bob, self.first, self.second):
                device.wait(CHECK_S / 2)
            for _ in range(3):
                for device in (self.ann, *up):
                    self.turn(device)
                carry(self.ann, *up)

    def turn(self, device: Device) -> None:
        device.maintain()
        if device.name in self._roles:
            self._roles[device.name].turn(device.node, device.now)
            device.wait(SEGMENT_US / 1e6)
            self._roles[device.name].turn(device.node, device.now)

    def remove(self, device: Device, by: Device) -> None:
        """Take a device out of the group."""
        with by.store.transaction():
            by.node.actions.change(self.group_id, lambda draft, epoch: draft.removing(device.key, epoch), by.now)

    def appoint(self, device: Device) -> None:
        """Make a member a collector."""
        with self.ann.store.transaction():
            member = self.ann.node.groups.group(self.group_id).member(device.key)
            assert member is not None
            collector = replace(member, capabilities=(COLLECTOR,))
            self.ann.node.actions.change(self.group_id, lambda draft, _: draft.changing(collector), self.ann.now)
        device.nodes.collects = True
        device.restart()

    def landed(self, device: Device) -> list[Message]:
        """Return what a collector has put into the vault."""
        ring, node = self.key_files[device.name].content.ring(), node_id(device.key)
        reader = VaultReader(self.objects, ring)
        manifest = reader.manifest(node.hex(), Floor())
        if not isinstance(manifest, VaultManifest):
            return []
        messages = []
        for entry in manifest.segments:
            content = self.objects.content[documents.entry_key(KEY.vault_id, node, entry)]
            records = documents.open_segment(ring.for_object(content), node, entry, content)
            raws = [each.message for each in records if record_kind(each.message) is RecordKind.MESSAGE]
            messages += [read_message(raw) for raw in raws]
        return messages

    def bodies(self, *devices: Device) -> list[bytes]:
        """Return the batches that some collectors have landed, each message once, as the tables have it."""
        messages = {
            (message.author, message.incarnation, message.seq): message
            for device in devices
            for message in self.landed(device)
        }
        telemetry = [each for each in messages.values() if each.type is MessageType.TELEMETRY]
        return sorted(split_number(each.body)[1] for each in telemetry)

    def losses(self) -> int:
        """Return how many loss records any vault holds."""
        landed = self.landed(self.first) + self.landed(self.second)
        return sum(message.type is MessageType.LOSS for message in landed)
