"""Open a door from its entry; its kind's module is loaded only if an entry names it (`config.doors.KINDS`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from covey.config.doors import KINDS, DoorKind, door_options
from covey.config.kinds import DOORS, PackagedOptions, opener, packaged_kind
from covey.errors import ConfigurationError

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
        """Send a batch; once accepted, return how many readings were dropped permanently or shortened, by reason.

        Raises:
            DoorError: it was not.
            ConfigurationError: a secret or a certificate cannot be used.
            StorageError: a file cannot be read.
        """

    def idle(self) -> None:
        """Do what is left to do while there is nothing to send; raises as `send`."""

    def close(self) -> None:
        """Release the receiver."""


@dataclass(frozen=True, slots=True)
class DoorOpening:
    """What a door is opened with: its settings, where they stand for messages, and the folder of the state."""

    name: str
    options: Any
    where: str
    folder: Path


def open_door(entry: DoorEntry, folder: Path) -> Door:
    """Return the door of an entry; nothing is sent yet. `folder` is that of the state.

    Raises:
        ConfigurationError: what is configured cannot be used. Packages raise what they like.
    """
    kind, options, where = KINDS.get(entry.kind), entry.options, f"door {entry.name}"
    if isinstance(options, PackagedOptions):
        kind = packaged_kind(DOORS, entry.kind, DoorKind)
        if kind is None:
            raise ConfigurationError(f"{where}: no installed package provides kind {entry.kind}")
        options = door_options(kind, options.keys, where)
    assert kind is not None
    door: Door = opener(kind)(DoorOpening(entry.name, options, where, folder))
    return door
