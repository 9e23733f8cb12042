"""Three devices, a relay that nobody trusts, and a table: the product's core and its store, in one process.

1. `shed` and `barn` measure; `hub` collects, and fills the table with each reading once it has committed it.
2. The relay keeps every envelope that it is given. It delivers, and may drop, repeat, reorder, flip bits, and play old
   envelopes again.
3. A power cut ends a device's process; its state is what its last commit left. A reading counts as *measured* when its
   device has committed it.
4. *Lost* is what was measured, is in no row, and waits on no device; *twice* is every further row of a number.
5. A stolen device is somebody else's: it still measures, but nothing that it measures after that is in the table. What
   it had measured before and the table has not yet counts for nothing: it may come, or be gone with the device.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core.crypto import Identity
from covey.core.group.manifest import COLLECTOR
from covey.core.ids import (
    INCARNATION_BYTES,
    DeviceKey,
    GroupId,
    Incarnation,
    NodeId,
    Place,
    VaultId,
    inbox_name,
    node_id,
)
from covey.core.link.link_keys import DEFAULT_TERMS
from covey.core.link.state import LinkState
from covey.core.node import Node
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, split_number
from covey.core.telemetry.decoding import read_batch
from covey.core.vault import documents
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.wire.message import Message, MessageType, read_message
from covey.errors import ConflictError, CoveyError
from covey.limits.storage import OUTBOX_BYTES

SECOND_US = 1_000_000
HUB, SHED, BARN = "hub", "shed", "barn"
NAMES = (SHED, BARN, HUB)
_CHANCE = random.SystemRandom()
_BEGINS_US = 1_800_000_000 * SECOND_US
_KEPT = 2_000
"""Envelopes that the relay keeps to play them again."""


class Device:
    """One device: the core's node over the product's store."""

    def __init__(self, name: str, folder: Path, now: Now) -> None:
        self.name, self._path = name, folder / name
        self.identity = Identity.from_seeds(secrets.token_bytes(32), secrets.token_bytes(32))
        self.is_on = False
        self.stolen_after: int | None = None
        """The last number that it measured before it was stolen."""
        self.store: SqliteStore
        self.node: Node
        self.start(now)

    @property
    def address(self) -> str:
        """The last level of the topic of its inbox."""
        return inbox_name(self.identity.signing_public)

    def start(self, now: Now) -> None:
        """Start the process: everything that it knows is on the disk."""
        self.store = self._open()
        self.node = Node(
            self.identity,
            self.store,
            secrets.token_bytes,
            _CHANCE.randint,
            lands_telemetry=self.name == HUB,
            presence_us=60 * SECOND_US,
            state=LinkState.of_start(self.identity, secrets.token_bytes, DEFAULT_TERMS),
            pins=lambda _group: Pins(frozenset()),
        )
        self.node.connected(now)
        self.is_on = True

    def _open(self) -> SqliteStore:
        return SqliteStore(
            self._path, Incarnation(secrets.token_bytes(INCARNATION_BYTES)), StorageKey.of(self.identity), OUTBOX_BYTES
        )

    def waiting_for(self, recipient: Device) -> set[int]:
        """Return the numbers that wait in its outbox, as its disk says, whether it is on or off."""
        key = recipient.identity.signing_public
        if self.is_on:
            return _numbers(self.store, key)
        with closing(self._open()) as store:
            return _numbers(store, key)

    def cut_power(self) -> None:
        """End the process where it is: an open transaction is gone."""
        self.store.close()
        self.is_on = False

    def turn(self, now: Now) -> list[tuple[str, bytes]]:
        """Do what is due; return what goes to the relay: the recipient's address, and an envelope."""
        self.node.handle_deadline(now)
        if self.node.has_work(now):
            with self.store.transaction():
                self.node.maintain(now)
        self.node.make_acknowledgements_due(now)
        leaving = []
        for outgoing in self.node.envelopes_to_send(now):
            leaving.append((outgoing.topic.rpartition("/")[2], outgoing.envelope))
            self.node.sent(outgoing, now)
        return leaving

    def receive(self, envelope: bytes, now: Now) -> None:
        """Take an envelope in, and commit; what is no envelope of ours is dropped and counted."""
        with self.store.transaction():
            self.node.receive_envelope(envelope, now)


def _numbers(store: SqliteStore, recipient: DeviceKey) -> set[int]:
    messages = (read_message(raw) for _, raw in store.outbox.queued(recipient, Place(0), 1_000_000, 1 << 40))
    return {number for each in messages if each.type is MessageType.TELEMETRY for number in numbers_of(each)}


def numbers_of(message: Message) -> list[int]:
    """Return the numbers that a message of telemetry has."""
    _, batch = split_number(message.body)
    return [int(value) for _, _, _, value in read_batch(batch).readings() if isinstance(value, float | int)]


@dataclass(slots=True)
class Relay:
    """What the visitor makes it do, and what it has."""

    drops: bool = False
    repeats: bool = False
    flips: bool = False
    shuffles: bool = False
    replays: bool = False
    waiting: list[tuple[str, bytes]] = field(default_factory=list)
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    harmed: Counter[str] = field(default_factory=Counter)

    def take(self, envelopes: list[tuple[str, bytes]]) -> None:
        """Take what devices publish."""
        self.waiting += envelopes
        self.kept = [*self.kept, *envelopes][-_KEPT:]

    def deliver(self) -> list[tuple[str, bytes]]:
        """Return what it hands out."""
        leaving, self.waiting = self.waiting, []
        if self.replays and self.kept:
            leaving += _CHANCE.sample(self.kept, min(3, len(self.kept)))
            self.harmed["replayed"] += min(3, len(self.kept))
        if self.shuffles:
            _CHANCE.shuffle(leaving)
            self.harmed["shuffled"] += len(leaving)
        out = []
        for address, envelope in leaving:
            if self.drops and _CHANCE.random() < 0.3:
                self.harmed["dropped"] += 1
                continue
            out.append((address, self._flipped(envelope)))
            if self.repeats:
                self.harmed["repeated"] += 1
                out.append((address, envelope))
        return out

    def _flipped(self, envelope: bytes) -> bytes:
        if not self.flips or _CHANCE.random() > 0.3:
            return envelope
        self.harmed["flipped"] += 1
        broken = bytearray(envelope)
        broken[_CHANCE.randrange(len(broken))] ^= 1 << _CHANCE.randrange(8)
        return bytes(broken)


class Vault:
    """The hub's vault in memory: `covey.ports.ObjectStore`, and its key file (`node_keys.KeyFileAccess`)."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._taken: set[str] = set()
        self._keys = KeyFile((VaultKey(VaultId(secrets.token_bytes(16)), secrets.token_bytes(32)),))

    def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        self._objects[key] = content

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store an object where it is what it was."""
        if self._objects.get(key) != before:
            raise ConflictError("replaced")
        self._objects[key] = content

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return an object."""
        content = self._objects.get(key)
        assert content is None or len(content) <= maximum
        return content

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._objects.pop(key, None)

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys."""
        return iter(sorted(key for key in self._objects if key.startswith(prefix)))

    def read(self) -> KeyFile:
        """Return the keys."""
        return self._keys

    def write(self, content: KeyFile) -> None:
        """Replace the keys."""
        self._keys = content

    def new_messages(self, node: NodeId) -> Iterator[Message]:
        """Yield the messages of every segment that was not taken before, as an ingest reads them."""
        ring = self._keys.ring()
        name = documents.manifest_key(self._keys.vault_id, node)
        if name not in self._objects:
            return
        content = self._objects[name]
        manifest = documents.open_vault_manifest(ring.for_object(content), node, content)
        for entry in manifest.segments:
            key = documents.entry_key(self._keys.vault_id, node, entry)
            if key in self._taken:
                continue
            self._taken.add(key)
            segment = self._objects[key]
            for record in documents.open_segment(ring.for_object(segment), node, entry, segment):
                if record_kind(record.message) is RecordKind.MESSAGE:
                    yield read_message(record.message)


class World:
    """Everything; `step` lets some time pass."""

    def __init__(self, folder: Path) -> None:
        self.now = Now(SECOND_US, _BEGINS_US)
        self.devices = {name: Device(name, folder, self.now) for name in NAMES}
        self.relay, self.vault = Relay(), Vault()
        self.measured: dict[str, list[int]] = {SHED: [], BARN: []}
        self.rows: list[tuple[str, int]] = []
        """The table: device and number."""
        self._known: set[tuple[bytes, bytes, int]] = set()
        self._collector: Collector | None = None
        self._next = 0
        self._group_id = self._found()
        self._begin_collecting()

    def _found(self) -> GroupId:
        """Let the hub found a group, and let the others join it, over a relay that still behaves."""
        hub = self.devices[HUB]
        with hub.store.transaction():
            group = hub.node.membership.create(HUB, (COLLECTOR,), self.now.wall_us)
        for name in (SHED, BARN):
            with hub.store.transaction():
                invite = hub.node.joining.invite(group.group_id, (), "mqtt://relay", self.now.wall_us)
            joiner = self.devices[name]
            with joiner.store.transaction():
                joiner.node.actions.request_join(invite, name, self.now)
            while self._carry():
                pass
        return group.group_id

    def _begin_collecting(self) -> None:
        hub = self.devices[HUB]
        keys = NodeKeys(hub.identity, self.vault, hub.store, self.vault, secrets.token_bytes)
        self._collector = Collector(
            hub.identity, keys, hub.store, self.vault, secrets.token_bytes, 2 * SECOND_US, lambda _level, _line: None
        )

    def step(self, seconds: float = 1.0) -> None:
        """Let devices measure once, and so much time pass."""
        passed = int(seconds * SECOND_US)
        self.now = Now(self.now.monotonic_us + passed, self.now.wall_us + passed)
        for name in (SHED, BARN):
            self._measure(name)
        self._carry()
        hub = self.devices[HUB]
        if hub.is_on and self._collector is not None:
            self._collector.turn(hub.node, self.now)
            self._fill_table()

    def _measure(self, name: str) -> None:
        device = self.devices[name]
        if not device.is_on:
            return
        self._next += 1
        builder = BatchBuilder()
        builder.add("number", "", self.now.monotonic_us, self._next)
        clock = ClockReading(bytes(8), self.now.monotonic_us, self.now.wall_us, ClockKind.SYNCHRONISED)
        try:
            with device.store.transaction():
                device.node.telemetry.send(self._group_id, builder.body(clock), 1, self.now)
        except CoveyError:
            return  # it has heard that it is out
        if device.stolen_after is None:
            self.measured[name].append(self._next)

    def _carry(self) -> int:
        for device in self.devices.values():
            if device.is_on:
                self.relay.take(device.turn(self.now))
        delivered = self.relay.deliver()
        by_address = {device.address: device for device in self.devices.values() if device.is_on}
        for address, envelope in delivered:
            if address in by_address:
                by_address[address].receive(envelope, self.now)
        return len(delivered)

    def cut_power(self, name: str) -> None:
        """End a device's process, or start it again."""
        device = self.devices[name]
        if device.is_on:
            device.cut_power()
        else:
            device.start(self.now)
            if name == HUB:
                self._begin_collecting()

    def steal(self, name: str) -> None:
        """Let a device be in other hands, and have the hub remove it. What it still holds is gone with it."""
        device, hub = self.devices[name], self.devices[HUB]
        device.stolen_after = self._next
        there = {number for who, number in self.rows if who == name}
        self.measured[name] = [each for each in self.measured[name] if each in there]
        with hub.store.transaction():
            hub.node.actions.change(
                self._group_id, lambda draft, epoch: draft.removing(device.identity.signing_public, epoch), self.now
            )

    def _fill_table(self) -> None:
        """Take new messages of the vault into the table, each message once: its author and number name it."""
        hub = self.devices[HUB].identity.signing_public
        names = {device.identity.signing_public: device.name for device in self.devices.values()}
        for message in self.vault.new_messages(node_id(hub)):
            key = (message.author, message.incarnation, message.seq)
            if message.type is MessageType.TELEMETRY and key not in self._known:
                self._known.add(key)
                self.rows += [(names[message.author], number) for number in numbers_of(message)]

    def counts(self) -> dict[str, int]:
        """Return what the page shows (rules 3 to 5)."""
        rows = Counter(self.rows)
        hub = self.devices[HUB]
        measured = {(name, number) for name, numbers in self.measured.items() for number in numbers}
        waiting = {(name, number) for name in self.measured for number in self.devices[name].waiting_for(hub)}
        missing = measured - rows.keys()
        return {
            "measured": len(measured),
            "rows": rows.total(),
            "waiting": len(missing & waiting),
            "lost": len(missing - waiting),
            "twice": sum(times - 1 for times in rows.values()),
            "foreign": sum(self._is_foreign(name, number) for name, number in rows),
        }

    def _is_foreign(self, name: str, number: int) -> bool:
        last = self.devices[name].stolen_after
        return last is not None and number > last
