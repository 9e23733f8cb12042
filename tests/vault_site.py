"""A collector, somebody who sends to it, and a vault in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.node_keys import NodeKeys
from covey.core.ids import VaultId, node_id
from covey.core.telemetry.batch import split_number
from covey.core.vault import documents
from covey.core.vault.documents import VaultManifest
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.reading import Floor, VaultReader
from covey.core.wire.message import MessageType, read_message
from covey.errors import ConflictError, StorageError
from covey.limits.vault import SEGMENT_US
from tests.fleet import Device, carry, found
from tests.vault_keys import MemoryKeyFile

KEY = VaultKey(VaultId(bytes(16)), bytes(range(32)))


class Objects:
    """A vault in memory; `refuses` names the ending of keys that cannot be put."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.refuses: tuple[str, ...] = ()
        self.lies = False
        self.puts: list[str] = []

    def put(self, key: str, content: bytes) -> None:
        """Store, or refuse; a liar stores and refuses."""
        self.puts.append(key)
        if key.endswith(self.refuses):
            if self.lies:
                self.content[key] = content
            raise StorageError("unreachable")
        self.content[key] = content

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return an object."""
        content = self.content.get(key)
        assert content is None or len(content) <= maximum
        return content

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store an object where it is what it was."""
        if self.content.get(key) != before:
            raise ConflictError("replaced")
        self.put(key, content)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self.content.pop(key, None)

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys."""
        return iter(sorted(key for key in self.content if key.startswith(prefix)))


class Site:
    """A collector, somebody who sends to it, and a vault."""

    def __init__(self, folder: Path, objects: Objects | None = None) -> None:
        self.ann = Device("ann", folder)
        self.gate = Device("collector", folder, collects=True)
        self.group_id = found(self.ann, self.gate)
        self.objects = objects or Objects()
        self.said: list[str] = []
        self.key_file = MemoryKeyFile(KEY)
        self.collector = self.start()
        self.keys().prepare(self.gate.node.groups.joined(), self.gate.now)
        self.objects.puts.clear()

    def start(self) -> Collector:
        """Start the role, as after a crash."""
        self.gate.restart()
        self.collector = Collector(
            self.gate.identity,
            self.keys(),
            self.gate.store,
            self.objects,
            self.gate.rng,
            SEGMENT_US,
            lambda _level, line: self.said.append(line),
        )
        self.gate.node = self.gate.make_node()  # as an agent makes its node when its roles are there
        self.gate.node.connected(self.gate.now)
        return self.collector

    def keys(self) -> NodeKeys:
        """Return the keys of the collector's node, as another process has them."""
        return NodeKeys(self.gate.identity, self.key_file, self.gate.store, self.objects, self.gate.rng)

    def send(self, *bodies: bytes) -> None:
        """Let batches arrive."""
        for body in bodies:
            self.ann.batch(self.group_id, body)
        carry(self.ann, self.gate)
        self.ann.wait(400)
        carry(self.ann, self.gate)

    def turn(self, seconds: float = 0) -> int | None:
        """Let time pass and the role work."""
        self.gate.wait(seconds)
        return self.collector.turn(self.gate.node, self.gate.now)

    def land(self) -> None:
        """Let a segment close."""
        self.turn()
        self.turn(10)

    @property
    def ring(self) -> KeyRing:
        """The keys that open the vault."""
        return self.key_file.content.ring()

    def manifest(self) -> VaultManifest | None:
        """Open the vault's manifest."""
        node = node_id(self.gate.key)
        content = self.objects.content.get(documents.manifest_key(KEY.vault_id, node))
        return documents.open_vault_manifest(self.ring.for_object(content), node, content) if content else None

    def landed(self) -> list[bytes]:
        """Return the bodies of batches in the vault, in order, as a reader finds them."""
        return [split_number(read_message(raw).body)[1] for raw in self.records()]

    def landed_telemetry(self) -> list[bytes]:
        """Return the bodies of batches in the vault, without losses and operations."""
        messages = (read_message(raw) for raw in self.records() if record_kind(raw) is RecordKind.MESSAGE)
        return [split_number(each.body)[1] for each in messages if each.type is MessageType.TELEMETRY]

    def records(self) -> list[bytes]:
        """Return the messages and operations in the vault, in order."""
        return [raw for raw in self.everything() if record_kind(raw) is not RecordKind.MANIFEST]

    def everything(self) -> list[bytes]:
        """Return what is in the vault, in order, as a reader finds it."""
        node, manifest, found = node_id(self.gate.key), self.manifest(), list[bytes]()
        if manifest is None:
            return []
        reader = VaultReader(self.objects, self.ring)
        assert reader.manifest(node.hex(), Floor()) == manifest
        entries = reader.entries(node.hex(), manifest, 1, manifest.last_number)
        assert isinstance(entries, tuple)
        for entry in entries:
            content = reader.segment(node.hex(), entry)
            assert content is not None
            records = documents.open_segment(self.ring.for_object(content), node, entry, content)
            found += [record.message for record in records]
        return found


class CrashError(BaseException):
    """The process is gone."""


def crashes_at(site: Site, step: int, work: Callable[[], object]) -> bool:
    """Do something, and let the process end before the given write to the vault; say whether it came so far."""
    count = 0
    put, delete = site.objects.put, site.objects.delete

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            nonlocal count
            if count == step:
                raise CrashError
            count += 1
            write(*arguments)

        return call

    site.objects.put, site.objects.delete = counted(put), counted(delete)  # type: ignore[method-assign]
    try:
        work()
    except CrashError:
        return True
    finally:
        site.objects.put, site.objects.delete = put, delete  # type: ignore[method-assign]
    return False
