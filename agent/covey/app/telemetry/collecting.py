"""The collector's role, and where its vault is: the place named on its command line, else the configured one."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.objects.location import absolute_location, open_existing_store
from covey.limits.storage import SCARCE_PART

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.loop.runtime import AgentRole
    from covey.ports import PiecewiseStore


_CONDITION = "vault"


def note_vault_place(device: Device, named: str | None) -> None:
    """Note where the collector of this device lands telemetry, for who looks at it; None is the configured place."""
    place = absolute_location(named) if named else ""
    before, _ = device.store.conditions.values().get(_CONDITION, ("", 0))
    if place != before:
        with device.store.transaction():
            device.store.conditions.set(_CONDITION, place, device.clock.wall_us())


def vault_place(device: Device) -> str:
    """Return it: s3://BUCKET/PREFIX, or a directory, which is below the state's where it is not absolute."""
    noted, _ = device.store.conditions.values().get(_CONDITION, ("", 0))
    return noted or str(device.config.vault.location)


def open_vault_place(device: Device, vault: str | None) -> PiecewiseStore:
    """Return where a device lands telemetry; one that has no vault yet makes nothing before the place has answered.

    Raises:
        ConfigurationError: there can be none at this place.
        StorageError: it refused, or was not reached.
    """
    from covey.adapters.objects.location import open_vault_store
    from covey.core.ids import NODE_ID_BYTES, VAULT_ID_BYTES, NodeId, VaultId
    from covey.core.vault.entries import manifest_key

    location = vault or str(device.config.vault.location)
    objects = open_vault_store(location, Path.cwd() if vault else device.folder.path)
    if not device.folder.has_vault_key:
        objects.get(manifest_key(VaultId(bytes(VAULT_ID_BYTES)), NodeId(bytes(NODE_ID_BYTES))), 1)
    return objects


def _is_nearly_full(location: str, folder: Path) -> bool:
    """Return whether the disk of a folder's vault is nearly full; an object store has room."""
    path = folder / location
    if "://" in location or not path.exists():
        return False
    usage = shutil.disk_usage(path)
    return usage.free * SCARCE_PART < usage.total


def collector_roles(device: Device, vault: str | None) -> list[AgentRole]:
    """Return the collector, and what mends its vault.

    The collector says where it lands telemetry: a place that a person names, or the configured one. An object store
    checks by itself what it holds, and asks money for each look: only a folder is looked through.
    """
    from covey.app.telemetry.collector import Collector
    from covey.app.telemetry.mending import VaultMending
    from covey.app.telemetry.node_keys import NodeKeys

    location, objects = vault or str(device.config.vault.location), open_vault_place(device, vault)
    identity = device.node.identity
    key_file = device.folder.vault_key(identity)
    key_file.draw(device.clock.wall_us())
    collector = Collector(
        identity,
        NodeKeys(identity, key_file, device.store, objects, secrets.token_bytes),
        device.store,
        objects,
        secrets.token_bytes,
        int(device.config.vault.segment_seconds * 1e6),
        report,
        lambda: _is_nearly_full(location, device.folder.path),
    )
    note_vault_place(device, vault)
    report("info", f"storing telemetry in {location}; other readers need its keys: covey vault export-key")
    if "://" in location:
        return [collector]
    mirrors = device.config.vault.mirrors
    copies = [(each, lambda each=each: open_existing_store(absolute_location(each))) for each in mirrors]
    return [collector, VaultMending(collector, device.store, copies, report)]
