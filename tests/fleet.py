"""A few devices over real stores and a perfect wire, for tests of what lies between them."""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.events import Event
from covey.core.group.manifest import COLLECTOR, Member
from covey.core.ids import INCARNATION_BYTES, DeviceKey, GroupId, Incarnation, inbox_name
from covey.core.link.link_keys import DEFAULT_TERMS, LinkTerms
from covey.core.link.sealer import Outgoing
from covey.core.link.state import LinkState
from covey.core.node import Node
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.errors import DiskFullError
from covey.limits.storage import OUTBOX_BYTES

START = Now(1_000_000, 1_789_000_000_000_000)


def identity(name: str) -> Identity:
    """Return a device's keys, derived from its name."""

    def secret(kind: str) -> bytes:
        return hashlib.blake2b(f"{name} {kind}".encode(), digest_size=32).digest()

    return Identity.from_seeds(secret("signing"), secret("noise"))


Opens = Callable[[Path, Incarnation, StorageKey, int], SqliteStore]
"""Opens a store: by path, with the incarnation of a new one, the device's key, and its outbox's bytes."""


@cache
def _empty_state() -> tuple[bytes, bytes]:
    """Return what a new store's file has before and after its incarnation.

    Made once by the store itself, whose tables take twenty times as long. The incarnation has a fixed length, so each
    device writes its own into a copy, without opening a database for that.
    """
    unlikely = hashlib.blake2b(b"an incarnation", digest_size=INCARNATION_BYTES).digest()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        SqliteStore(path, Incarnation(unlikely), StorageKey(bytes(32))).close()
        before, after = path.read_bytes().split(unlikely)
    return before, after


def write_empty_state(path: Path, incarnation: Incarnation) -> None:
    """Write the file of a new store, as it is after its first opening."""
    assert len(incarnation) == INCARNATION_BYTES
    path.touch(0o600)
    path.write_bytes(incarnation.join(_empty_state()))


def open_store(
    path: Path,
    new_incarnation: Incarnation,
    storage_key: StorageKey | None = None,
    outbox_bytes: int = OUTBOX_BYTES,
) -> SqliteStore:
    """Open a store, of any device where no key is given; a new one begins as a copy."""
    if not path.exists():
        write_empty_state(path, new_incarnation)
    return SqliteStore(path, new_incarnation, storage_key or StorageKey(bytes(32)), outbox_bytes)


@dataclass(slots=True)
class NodeMaker:
    """What all nodes of one device have in common, in whichever process and over whichever store."""

    identity: Identity
    chance: random.Random
    collects: bool = False
    presence_us: int = 0
    terms: LinkTerms = DEFAULT_TERMS
    pins: Pins = field(default_factory=lambda: Pins(frozenset()))

    def make(self, store: SqliteStore, state: LinkState | None = None) -> Node:
        """Return a node; `state` is what is in flight of the one that it replaces."""
        return Node(
            self.identity,
            store,
            self.chance.randbytes,
            self.chance.randint,
            lands_telemetry=self.collects,
            presence_us=self.presence_us,
            state=state or LinkState.of_start(self.identity, self.chance.randbytes, self.terms),
            pins=lambda _group_id: self.pins,
        )


class Device:
    """One device: a node over a real store, and its clock. It does what the runtime would let it do.

    Its name says what its keys and its chance are, unless it is given a chance of somebody else's.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        collects: bool = False,
        presence_us: int = 0,
        terms: LinkTerms = DEFAULT_TERMS,
        chance: random.Random | None = None,
        opens: Opens = open_store,
        outbox_bytes: int = OUTBOX_BYTES,
    ) -> None:
        self.name = name
        self.nodes = NodeMaker(identity(name), chance or random.Random(name), collects, presence_us, terms)
        self.path = folder / name
        self.outbox_bytes = outbox_bytes
        self.now = START
        self._opens = opens
        self.store: SqliteStore
        self.node: Node
        self.restart()

    @property
    def identity(self) -> Identity:
        """Its keys."""
        return self.nodes.identity

    @property
    def key(self) -> DeviceKey:
        """By what others know it."""
        return self.identity.signing_public

    def restart(self) -> None:
        """Open the store (again) and take up what it holds."""
        self.stop()
        self.store = self._open()
        self.node = self.make_node()
        self.node.connected(self.now)

    def stop(self) -> None:
        """End the process."""
        if hasattr(self, "store"):
            self.store.close()

    def copy_state(self) -> Path:
        """Copy the state as it is, and go on; return the copy."""
        copy = self.path.with_name(f"{self.name} copy")
        self.stop()
        shutil.copy(self.path, copy)
        self.restart()
        return copy

    def return_to(self, copy: Path | None) -> None:
        """Put a copy of the state, or nothing, in its place, as is noticed at the next start."""
        self.stop()
        for file in (self.path, *self.path.parent.glob(f"{self.name}-*")):
            file.unlink()
        if copy is not None:
            shutil.copy(copy, self.path)
        with closing(open_store(self.path, Incarnation(self.rng(INCARNATION_BYTES)))) as store, store.transaction():
            store.incarnations.renew(Incarnation(self.rng(INCARNATION_BYTES)))
        self.restart()

    def _open(self) -> SqliteStore:
        return self._opens(
            self.path, Incarnation(self.rng(INCARNATION_BYTES)), StorageKey.of(self.identity), self.outbox_bytes
        )

    def make_node(self, state: LinkState | None = None) -> Node:
        """Return a node over the store as it is."""
        return self.nodes.make(self.store, state)

    def replace_node(self) -> None:
        """Go on as the runtime does after a transaction that was rolled back."""
        self.node = self.make_node(self.node.state)

    def rng(self, length: int) -> bytes:
        """Return bytes that the name determines."""
        return self.nodes.chance.randbytes(length)

    def wait(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        microseconds = int(seconds * 1_000_000)
        self.now = Now(self.now.monotonic_us + microseconds, self.now.wall_us + microseconds)
        self.node.handle_deadline(self.now)

    def compares_on_contact_only(self) -> None:
        """Let it compare heads with those alone whom it hears, and not go round with them."""
        self.node.state.heads.round_at_us = 2**62

    def maintain(self) -> None:
        """Write what is due, as each turn of the loop does."""
        if self.node.has_work(self.now):
            with self.store.transaction():
                self.node.maintain(self.now)

    def blob(self, group_id: GroupId, *contents: bytes) -> None:
        """Queue a blob for every other member, or several in one commit."""
        with self.store.transaction():
            for content in contents:
                self.node.send_blob(group_id, content, self.now)

    def batch(self, group_id: GroupId, *contents: bytes) -> None:
        """Queue a batch for the collector, or several in one commit."""
        with self.store.transaction():
            for content in contents:
                self.node.telemetry.send(group_id, content, 1, self.now)

    def sends(self) -> list[Outgoing]:
        """Hand everything that may go to a relay that takes it all."""
        taken = []
        for outgoing in self.node.envelopes_to_send(self.now):
            taken.append(outgoing)
            self.node.sent(outgoing, self.now)
        return taken

    def receive(self, envelope: bytes) -> None:
        """Take an envelope in, and commit."""
        with self.store.transaction():
            self.node.receive_envelope(envelope, self.now)

    def receive_together(self, envelopes: Iterable[bytes]) -> None:
        """Take envelopes in, and commit once, as in a turn of the loop."""
        with self.store.transaction():
            for envelope in envelopes:
                self.node.receive_envelope(envelope, self.now)

    def on_a_full_disk(self, work: Callable[[], object]) -> None:
        """Do something in a transaction that the disk refuses at its end, as the runtime would."""
        with suppress(DiskFullError), self.store.transaction():
            work()
            raise DiskFullError("no room")
        self.replace_node()

    def inbox(self) -> list[bytes]:
        """Return the bodies that the application would find."""
        return [row[-1] for row in self.store.inbox.arrived(1_000)]

    def events(self) -> list[Event]:
        """Take what happened."""
        events = []
        while (event := self.node.next_event()) is not None:
            events.append(event)
        return events


Make = Callable[..., Device]
"""Makes a device by its name, and what else is said of it: the fixture `make`."""


def carry(*devices: Device) -> int:
    """Carry envelopes between devices until nobody has any; return how many went."""
    by_address = {inbox_name(device.identity.signing_public): device for device in devices}
    transferred = 0
    while True:
        for device in devices:
            device.node.make_acknowledgements_due(device.now)
        moving = [outgoing for device in devices for outgoing in device.sends()]
        for outgoing in moving:
            receiver = by_address.get(outgoing.topic.rpartition("/")[2])
            if receiver is not None:
                receiver.receive(outgoing.envelope)
        transferred += len(moving)
        if not moving:
            return transferred


def found(first: Device, *others: Device) -> GroupId:
    """Let the first device create a group and the others join it; return the group's id."""
    with first.store.transaction():
        group_id = first.node.membership.create(first.name, (), first.now.wall_us).group_id
    for other in others:
        admit(first, other, group_id, *others)
    return group_id


def settled(first: Device, *others: Device) -> bytes:
    """Give devices a group as if they had joined it long ago: nothing is under way. Return the group's id."""
    now, membership, groups = first.now, first.node.membership, first.store.groups
    with first.store.transaction():
        group_id = membership.create(first.name, (), now.wall_us).group_id
        for other in others:
            member = Member(other.identity.keys)
            membership.change(group_id, lambda draft, _, member=member: draft.adding(member), now.wall_us)
    current, secret = membership.groups.group(group_id), membership.groups.secret(group_id)
    assert secret is not None
    for other in others:
        with other.store.transaction():
            for _, _, raw in groups.manifests():
                other.store.groups.save_manifest(group_id, current.hash, current.version, raw, 0)
            other.store.groups.save_secret(group_id, current.epoch_id, secret, 0)
        other.node.refresh()
    return group_id


def admit(inviter: Device, joiner: Device, group_id: GroupId, *others: Device) -> None:
    """Let a device join over the wire."""
    capabilities = (COLLECTOR,) if joiner.nodes.collects else ()
    with inviter.store.transaction():
        invite = inviter.node.joining.invite(group_id, capabilities, "mqtt://fleet", inviter.now.wall_us)
    with joiner.store.transaction():
        joiner.node.actions.request_join(invite, joiner.name, joiner.now)
    carry(*{device.name: device for device in (inviter, joiner, *others)}.values())
