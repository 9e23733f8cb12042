"""Batches of landed messages that a door sends; each batch keeps its id when it is sent again.

1. A batch is planned by its position in the vault: positions are never reused, and merging segments moves none.
2. A batch is committed before it is sent, and its position advances in the commit after it was accepted. So it arrives
   at least once, and a receiver that remembers ids has it once.
3. What cannot be sent is skipped with a record of it (`DoorGap`), and delays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from covey.core import crypto
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import Alarm, ClockKind
from covey.core.wire import cbor

_ID_BYTES = 16


class LandedPosition(NamedTuple):
    """A message of a node's: the position of its segment, and the place among the messages there."""

    number: int
    within: int = 0


class DoorReading(NamedTuple):
    """A reading: microseconds since 1970 by the clock that its message tells of."""

    name: str
    unit: str
    at_us: int
    value: float | bool | str | bytes


class DoorWindow(NamedTuple):
    """A window of a summary: numbers of one series that a full outbox has thinned. Times as a reading's."""

    name: str
    unit: str
    first_us: int
    last_us: int
    readings: int
    total: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DoorMessage:
    """A landed telemetry message; `id` is constant, whichever collector has it and at any position."""

    id: str
    author: DeviceKey
    group: str
    received_at_us: int
    clock: ClockKind
    readings: tuple[DoorReading, ...]
    alarm: Alarm | None = None
    """What all readings say where they are alarms."""
    windows: tuple[DoorWindow, ...] = ()
    """What is left of thinned readings; such a message has no others."""

    def is_backlog(self, reading: DoorReading, now_us: int, backlog_us: int) -> bool:
        """Say whether a reading is late; what a clock says that nobody has set counts from when it landed."""
        at_us = self.received_at_us if self.clock is ClockKind.UNSYNCHRONISED else reading.at_us
        return now_us - at_us > backlog_us


@dataclass(frozen=True, slots=True)
class DoorGap:
    """Positions of a node's, from `first` to `last`, of which something was not sent on, and why."""

    node: str
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What one batch holds: the messages of a node from `first` up to `end`, which it does not hold."""

    node: str
    first: LandedPosition
    end: LandedPosition


def batch_id(door: str, messages: Iterable[DoorMessage]) -> str:
    """Return the id of what these messages are to a door, in hex: of a plan the same each time, of others another."""
    return crypto.digest(b"covey/1 door", cbor.encode([door, *(each.id for each in messages)]))[:_ID_BYTES].hex()


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A member of this device's groups: its label, which may be hostile, and whether it is there or was never seen."""

    label: str
    is_there: bool


@dataclass(frozen=True, slots=True)
class DoorBatch:
    """A batch on its way out. `labels` are the devices', as their group has them, and may be hostile."""

    id: str
    door: str
    sent_at_us: int
    backlog_us: int
    messages: tuple[DoorMessage, ...]
    labels: dict[DeviceKey, str]

    def is_backlog(self, message: DoorMessage, reading: DoorReading) -> bool:
        """Say whether a reading is older than the door's setting allows of a live one."""
        return message.is_backlog(reading, self.sent_at_us, self.backlog_us)

    @property
    def readings(self) -> int:
        """How many there are."""
        return sum(len(each.readings) for each in self.messages)
