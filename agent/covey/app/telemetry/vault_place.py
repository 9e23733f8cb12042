"""Where a device's vault is: the place that its collector was given on its command line, or else the configured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.objects.location import absolute_location

if TYPE_CHECKING:
    from covey.app.device.device import Device

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
