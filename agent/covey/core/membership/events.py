"""What happens to a device's groups, for whoever runs it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.policy import Action
from covey.core.ids import DeviceKey, GroupId


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """This device believes something new of a group."""

    manifest: GroupManifest
    added: tuple[Member, ...]
    removed: tuple[Member, ...]
    joined: bool
    conflict: bool


@dataclass(frozen=True, slots=True)
class RemovedFromGroup:
    """This device is no longer listed (000.21)."""

    manifest: GroupManifest


@dataclass(frozen=True, slots=True)
class GroupDestroyed:
    """A member has destroyed the group (000.22)."""

    manifest: GroupManifest
    issuer: DeviceKey


GroupEvent = GroupChanged | RemovedFromGroup | GroupDestroyed


class InvitationState(Enum):
    """What has become of an invitation to a further group."""

    SENT = "sent"
    RECEIVED = "received"
    ACCEPTED = "accepted"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class VoteCast:
    """An admin wants a member banned, a device or an invite kept out, or a ban ended; so many do, of those needed."""

    group_id: GroupId
    action: Action
    target: DeviceKey
    voter: DeviceKey
    votes: int
    needed: int


class EventRecords(Protocol):
    """What happened, for those who ask later."""

    def keep(self, event: GroupEvent, now_us: int) -> None:
        """Keep what has become of a group."""

    def invitation(self, group_id: GroupId, device: DeviceKey, state: InvitationState, now_us: int) -> None:
        """Keep what has become of an invitation of this device's, or to it; `device` is the other one."""

    def vote(self, cast: VoteCast, now_us: int) -> None:
        """Keep that somebody has voted."""


class GroupEvents:
    """What has become of groups: at once for whoever runs this device, and durably for whoever asks later."""

    def __init__(self, records: EventRecords) -> None:
        self._records = records
        self._unreported: deque[GroupEvent] = deque()

    def report(self, event: GroupEvent, now_us: int) -> None:
        """Note that it happened, inside the transaction by which it does."""
        self._unreported.append(event)
        self._records.keep(event, now_us)

    def invitation(self, group_id: GroupId, device: DeviceKey, state: InvitationState, now_us: int) -> None:
        """Note what has become of an invitation, inside the transaction by which it does."""
        self._records.invitation(group_id, device, state, now_us)

    def vote(self, cast: VoteCast, now_us: int) -> None:
        """Note that somebody has voted, inside the transaction that keeps the vote."""
        self._records.vote(cast, now_us)

    def next(self) -> GroupEvent | None:
        """Return the oldest that was not returned yet."""
        return self._unreported.popleft() if self._unreported else None


@dataclass(frozen=True, slots=True)
class GroupInvited:
    """A member of a shared group invites this device to a further one; a person has to answer (003.58)."""

    group_id: GroupId
    inviter: DeviceKey


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """The inviter has no such invite, or not for this device: the request is repeated no more."""

    group_id: GroupId
    inviter: DeviceKey


@dataclass(frozen=True, slots=True)
class JoinExpired:
    """The invite was not answered while it lived: the request is repeated no more (003.16)."""

    group_id: GroupId
    inviter: DeviceKey
