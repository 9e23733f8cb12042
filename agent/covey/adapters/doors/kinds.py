"""Open a door from its entry; its kind's module is loaded only if an entry names it (`config.doors.KINDS`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from covey.config.doors import KINDS, DoorKind, door_options
from covey.config.kinds import DOORS, PackagedOptions, named_function, opener, packaged_kind
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from covey.config.doors import DoorEntry
    from covey.core.ids import DeviceKey
    from covey.core.telemetry.door_hours import DueHour
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


@dataclass(slots=True)
class ImportedHours:
    """What became of hours: `stored` are there, `kept` are hours that the receiver had counted itself and keeps.

    `waiting` are to be sent again, `failed` says why.
    """

    stored: list[DueHour] = field(default_factory=list)
    kept: list[DueHour] = field(default_factory=list)
    waiting: list[DueHour] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class LateImport(Protocol):
    """Where hours with late readings go, of a door whose receiver records the rest by itself."""

    def send(self, hours: Iterable[DueHour], claim: Callable[[list[DueHour]], None]) -> ImportedHours:
        """Import hours; without any, only try the connection.

        `claim` is called with those parts of which the receiver has nothing, before they go.

        Raises:
            DoorError: nothing was imported.
            ConfigurationError: a secret cannot be used.
        """


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


def open_history(entry: DoorEntry, folder: Path) -> LateImport | None:
    """Return what imports late readings for a door; None where its entry has none. Nothing is sent yet.

    Raises:
        ConfigurationError: what is configured cannot be used.
    """
    kind = KINDS.get(entry.kind)
    if kind is None or not kind.history:
        return None
    opening = DoorOpening(entry.name, entry.options, f"door {entry.name}", folder)
    history: LateImport | None = named_function(kind.history)(opening)
    return history
