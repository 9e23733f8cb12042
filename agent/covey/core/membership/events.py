"""Events of a device's groups."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.policy import Action
from covey.core.ids import DeviceKey, GroupId

if TYPE_CHECKING:
    pass


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
    """The state of an invitation to a further group."""

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


@dataclass(frozen=True, slots=True)
class GroupInvited:
    """A member of a shared group invites this device to a further one; a person has to answer (003.58)."""

    group_id: GroupId
    inviter: DeviceKey


@dataclass(frozen=True, slots=True)
class InviteRequested:
    """A device of a shared group asks to be let into another one; a person decides."""

    group_id: GroupId
    device: DeviceKey


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """The inviter has no such invite, or not for this device: the request is not repeated."""

    group_id: GroupId
    inviter: DeviceKey


@dataclass(frozen=True, slots=True)
class JoinExpired:
    """The invite expired without an answer: the request is not repeated (003.16)."""

    group_id: GroupId
    inviter: DeviceKey
