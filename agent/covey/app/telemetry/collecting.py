"""The collector's role, and the vault that it lands telemetry in."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.telemetry.collector import Collector
    from covey.ports import PiecewiseStore


def open_vault_place(device: Device, vault: str | None) -> PiecewiseStore:
    """Return where a device lands telemetry; one that has no vault yet makes nothing before the place has answered.

    Raises:
        ConfigurationError: there can be none at this place.
        StorageError: it refused, or was not reached.
    """
    from covey.adapters.objects.location import open_object_store
    from covey.core.ids import NODE_ID_BYTES, VAULT_ID_BYTES, NodeId, VaultId
    from covey.core.vault.entries import manifest_key

    location = vault or str(device.config.vault.location)
    objects = open_object_store(location, Path.cwd() if vault else device.folder.path)
    if not device.folder.vault_key.exists():
        objects.get(manifest_key(VaultId(bytes(VAULT_ID_BYTES)), NodeId(bytes(NODE_ID_BYTES))), 1)
    return objects


def collector_role(device: Device, vault: str | None) -> Collector:
    """Return the collector, which says where it lands telemetry: a place that a person names, or the configured one."""
    from covey.app.telemetry.collector import Collector
    from covey.app.telemetry.node_keys import NodeKeys
    from covey.app.telemetry.vault_place import note_vault_place

    location, objects = vault or str(device.config.vault.location), open_vault_place(device, vault)
    key_file, identity = device.folder.vault_key, device.node.identity
    key_file.draw(device.clock.wall_us())
    collector = Collector(
        identity,
        NodeKeys(identity, key_file, device.store, objects, secrets.token_bytes),
        device.store,
        objects,
        secrets.token_bytes,
        int(device.config.vault.segment_seconds * 1e6),
        report,
    )
    note_vault_place(device, vault)
    report("info", f"landing telemetry in {location}; the ingest needs {key_file.path}")
    return collector
