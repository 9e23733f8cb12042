"""Events that a node returns to the code that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from covey.core.content.events import FileArrived, FileDamaged, FileRefused
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.events import (
    GroupChanged,
    GroupDestroyed,
    GroupInvited,
    InviteRequested,
    JoinExpired,
    JoinRefused,
    RemovedFromGroup,
    VoteCast,
)


@dataclass(frozen=True, slots=True)
class BlobArrived:
    """A member's blob lies in the inbox."""

    author: DeviceKey
    size: int


@dataclass(frozen=True, slots=True)
class HistoryGrew:
    """A member has brought operations that were not here."""

    group_id: GroupId
    sender: DeviceKey
    operations: int


@dataclass(frozen=True, slots=True)
class HistoryForked:
    """An author has written two operations under one number: both are kept, and prove it."""

    group_id: GroupId
    author: DeviceKey


@dataclass(frozen=True, slots=True)
class EnvelopeDropped:
    """An envelope broke a rule. `author` is known only where the signature verified."""

    code: str
    reason: str
    author: DeviceKey | None


@dataclass(frozen=True, slots=True)
class RollbackDetected:
    """A recipient holds messages that this state never queued: it is a copy of an earlier one. A new life begins."""

    recipient: DeviceKey


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A recipient has set messages aside, as its build does not know a type or a field that they need."""

    recipient: DeviceKey
    messages: int


Happening = (
    GroupChanged
    | RemovedFromGroup
    | GroupDestroyed
    | GroupInvited
    | InviteRequested
    | JoinExpired
    | JoinRefused
    | VoteCast
    | HistoryGrew
    | HistoryForked
    | RollbackDetected
    | NotUnderstood
    | FileArrived
    | FileDamaged
    | FileRefused
)
"""What is told one by one."""

Event = Happening | BlobArrived | EnvelopeDropped
