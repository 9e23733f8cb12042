"""The kinds of doors; each is loaded when the configuration has one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from covey.config.doors import DoorEntry
    from covey.core.doors import DoorBatch


class Door(Protocol):
    """Where batches go."""

    def send(self, batch: DoorBatch) -> None:
        """Send a batch, and return when it was taken.

        Raises:
            DoorError: it was not.
            ConfigurationError: a secret or a certificate cannot be used.
            StorageError: a file cannot be read.
        """

    def close(self) -> None:
        """Let go of the receiver."""


def open_door(entry: DoorEntry, folder: Path) -> Door:
    """Return the door of an entry; nothing is sent yet. `folder` is that of the state.

    Raises:
        ConfigurationError: what is configured cannot be used.
    """
    from covey.adapters.doors.webhook import WebhookDoor

    return WebhookDoor(entry.options, f"door {entry.name}", folder)
