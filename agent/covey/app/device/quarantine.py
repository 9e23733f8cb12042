"""Messages in quarantine: authentic ones that could not be used, and ones that no relay takes."""

from __future__ import annotations

from typing import Any

from covey.app.device.device import Device
from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import device_name, printable
from covey.core.link.queued import Quarantined
from covey.core.wire.message import read_message
from covey.errors import LocalError, OutboxFullError


def pick_held(device: Device, number: str) -> Quarantined:
    """Return the message with a number.

    Raises:
        LocalError: there is none.
    """
    found = next((each for each in device.store.quarantine.entries() if str(each.id) == number), None)
    if found is None:
        raise LocalError(f"the quarantine has no message {number}", hint="'covey message quarantine' lists them")
    return found


def about(device: Device, held: Quarantined) -> dict[str, Any]:
    """Return what is known of a message, as JSON values."""
    message = read_message(held.message, verify=False)
    outgoing = held.recipient is not None
    other = message.recipient if outgoing else message.author
    return {
        "number": held.id,
        "way": "out" if outgoing else "in",
        "device": device_name(other),
        "label": printable(DeviceLabels(device.node.groups.joined()).label(other)),
        "type": message.type.name.lower(),
        "why": held.code,
        "bytes": len(held.message),
        "stored_at_us": held.stored_at_us,
    }


def retry(device: Device, held: Quarantined) -> None:
    """Send a message, or deal with it, once more.

    Raises:
        OutboxFullError: there is no room for it.
    """
    with device.store.transaction():
        if not device.node.export.release(held, device.now()):
            raise OutboxFullError(
                "the outbox has no room for the message now", hint="'covey status' shows what fills it"
            )
        device.store.quarantine.remove(held.id)


def delete(device: Device, held: Quarantined) -> None:
    """Delete a message permanently."""
    with device.store.transaction():
        device.store.quarantine.remove(held.id)
        device.store.counters.count("quarantine_dropped")
