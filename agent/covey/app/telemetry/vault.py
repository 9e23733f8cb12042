"""Looking after a vault and its keys: making one, looking into it, mirroring, compacting, landing in it by oneself."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covey.app.telemetry.collecting import note_vault_place, vault_place
from covey.core.crypto import check_noise_key
from covey.core.group.manifest import COLLECTOR
from covey.core.ids import KEY_BYTES, NoisePublic, device_name, from_hex, node_id
from covey.errors import ConfigurationError, LocalError, MalformedError, UsageError
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covey.adapters.keys.vault_key_file import VaultKeyFile
    from covey.app.device.device import Device
    from covey.app.telemetry.compactor import Compaction
    from covey.app.telemetry.node_keys import NodeKeys
    from covey.app.telemetry.node_vault import NodeVault
    from covey.app.telemetry.vault_survey import NodeState, Progress, StoreMemory, VaultFinding, VaultSurvey
    from covey.core.vault.key_file import KeyFile
    from covey.core.vault.keys import KeyRing, VaultKey
    from covey.core.vault.reading import VaultReader
    from covey.ports import ObjectStore

_SEEN_FOLDER = "vault-seen"
"""In the state folder: the last good manifest of each node that this device has looked at."""

LEAST_TARGET_BYTES = 4_096
MOST_TARGET_BYTES = MAXIMUM_SEGMENT_BYTES // 2
"""Up to where segments may be merged."""


@dataclass(frozen=True, slots=True)
class PreparedVault:
    """A vault that this device has the keys of, and where it lies; `new`: they were drawn just now."""

    vault_id: str
    location: str
    key_file: str
    new: bool


@dataclass(frozen=True, slots=True)
class VaultNodeStatus:
    """What one node has put into the vault; `trouble` is a code where its manifest could not be followed.

    `device` and `label` are the member that writes as this node; empty where no group has it.
    """

    node: str
    manifest_seq: int
    last_position: int
    """Of its newest segment; a restored collector leaves positions out."""
    listed_bytes: int
    newest_seconds: int | None
    tombstones: int
    key: int
    """How many keys it has had, where it shares them with this device: the newest is of this generation; else 0."""
    key_since: str
    """Since when the newest is in use (RFC 3339), or empty where nobody has noted that."""
    trouble: str
    device: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class VaultStatus:
    """What is in a vault, and what waits here to be landed."""

    nodes: tuple[VaultNodeStatus, ...]
    waiting_bytes: int

    @property
    def troubled(self) -> bool:
        """Whether a node's manifest could not be followed; one that has never had one is no trouble."""
        return any(each.trouble and (each.manifest_seq or each.trouble != "missing") for each in self.nodes)


@dataclass(frozen=True, slots=True)
class CompactionTerms:
    """What to merge: segments older than `older_us`, up to `target_bytes`; and how long replaced ones stay."""

    target_bytes: int
    older_us: int
    grace_us: int


@dataclass(frozen=True, slots=True)
class Landed:
    """So many messages that this device has landed itself, as this node."""

    messages: int
    node: str


@dataclass(frozen=True, slots=True)
class VaultKeys:
    """Which vault's keys these are, the newest, and how many with those before it."""

    vault_id: str
    key_id: str
    keys: int


@dataclass(frozen=True, slots=True)
class VaultReaderKey:
    """A recipient of vault keys: its public key, and its device, or nothing."""

    public: str
    device: str = ""


# -- the vault --------------------------------------------------------------------------------------------------------


def prepare_vault(device: Device, location: str | None) -> PreparedVault:
    """Say where the vault lies, if a place is named, and draw its id and key, if there are none.

    Raises:
        ConfigurationError: the place is no usable one.
    """
    from covey.adapters.objects.location import absolute_location

    key_file = _key_file(device)
    new = not key_file.exists()
    if location:
        device.folder.configuration.change({"vault.location": absolute_location(location)})
        note_vault_place(device, None)
    _open_store(device, location)
    key_file.draw(device.clock.wall_us())
    where = location or vault_place(device)
    return PreparedVault(key_file.read().vault_id.hex(), where, str(key_file.path), new)


def status_of_vault(device: Device, location: str | None) -> VaultStatus:
    """Return what each node has put into the vault."""
    survey = _survey(device, location)
    now_us = device.clock.wall_us()
    writers = vault_writers(device)
    states = (_node_status(state, now_us) for state in survey.states(vault_nodes(device, survey.nodes())))
    nodes = (replace(each, **writers[each.node]._asdict()) if each.node in writers else each for each in states)
    return VaultStatus(tuple(nodes), device.store.landing.size())


class VaultWriter(NamedTuple):
    """The member that writes to a vault as a node, and what it is called."""

    device: str
    label: str


def vault_writers(device: Device) -> dict[str, VaultWriter]:
    """Return who of this device's groups may write as which node."""
    found = {}
    for group in device.node.groups.joined():
        for member in group.members:
            key = member.keys.signing_public
            found[node_id(key).hex()] = VaultWriter(device_name(key), member.label)
    return found


def _node_status(state: NodeState, now_us: int) -> VaultNodeStatus:
    manifest = state.manifest
    if manifest is None:
        return VaultNodeStatus(state.node, 0, 0, 0, None, 0, len(state.keys), _since(state.keys), state.trouble)
    newest_us = manifest.segments[-1].created_at_us if manifest.segments else None
    return VaultNodeStatus(
        node=state.node,
        manifest_seq=manifest.manifest_seq,
        last_position=manifest.last_number,
        listed_bytes=sum(entry.size for entry in manifest.segments),
        newest_seconds=None if newest_us is None else max(0, (now_us - newest_us) // 1_000_000),
        tombstones=len(manifest.tombstones),
        key=len(state.keys),
        key_since=_since(state.keys),
        trouble=state.trouble,
    )


def _since(keys: tuple[VaultKey, ...]) -> str:
    if not keys or not keys[0].since_us:
        return ""
    return datetime.fromtimestamp(keys[0].since_us // 1_000_000, UTC).isoformat()


def verify_vault(device: Device, location: str | None, progress: Progress) -> list[VaultFinding]:
    """Open everything that is listed, verify every signature, and return what is wrong."""
    survey = _survey(device, location)
    return list(survey.verify(vault_nodes(device, survey.nodes()), progress))


def mirror_vault(device: Device, location: str | None, destination: str, progress: Progress) -> list[VaultFinding]:
    """Copy what the destination lacks, and return what could not be copied because it is wrong."""
    from covey.adapters.objects.location import open_vault_store

    survey = _survey(device, location)
    mirror = open_vault_store(destination, Path.cwd())
    return list(survey.pull(vault_nodes(device, survey.nodes()), mirror, progress))


def compact_vault(
    device: Device, location: str | None, terms: CompactionTerms, progress: Progress, *, dry_run: bool
) -> Compaction:
    """Merge this device's small segments, and delete what was replaced long ago; or return what would be done."""
    from covey.app.telemetry.compactor import Compactor

    node = node_vault(device, location, prepare=not dry_run)
    compactor = Compactor(node, device.store, secrets.token_bytes)
    now_us = device.clock.wall_us()
    before_us = now_us - terms.older_us
    if dry_run:
        return compactor.plan(terms.target_bytes, before_us, terms.grace_us, now_us)
    with alone(device):
        return compactor.compact(terms.target_bytes, before_us, terms.grace_us, now_us, progress)


def node_vault(device: Device, location: str | None, *, prepare: bool) -> NodeVault:
    """Return this device's part of a vault, with its keys as they hold now if something is to be sealed.

    Raises:
        LocalError: this device has no vault's keys.
    """
    from covey.app.telemetry.node_vault import NodeVault

    _require_keys(device)
    objects = _open_store(device, location)
    keys = _node_keys(device, objects)
    if prepare:
        keys.prepare(device.node.groups.joined(), device.now())
    return NodeVault(device.node.identity, keys, device.store, objects, secrets.token_bytes)


@contextmanager
def alone(device: Device) -> Iterator[None]:
    """Keep others from rewriting this node's segments meanwhile.

    Raises:
        LocalError: another process does.
    """
    descriptor = device.folder.locks.vault()
    if descriptor is None:
        raise LocalError(
            "another command compacts or erases this device's segments",
            hint="wait until it has finished, then try again",
        )
    try:
        yield
    finally:
        os.close(descriptor)


def land_own(device: Device, location: str | None, progress: Progress) -> Landed:
    """Land what waits here for a collector as segments of this device's own."""
    from covey.app.telemetry.collector import Collector

    _require_keys(device)
    identity = device.node.identity
    name = node_id(identity.signing_public).hex()
    objects = _open_store(device, location)
    keys = _node_keys(device, objects)
    collector = Collector(identity, keys, device.store, objects, secrets.token_bytes, 0, lambda *_: None)
    return Landed(collector.push(device.node, device.now(), lambda done: progress(name, done, done)), name)


def _open_store(device: Device, location: str | None) -> ObjectStore:
    from covey.adapters.objects.location import open_vault_store

    base = Path.cwd() if location else device.folder.path
    return open_vault_store(location or vault_place(device), base)


def vault_reader(device: Device, location: str | None) -> VaultReader:
    """Return what reads this device's vault, and remembers the last good manifest of each node.

    Raises:
        LocalError: this device has no vault's keys.
    """
    from covey.core.vault.reading import VaultReader

    keys, memory = _keys_and_memory(device)
    return VaultReader(_open_store(device, location), keys, memory)


def vault_nodes(device: Device, known: Iterable[str] = ()) -> list[str]:
    """Return the nodes to look at: those that are known of, this device, the collectors of its groups."""
    collectors = {device.node.identity.signing_public} | {
        member.keys.signing_public
        for group in device.node.groups.joined()
        for member in group.with_capability(COLLECTOR)
    }
    return sorted({*known, *(node_id(key).hex() for key in collectors)})


def known_nodes(device: Device, location: str | None) -> set[str]:
    """Return the nodes that have a manifest in a vault, and those that had one when this device last looked.

    Raises:
        LocalError: this device has no vault's keys.
        StorageError: the store cannot be read.
    """
    return _survey(device, location).nodes()


def _survey(device: Device, location: str | None) -> VaultSurvey:
    from covey.app.telemetry.vault_survey import VaultSurvey

    keys, memory = _keys_and_memory(device)
    return VaultSurvey(_open_store(device, location), keys, memory)


def _keys_and_memory(device: Device) -> tuple[KeyRing, StoreMemory]:
    from covey.adapters.objects.folder import DirectoryStore
    from covey.app.telemetry.vault_survey import StoreMemory

    _require_keys(device)
    keys = _key_file(device).read().ring()
    return keys, StoreMemory(DirectoryStore(device.folder.path / _SEEN_FOLDER), keys.vault_id)


# -- its keys ---------------------------------------------------------------------------------------------------------


def export_vault_keys(device: Device, target: Path) -> VaultKeys:
    """Write a copy of the keys for the ingest, or for another device that writes to the vault; mode 0600.

    Raises:
        LocalError: this device has none.
        UsageError: the file is there already.
    """
    from covey.adapters.keys.vault_key_file import VaultKeyFile

    _require_keys(device)
    if target.exists():
        raise UsageError(f"{target} already exists", hint="name another file, or remove it")
    content = _key_file(device).read()
    VaultKeyFile(target).write(content.copy())
    return _vault_keys(content)


def rotate_vault_key(device: Device, location: str | None) -> VaultKeys:
    """Draw a new key for what lands from now on, as a removal does by itself.

    Raises:
        LocalError: this device has none.
        StorageError: the vault cannot be read, in which stands who reads it.
    """
    _require_keys(device)
    keys = _node_keys(device, _open_store(device, location))
    content = keys.rotate(device.node.groups.joined(), device.now())
    keys.prepare(device.node.groups.joined(), device.now())
    return _vault_keys(content)


def new_reader(key_file: Path) -> VaultReaderKey:
    """Let a copy of the keys be given the later ones: draw a key pair into it; return the public half.

    Raises:
        ConfigurationError: no key file, or others may read it.
    """
    from covey.adapters.keys.vault_key_file import VaultKeyFile

    if not key_file.exists():
        raise ConfigurationError(
            f"{key_file} is missing", hint=f"on a collector: covey vault export-key {key_file.name}"
        )
    file = VaultKeyFile(key_file)
    content = file.read()
    if content.reader_secret is None:
        content = replace(content, reader_secret=secrets.token_bytes(KEY_BYTES))
        file.write(content)
    assert content.reader_public is not None
    return VaultReaderKey(content.reader_public.hex())


def change_readers(device: Device, location: str | None, public: str, *, add: bool) -> VaultKeys:
    """Give a reader this device's vault keys from now on, or draw a new key that it is not given.

    Raises:
        LocalError: this device has none.
        UsageError: not what `new_reader` said, or no reader of this device.
    """
    from covey.core.vault.key_file import VaultKeyReader

    _require_keys(device)
    reader = VaultKeyReader(_reader_key(public))
    groups, now = device.node.groups.joined(), device.now()
    keys, key_file = _node_keys(device, _open_store(device, location)), _key_file(device)
    with device.store.transaction():
        content = key_file.read()
        others = tuple([each for each in content.readers if each.public != reader.public])
        if not add and len(others) == len(content.readers):
            raise UsageError("this device has no such reader", hint="'covey vault readers' lists them")
        key_file.write(replace(content, readers=(reader, *others) if add else others))
    if not add:
        keys.rotate(groups, now)
    keys.prepare(groups, now)
    return _vault_keys(key_file.read())


def vault_readers(device: Device) -> list[VaultReaderKey]:
    """Return the recipients of this device's vault keys.

    Raises:
        LocalError: this device has none.
    """
    _require_keys(device)
    readers = _key_file(device).read().readers
    return [VaultReaderKey(each.public.hex(), each.device.hex() if each.device else "") for each in readers]


def _reader_key(text: str) -> NoisePublic:
    try:
        public = NoisePublic(from_hex(text, KEY_BYTES))
        check_noise_key(public)
    except MalformedError:
        raise UsageError("not a reader's key", hint="give the key that 'covey vault new-reader FILE' prints") from None
    return public


def _vault_keys(content: KeyFile) -> VaultKeys:
    return VaultKeys(content.vault_id.hex(), content.newest.key_id.hex(), len(content.keys))


def _node_keys(device: Device, objects: ObjectStore) -> NodeKeys:
    from covey.app.telemetry.node_keys import NodeKeys

    return NodeKeys(device.node.identity, _key_file(device), device.store, objects, secrets.token_bytes)


def _key_file(device: Device) -> VaultKeyFile:
    return device.folder.vault_key(device.node.identity)


def _require_keys(device: Device) -> None:
    if not device.folder.has_vault_key:
        raise LocalError(
            "this device has no vault key",
            hint="covey vault init; or put here as vault.key what 'covey vault export-key FILE' writes on a collector",
        )
