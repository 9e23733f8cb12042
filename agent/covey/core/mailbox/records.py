"""What mailboxes and those who use them read and write of the durable state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from covey.core.ids import DeviceKey, Place
from covey.core.link.records import CounterRecords, QueuedRecords
from covey.core.mailbox.messages import BlobEntry, Hook, Push
from covey.core.wire.sequences import Range


class BlobRefusal(Enum):
    """Why a mailbox does not keep a blob."""

    INBOX_FULL = "the inbox is full"
    SENDER_FULL = "one sender has filled its share of the inbox"
    FULL = "the mailbox is full"


@dataclass(frozen=True, slots=True)
class Kept:
    """A blob as a mailbox keeps it; `is_new`: since this PUSH."""

    cursor: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class InboxState:
    """How one device's inbox stands: the last cursor that was given, and how much waits in it."""

    max_cursor: int = 0
    blobs: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WakeHook:
    """How a device wants to be woken."""

    kind: Hook
    target: str

    @property
    def by_topic(self) -> bool:
        """Whether it is a publish at the mailbox's own relays."""
        return self.kind is Hook.MQTT


class MailboxInboxRecords(Protocol):
    """The inboxes that a mailbox keeps. Cursors of an inbox are given without a gap, and never twice."""

    def relay_id(self) -> str:
        """Return by what devices know this state of the mailbox: another one when it was restored."""

    def put(self, sender: DeviceKey, push: Push, ttl_us: int, now_us: int, maximum_bytes: int) -> Kept | BlobRefusal:
        """Keep a blob under the next cursor of its recipient's inbox; one that is there keeps its own."""

    def state(self, device: DeviceKey) -> InboxState:
        """Return how a device's inbox stands."""

    def after(self, device: DeviceKey, cursor: int, last: int, limit: int, size: int) -> tuple[list[BlobEntry], bool]:
        """Return what has a cursor above one and up to another, and whether that was cut short.

        At most `limit` blobs of at most `size` bytes in all, but one in any case.
        """

    def delete(self, device: DeviceKey, cursors: Range) -> int:
        """Let go of some cursors of a device's inbox; return how many blobs that were."""

    def forget(self, device: DeviceKey) -> None:
        """Let go of a device's inbox and hooks, for good."""

    def devices(self) -> list[DeviceKey]:
        """Return the devices that have an inbox here."""

    def expire(self) -> int:
        """Let go of some blobs that have outlived their time, by this state's age; return how many that were."""

    def add_hook(self, device: DeviceKey, hook: WakeHook) -> bool:
        """Remember how a device wants to be woken; False where it has too many hooks."""

    def remove_hook(self, device: DeviceKey, hook: WakeHook) -> None:
        """Forget a hook."""

    def hooks(self, device: DeviceKey) -> list[WakeHook]:
        """Return how a device wants to be woken."""


class MailboxUseRecords(Protocol):
    """What a device knows of the mailboxes that it uses."""

    def position(self, mailbox: DeviceKey) -> tuple[str, int]:
        """Return (the mailbox's state, up to which cursor of it all is dealt with); an empty one and 0 at first."""

    def set_position(self, mailbox: DeviceKey, relay_id: str, cursor: int) -> None:
        """Note up to which cursor all is dealt with."""

    def pushed_upto(self, recipient: DeviceKey, mailbox: DeviceKey) -> tuple[Place, int]:
        """Return (up to which place of a queue a mailbox has said that it keeps all, when the first of it was)."""

    def set_pushed(self, recipient: DeviceKey, mailbox: DeviceKey, upto: Place, since_us: int) -> None:
        """Note up to which place of a queue a mailbox has said that it keeps all, the first of it at a time."""

    def forget_pushed(self, mailbox: DeviceKey) -> None:
        """Forget what a mailbox has said that it keeps."""

    def lifetime_left_us(self, recipient: DeviceKey, place: Place) -> int | None:
        """Return how much longer a message may wait by this state's age, 0 at least; None: for ever."""

    def handed_over(self) -> dict[DeviceKey, Place]:
        """Return up to which place of each queue a person wants all at a mailbox, whoever is silent."""


class MailboxRecords(MailboxInboxRecords, MailboxUseRecords, Protocol):
    """Both."""


class ExchangeRecords(Protocol):
    """What the exchange needs beside its own tables."""

    @property
    def mailbox(self) -> MailboxRecords:
        """What mailboxes and those who use them keep."""

    @property
    def outbox(self) -> QueuedRecords:
        """Messages that wait for their recipients."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""
