"""Authors and a collector without a network: real messages, landed in a real vault in a directory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.sqlite.store import SqliteStore
from covey.app.telemetry.compactor import Compaction, Compactor
from covey.app.telemetry.erasing import Erased, Eraser
from covey.app.telemetry.node_keys import NodeKeys
from covey.app.telemetry.node_vault import NodeVault
from covey.core.crypto import Identity
from covey.core.ids import GroupId, Incarnation, LinkSeq, VaultId, node_id
from covey.core.telemetry.batch import Alarm, BatchBuilder, ClockKind, ClockReading, Value, numbered
from covey.core.vault.documents import (
    SegmentEntry,
    SegmentRecord,
    VaultManifest,
    entry_key,
    manifest_key,
    next_manifest,
    range_key,
    seal_range,
    seal_segment,
    seal_vault_manifest,
)
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.core.vault.receipts import sign_rows
from covey.core.wire.message import NO_GROUP, Loss, LossReason, MessageType, write_message
from tests.fleet import open_store

NOW_US = 1_800_000_000_000_000
BOOTED_US = 5_000_000_000
"""What a device's monotonic clock shows at NOW_US."""

Given = tuple[str, str, int, Value]


class Author:
    """Signs messages to one collector, as a device without a node and a store."""

    def __init__(self, collector: Collector, seed: int, group_id: GroupId = NO_GROUP) -> None:
        rng = random.Random(seed)
        self.identity = Identity.from_seeds(rng.randbytes(32), rng.randbytes(32))
        self.incarnation = Incarnation(rng.randbytes(8))
        self.boot_id = rng.randbytes(8)
        self.seq = self.number = 0
        self._collector = collector
        self._group_id = group_id

    @property
    def author(self) -> str:
        """The signing key, as the tables' column of this name shows it."""
        return self.identity.signing_public.hex()

    def clock(self, kind: ClockKind = ClockKind.SYNCHRONISED, wall_us: int = NOW_US) -> ClockReading:
        """Look at the clocks: `wall_us` is what the device believes."""
        return ClockReading(self.boot_id, BOOTED_US, wall_us, kind)

    def telemetry(
        self,
        readings: list[Given],
        clock: ClockReading | None = None,
        alarm: Alarm | None = None,
        *,
        salt: bytes = b"",
    ) -> bytes:
        """Sign a message of readings; times are as the clock counts them, and it is sent when the clock was read.

        With a salt of 16 bytes, each reading can be proven.
        """
        builder = BatchBuilder()
        for reading in readings:
            builder.add(*reading)
        self.number += 1
        clock = clock or self.clock()
        batch = builder.body(clock)
        rows = sign_rows(self.identity, batch, salt) if salt else b""
        return self.sign(MessageType.TELEMETRY, numbered(self.number, batch, alarm, rows), clock.wall_us)

    def measure(self, count: int, names: int = 3) -> bytes:
        """Sign a message of `count` plain readings, the last of them a second ago."""
        readings: list[Given] = [
            (f"sensor-{n % names}", "Cel", BOOTED_US - 1_000_000 * (count - n), 20 + n / 10) for n in range(count)
        ]
        return self.telemetry(readings)

    def loss(self, first: int, last: int) -> bytes:
        """Sign a loss record."""
        return self.sign(MessageType.LOSS, Loss(LossReason.OUTBOX_FULL, ((first, last),)).to_wire())

    def sign(self, message_type: MessageType, body: bytes, sent_at_us: int = NOW_US) -> bytes:
        """Sign any body."""
        self.seq += 1
        recipient = self._collector.identity.signing_public
        return write_message(
            self.identity,
            message_type,
            recipient,
            self._group_id,
            self.incarnation,
            self.seq,
            LinkSeq(self.seq),
            sent_at_us,
            body,
        )


class Collector:
    """Lands segments and publishes manifests as the agent's collector does."""

    def __init__(
        self, vault: Path, seed: int = 0, key: VaultKey | None = None, identity: Identity | None = None
    ) -> None:
        self._rng = random.Random(seed)
        self.vault = vault
        drawn = Identity.from_seeds(self._rng.randbytes(32), self._rng.randbytes(32))
        self.identity = identity or drawn
        self.incarnation = Incarnation(self._rng.randbytes(8))
        self.key = key or VaultKey(VaultId(self._rng.randbytes(16)), self._rng.randbytes(32))
        self.node = node_id(self.identity.signing_public)
        self.manifest: VaultManifest | None = None
        self.key_file = vault / "vault.key"
        vault.mkdir(exist_ok=True)
        self.key_file.write_text(KeyFile((self.key,)).to_text())
        self.key_file.chmod(0o600)

    def land(self, *messages: bytes, received_at_us: int = NOW_US) -> SegmentEntry:
        """Put one segment of messages that came together, and the manifest that lists it."""
        return self.land_records([SegmentRecord(received_at_us, message) for message in messages], received_at_us)

    def land_records(self, records: Sequence[SegmentRecord], closed_at_us: int = NOW_US) -> SegmentEntry:
        """Put one segment, and the manifest that lists it."""
        number = self.manifest.last_number + 1 if self.manifest else 1
        public = self.identity.signing_public
        entry, content = seal_segment(
            self.key, public, number, self.incarnation, closed_at_us, list(records), self._rng.randbytes(24)
        )
        self.put(self.segment_path(entry), content)
        self.manifest = next_manifest(self.manifest, self.key, public, self.incarnation, closed_at_us, (entry,))
        self.publish(self.manifest)
        return entry

    def fold(self, count: int) -> Path:
        """Let a range name the oldest listed segments; return where its object lies."""
        assert self.manifest is not None
        public = self.identity.signing_public
        named, content = seal_range(self.key, public, self.manifest.segments[:count], self._rng.randbytes(24))
        path = self.vault / range_key(self.key.vault_id, self.node, named)
        self.put(path, content)
        self.manifest = next_manifest(self.manifest, self.key, public, self.incarnation, NOW_US, (), named)
        self.publish(self.manifest)
        return path

    @cached_property
    def store(self) -> SqliteStore:
        """The state of the collecting device, which remembers how far its manifests have come."""
        return open_store(self.vault.with_name(f"{self.vault.name}.state"), self.incarnation)

    def keys(self) -> NodeKeys:
        """Return the keys of this node."""
        objects = DirectoryStore(self.vault)
        return NodeKeys(self.identity, VaultKeyFile(self.key_file), self.store, objects, self._rng.randbytes)

    def node_vault(self) -> NodeVault:
        """Return the writer of this node's part."""
        return NodeVault(self.identity, self.keys(), self.store, DirectoryStore(self.vault), self._rng.randbytes)

    def compact(self, *, grace_us: int = 0, target_bytes: int = 1_000_000) -> Compaction:
        """Merge all but the newest segment, and delete what was replaced longer ago than the grace time."""
        node = self.node_vault()
        outcome = Compactor(node, self.store, self._rng.randbytes).compact(
            target_bytes, NOW_US + 10**15, grace_us, NOW_US, lambda *_: None
        )
        self.manifest = node.manifest
        return outcome

    def erase(self, due: ErasureDue, now_us: int = NOW_US) -> Erased:
        """Erase what is due from the node's part."""
        node = self.node_vault()
        outcome = Eraser(node, self.store, self._rng.randbytes).erase(due, None, now_us, lambda *_: None)
        self.manifest = node.manifest
        return outcome

    def publish(self, manifest: VaultManifest) -> None:
        """Put a manifest at this node's key."""
        content = seal_vault_manifest(self.key, manifest, self.identity, self._rng.randbytes(24))
        self.put(self.manifest_path, content)

    def put(self, path: Path, content: bytes) -> None:
        """Write an object whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(content)
        temporary.replace(path)

    def segment_path(self, entry: SegmentEntry) -> Path:
        """Where a segment lies."""
        return self.vault / entry_key(self.key.vault_id, self.node, entry)

    @property
    def manifest_path(self) -> Path:
        """Where the node's manifest lies."""
        return self.vault / manifest_key(self.key.vault_id, self.node)
