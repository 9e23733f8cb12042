"""How messages wait in the queues: their classes and lanes, and the rows that describe them.

Each lane to a recipient has a window with its own pace and clock (`windows.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from covey.core.ids import BatchNumber, DeviceKey, LinkSeq, Place
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import Range
from covey.limits.link import (
    LINK_WINDOW_ALARM_MESSAGES,
    LINK_WINDOW_CONTROL_MESSAGES,
    LINK_WINDOW_HISTORY_MESSAGES,
    LINK_WINDOW_LIVE_MESSAGES,
    LINK_WINDOW_MESSAGES,
)


class Lane(IntEnum):
    """Which window of a recipient a message goes through."""

    CONTROL = 0
    HISTORY = 1
    BULK = 2
    """Data and telemetry."""
    LIVE = 3
    """Telemetry that is queued while a backlog of bulk waits: it overtakes that."""
    ALARM = 4
    """Readings that are alarms: only control messages go before them."""

    @property
    def window_messages(self) -> int:
        """How many messages may be in flight."""
        return _WINDOWS[self]


_WINDOWS = {
    Lane.CONTROL: LINK_WINDOW_CONTROL_MESSAGES,
    Lane.HISTORY: LINK_WINDOW_HISTORY_MESSAGES,
    Lane.BULK: LINK_WINDOW_MESSAGES,
    Lane.LIVE: LINK_WINDOW_LIVE_MESSAGES,
    Lane.ALARM: LINK_WINDOW_ALARM_MESSAGES,
}


class MessageClass(IntEnum):
    """How an outbox treats a message when room is short."""

    CONTROL = 0
    DATA = 1
    TELEMETRY = 2
    HISTORY = 3
    ALARM = 4
    """Telemetry that is neither dropped nor thinned, and goes ahead of other telemetry: see `alarm_of`."""


_CLASSES = {
    MessageType.BLOB: MessageClass.DATA,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.SUMMARY: MessageClass.TELEMETRY,
    MessageType.FORWARD: MessageClass.TELEMETRY,
    MessageType.REDIRECTED: MessageClass.TELEMETRY,
    MessageType.OPERATIONS: MessageClass.HISTORY,
    MessageType.HISTORY_GRAPH: MessageClass.HISTORY,
}


def class_of(kind: MessageType) -> MessageClass:
    """Return how the messages of a type are treated: all that has no class of its own is control.

    Batches of alarms are told from others by their bodies (`SendQueue.queue`).
    """
    return _CLASSES.get(kind, MessageClass.CONTROL)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message that was set aside: on its way to a recipient, or, without one, when it had come."""

    id: int
    code: str
    stored_at_us: int
    recipient: DeviceKey | None
    message: bytes


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """What the outbox holds for one recipient."""

    recipient: DeviceKey
    queued: int
    acknowledged: int
    oldest_at_us: int | None


@dataclass(frozen=True, slots=True)
class Batches:
    """Which batches of this device a message of telemetry brings, and whether it may be thinned.

    `number` is a batch's own, or the first one of a summary, whose `numbers` are all that it replaces. `window_us` is a
    summary's, 0 for a batch; None for what cannot be thinned. What is `whole` is neither thinned nor dropped.
    """

    number: BatchNumber | None = None
    numbers: tuple[Range, ...] = ()
    window_us: int | None = None
    whole: bool = False


NO_BATCHES = Batches()


@dataclass(frozen=True, slots=True)
class Thinnable:
    """A message that may be thinned; `lifetime_us` is what is left of it."""

    place: Place
    message: bytes = field(repr=False)
    lifetime_us: int | None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A message that has left its place; `lifetime_us` is what is left of it. See `Batches` for `whole`."""

    message: bytes
    lifetime_us: int | None
    whole: bool = False
    is_alarm: bool = False


class Imprint(NamedTuple):
    """What is kept of a message that has come."""

    link_seq: LinkSeq
    seq: int
    imprint: bytes
