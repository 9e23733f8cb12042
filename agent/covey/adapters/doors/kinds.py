"""The kinds of doors; each is loaded when the configuration has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from covey.config.doors import HomeAssistant, Otlp, Webhook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covey.config.doors import DoorEntry
    from covey.core.ids import DeviceKey
    from covey.core.telemetry.doors import DoorBatch, KnownDevice
    from covey.core.telemetry.drops import Drop


class Door(Protocol):
    """Where batches go."""

    def note_devices(self, devices: Mapping[DeviceKey, KnownDevice]) -> None:
        """Take note of who is in the fleet now; raises as `send`."""

    def send(self, batch: DoorBatch) -> Mapping[Drop, int]:
        """Send a batch, and return when it was taken: how many readings were left out for good, or cut, by reason.

        Raises:
            DoorError: it was not.
            ConfigurationError: a secret or a certificate cannot be used.
            StorageError: a file cannot be read.
        """

    def idle(self) -> None:
        """Do what is left to do while there is nothing to send; raises as `send`."""

    def close(self) -> None:
        """Let go of the receiver."""


def open_door(entry: DoorEntry, folder: Path) -> Door:
    """Return the door of an entry; nothing is sent yet. `folder` is that of the state.

    Raises:
        ConfigurationError: what is configured cannot be used.
    """
    where = f"door {entry.name}"
    match entry.options:
        case HomeAssistant() as options:
            from covey.adapters.doors.home_assistant import HomeAssistantDoor

            return HomeAssistantDoor(options, entry.name, where, folder)
        case Otlp() as options:
            from covey.adapters.doors.otlp import OtlpDoor

            return OtlpDoor(options, where, folder)
        case Webhook() as options:
            from covey.adapters.doors.webhook import WebhookDoor

            return WebhookDoor(options, where, folder)
