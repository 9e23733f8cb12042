"""A hub's recovery file that k of its operators open together: write it, approve a machine, and adopt the hub."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from covey.adapters.keys.shared_recovery import AdoptionRequest, SharedRecovery, read_request, read_shared, share
from covey.app.device.device import open_device
from covey.app.orders.operators import operators
from covey.app.relays.recovery import note_saved, portable_recovery
from covey.core.ids import DeviceKey, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.state_folder import StateFolder


def save_shared_recovery(folder: StateFolder, needed: int, write: Callable[[bytes], None]) -> SharedRecovery:
    """Write a recovery file that `needed` of the operators that this hub obeys open together; note what it contains.

    Raises:
        LocalError: there are too few operators, or too many.
        ConfigurationError: no device here, or its files are wrong.
        StorageError: a file or the database cannot be read.
    """
    with open_device(folder) as device:
        own = device.node.identity.signing_public
        found = {each.key: each.label for group in device.node.groups.joined() for each in operators(device, group)}
        found.pop(own.hex(), None)
        recovery = portable_recovery(device)
        others = [(DeviceKey(bytes.fromhex(key)), label) for key, label in sorted(found.items())]
        shared = share(
            own, device.config.label, recovery.saved_at_us, others, needed, recovery.sealed, secrets.token_bytes
        )
        write(shared.to_wire())
        note_saved(device.store, recovery)
    return shared


def shared_recovery(raw: bytes) -> SharedRecovery | None:
    """Return what a recovery file for operators says; None for another file.

    Raises:
        ConfigurationError: it is damaged.
    """
    return read_shared(raw)


def ask_operators(shared: SharedRecovery) -> AdoptionRequest:
    """Return a new request of this machine."""
    return AdoptionRequest(shared, secrets.token_bytes)


def machine_that_asks(request: str) -> str:
    """Return the fingerprint of a request, which two people compare.

    Raises:
        LocalError: it is no request.
    """
    return fingerprint(read_request(request))


def approve_adoption(folder: StateFolder, shared: SharedRecovery, request: str) -> str:
    """Return this operator's approval of a machine that wants to be the hub.

    Raises:
        LocalError: this device has no part of the file, or the request is none.
        ConfigurationError: no device here, or the file was changed.
    """
    identity = folder.identity()
    try:
        return shared.approve(identity, request, secrets.token_bytes)
    finally:
        identity.wipe()
