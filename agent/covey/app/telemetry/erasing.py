"""Erasing from this device's part of a vault: what one device has sent, or what is old."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from covey.app.telemetry.vault import alone, node_vault
from covey.core.erasing import ErasureDue
from covey.core.ids import KEY_BYTES, DeviceKey, OperationId, from_hex
from covey.errors import MalformedError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.telemetry.eraser import Erased
    from covey.app.telemetry.vault_survey import Progress

_DAY_US = 86_400_000_000


def due_of_author(device: Device, beginning: str) -> ErasureDue:
    """Return what is to go of the one device whose key begins so: a member of a group, or any by its whole key.

    Raises:
        UsageError: no key, or none or several begin so.
    """
    until_us = device.clock.wall_us()
    try:
        if len(beginning) == 2 * KEY_BYTES:
            return ErasureDue(DeviceKey(from_hex(beginning, KEY_BYTES)), until_us)
    except MalformedError:
        raise UsageError("not a device's key", hint="64 hex digits") from None
    members = {member.keys.signing_public for group in device.node.groups.joined() for member in group.members}
    found = [key for key in members if key.hex().startswith(beginning)]
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} members of this device's groups have a key that begins with {beginning[:64]!r}",
            hint="give the whole key: 'author' in 'covey vault readings --json'",
        )
    return ErasureDue(found[0], until_us)


def due_before(device: Device, days: int) -> ErasureDue:
    """Return what is to go that is older than so many days."""
    return ErasureDue(None, max(0, device.clock.wall_us() - days * _DAY_US))


def erase_from_vault(
    device: Device,
    location: str | None,
    due: ErasureDue,
    note: OperationId | None,
    progress: Progress,
    *,
    dry_run: bool,
) -> Erased:
    """Erase from this device's part of a vault what is due, or return what would be erased.

    Raises:
        LocalError: this device has no vault's keys, or another command writes its segments anew.
        LimitError: too many devices' data was erased already.
        StorageError: the store refused; the rest follows when it is said again.
    """
    from covey.app.telemetry.eraser import Eraser

    node = node_vault(device, location, prepare=not dry_run)
    eraser, now_us = Eraser(node, device.store, secrets.token_bytes), device.clock.wall_us()
    if dry_run:
        return eraser.plan(due, now_us, progress)
    with alone(device):
        return eraser.erase(due, note, now_us, progress)
