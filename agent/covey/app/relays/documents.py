"""What waits for its recipients, here and in mailboxes, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import Age, Count, DeviceName, Says


@dataclass(frozen=True, slots=True)
class InboxStatus:
    """What a mailbox keeps for one device."""

    device: DeviceName
    label: str
    blobs: Annotated[Count, Says(description="encrypted envelopes")]
    bytes: Count
    max_cursor: Annotated[Count, Says(description="last cursor given out")]
    oldest_seconds: Age | None


@dataclass(frozen=True, slots=True)
class MailboxStatus:
    """What this device keeps for others as a mailbox of some of its groups."""

    groups: Count
    blobs: Count
    bytes: Count
    maximum_bytes: Count
    hooks: Annotated[Count, Says(description="ways to wake devices")]
    inboxes: tuple[InboxStatus, ...]
    expired: Annotated[Count, Says(description="envelopes deleted because their recipient did not fetch them in time")]
    of_former_members: Annotated[Count, Says(description="envelopes deleted because their sender was removed")]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits for its recipient's acknowledgement."""

    recipient: DeviceName
    label: Annotated[str, Says(description="label of the recipient; empty if it is no longer in a group")]
    place: Annotated[int, Says(minimum=1, description="position in that queue")]
    class_: Literal["control", "data", "telemetry", "history"]
    bytes: Count
    seconds: Annotated[Count, Says(description="seconds since it was queued")]


@dataclass(frozen=True, slots=True)
class Outbox:
    """What waits: how much in all, and the oldest messages of each recipient."""

    messages: Count
    bytes: Count
    shown: tuple[WaitingMessage, ...]


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What had waited for these is kept by a mailbox, or by themselves; for those that are open nobody has said so."""

    handed_over: tuple[DeviceName, ...]
    open: tuple[DeviceName, ...]
