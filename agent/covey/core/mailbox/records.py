"""What mailboxes and those who use them read and write of the durable state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from covey.core.mailbox.messages import Hook


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
