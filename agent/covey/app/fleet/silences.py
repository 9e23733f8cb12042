"""Devices whose alerts a person has silenced for some time: problems are found and shown, but sent to nobody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covey.errors import LocalError, UsageError
from covey.limits.alerts import SILENCE_US_MAX, SILENCED_DEVICES

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.ids import DeviceKey

_CONDITION = "silenced alerts"


def silenced(device: Device) -> dict[str, int]:
    """Return the silenced devices by their keys in hex, and until when, in microseconds since 1970."""
    text, _ = device.store.conditions.values().get(_CONDITION, ("", 0))
    now_us = device.clock.wall_us()
    return {key: until_us for key, until_us in json.loads(text or "{}").items() if now_us < until_us}


def silence(device: Device, key: DeviceKey, for_us: int) -> int:
    """Send no alerts about a device for some time; return until when.

    Raises:
        UsageError: the time is too long.
        LocalError: too many devices are silenced.
    """
    if not 0 < for_us <= SILENCE_US_MAX:
        raise UsageError("a silence lasts at most 30 days", hint="for example --for 4h")
    now_us = device.clock.wall_us()
    with device.store.transaction():
        found = silenced(device) | {key.hex(): now_us + for_us}
        if len(found) > SILENCED_DEVICES:
            raise LocalError(
                f"{SILENCED_DEVICES} devices are silenced already",
                hint="to silence all of a kind: covey config set alerts.silent_minutes 0",
            )
        device.store.conditions.set(_CONDITION, json.dumps(found), now_us)
    return now_us + for_us


def end_silence(device: Device, key: DeviceKey) -> None:
    """Send alerts about a device again."""
    with device.store.transaction():
        found = silenced(device)
        found.pop(key.hex(), None)
        device.store.conditions.set(_CONDITION, json.dumps(found), device.clock.wall_us())
