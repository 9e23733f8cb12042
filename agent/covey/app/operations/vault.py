"""Looking after a vault and its keys: making one, looking into it, mirroring, compacting, landing in it by oneself."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.core.group.manifest import COLLECTOR
from covey.core.ids import node_id
from covey.errors import LocalError, UsageError
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES

if TYPE_CHECKING:
    from covey.app.device import Device
    from covey.app.roles.compactor import Compaction
    from covey.app.roles.vault_survey import NodeState, Progress, VaultFinding, VaultSurvey
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
    """What one node has put into the vault; `trouble` is a code where its manifest could not be followed."""

    node: str
    manifest_seq: int
    segments: int
    listed_bytes: int
    newest_seconds: int | None
    tombstones: int
    trouble: str


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


# -- the vault --------------------------------------------------------------------------------------------------------


def prepare_vault(device: Device, location: str | None) -> PreparedVault:
    """Say where the vault lies, if a place is named, and draw its id and key, if there are none.

    Raises:
        ConfigurationError: the place is no usable one.
    """
    from covey.adapters.objects.location import absolute_location

    new = not device.folder.vault_key.exists()
    if location:
        device.folder.change_config({"vault.location": absolute_location(location)})
    _open_store(device, location)
    keys = device.folder.vault_key.keys()
    where = location or str(device.config.vault.location)
    return PreparedVault(keys.vault_id.hex(), where, str(device.folder.vault_key.path), new)


def status_of_vault(device: Device, location: str | None) -> VaultStatus:
    """Return what each node has put into the vault."""
    survey = _survey(device, location)
    now_us = device.clock.wall_us()
    nodes = tuple(_node_status(state, now_us) for state in survey.states(_nodes(device, survey)))
    return VaultStatus(nodes, device.store.landing.size())


def _node_status(state: NodeState, now_us: int) -> VaultNodeStatus:
    manifest = state.manifest
    if manifest is None:
        return VaultNodeStatus(state.node, 0, 0, 0, None, 0, state.trouble)
    newest_us = manifest.segments[-1].created_at_us if manifest.segments else None
    return VaultNodeStatus(
        node=state.node,
        manifest_seq=manifest.manifest_seq,
        segments=manifest.last_number,
        listed_bytes=sum(entry.size for entry in manifest.segments),
        newest_seconds=None if newest_us is None else max(0, (now_us - newest_us) // 1_000_000),
        tombstones=len(manifest.tombstones),
        trouble=state.trouble,
    )


def verify_vault(device: Device, location: str | None, progress: Progress) -> list[VaultFinding]:
    """Open everything that is listed, verify every signature, and return what is wrong."""
    survey = _survey(device, location)
    return list(survey.verify(_nodes(device, survey), progress))


def mirror_vault(device: Device, location: str | None, destination: str, progress: Progress) -> list[VaultFinding]:
    """Copy what the destination lacks, and return what could not be copied because it is wrong."""
    from covey.adapters.objects.location import open_object_store

    survey = _survey(device, location)
    mirror = open_object_store(destination, Path.cwd())
    return list(survey.pull(_nodes(device, survey), mirror, progress))


def compact_vault(
    device: Device, location: str | None, terms: CompactionTerms, progress: Progress, *, dry_run: bool
) -> Compaction:
    """Merge this device's small segments, and delete what was replaced long ago; or return what would be done."""
    from covey.app.roles.compactor import Compactor
    from covey.app.roles.node_vault import NodeVault

    _require_keys(device)
    objects = _open_store(device, location)
    node = NodeVault(device.node.identity, device.folder.vault_key.keys, device.store, objects, secrets.token_bytes)
    compactor = Compactor(node, device.store, secrets.token_bytes)
    now_us = device.clock.wall_us()
    before_us = now_us - terms.older_us
    if dry_run:
        return compactor.plan(terms.target_bytes, before_us, terms.grace_us, now_us)
    return compactor.compact(terms.target_bytes, before_us, terms.grace_us, now_us, progress)


def land_own(device: Device, location: str | None, progress: Progress) -> Landed:
    """Land what waits here for a collector as segments of this device's own."""
    from covey.app.roles.collector import Collector

    _require_keys(device)
    identity = device.node.identity
    name = node_id(identity.signing_public).hex()
    objects = _open_store(device, location)
    collector = Collector(
        identity, device.folder.vault_key.keys, device.store, objects, secrets.token_bytes, 0, lambda *_: None
    )
    return Landed(collector.push(device.node, device.now(), lambda done: progress(name, done, done)), name)


def _open_store(device: Device, location: str | None) -> ObjectStore:
    from covey.adapters.objects.location import open_object_store

    base = Path.cwd() if location else device.folder.path
    return open_object_store(location or str(device.config.vault.location), base)


def _survey(device: Device, location: str | None) -> VaultSurvey:
    from covey.adapters.objects.folder import DirectoryStore
    from covey.app.roles.vault_survey import StoreMemory, VaultSurvey

    _require_keys(device)
    keys = device.folder.vault_key.keys()
    memory = StoreMemory(DirectoryStore(device.folder.path / _SEEN_FOLDER), keys.vault_id)
    return VaultSurvey(_open_store(device, location), keys, memory)


def _nodes(device: Device, survey: VaultSurvey) -> list[str]:
    """Return the nodes to look at: all that have a manifest or had one, this device, the collectors of its groups."""
    collectors = {device.node.identity.signing_public} | {
        member.keys.signing_public
        for group in device.node.membership.groups()
        for member in group.with_capability(COLLECTOR)
    }
    return sorted(survey.nodes() | {node_id(key).hex() for key in collectors})


# -- its keys ---------------------------------------------------------------------------------------------------------


def export_vault_keys(device: Device, target: Path) -> VaultKeys:
    """Write a copy of the keys for the ingest, mode 0600.

    Raises:
        LocalError: this device has none.
        UsageError: the file is there already.
    """
    _require_keys(device)
    keys = device.folder.vault_key.keys()
    if target.exists():
        raise UsageError(f"{target} is there already", hint="name another file, or remove it")
    device.folder.vault_key.copy_to(target)
    return VaultKeys(keys.vault_id.hex(), keys.newest.key_id.hex(), len(keys.keys))


def rotate_vault_key(device: Device) -> VaultKeys:
    """Draw a new key for what lands from now on.

    Raises:
        LocalError: this device has none.
    """
    _require_keys(device)
    keys = device.folder.vault_key.rotate()
    return VaultKeys(keys.vault_id.hex(), keys.newest.key_id.hex(), len(keys.keys))


def _require_keys(device: Device) -> None:
    if not device.folder.vault_key.exists():
        raise LocalError(
            "this device has no vault key", hint="covey vault init, or put the collector's vault.key in its place"
        )
