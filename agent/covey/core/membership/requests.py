"""Invitations to further groups, between devices that share one already (docs/protocol/groups.md, "Pairing").

The inviter makes an invite for the invited device alone, and sends it. There a person accepts it, which is a join like
any other, or declines it, of which nobody is notified. A declined group stays declined, whichever device invites to it
again, until the person asks to join it or reconsiders; the newest invitation is kept for that, hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.membership.events import GroupInvited
from covey.core.membership.groups import Groups
from covey.core.membership.joining import Joining
from covey.core.pairing.invite import SECRET_BYTES, Invite
from covey.core.pairing.pending import GroupRequest
from covey.core.pairing.preview import PREVIEW_BYTES, GroupDescription, GroupPreview
from covey.core.wire import cbor
from covey.core.wire.message import Message
from covey.errors import InviteError, LimitError, LocalError, NotAMemberError
from covey.limits.pairing import (
    GROUP_REQUEST_US,
    INVITE_REQUEST_US,
    MAXIMUM_GROUP_REQUESTS,
    MAXIMUM_GROUP_REQUESTS_OF_ONE,
    PREVIEWED_MEMBERS,
)

if TYPE_CHECKING:
    from covey.core.records.groups import RequestRecords

_INVITE_BYTES = 128 + PREVIEW_BYTES


@dataclass(frozen=True, slots=True)
class GroupInvite:
    """The body of a GROUP_INVITE message, whose group id is the new group's."""

    secret: bytes = field(repr=False)
    noise_public: NoisePublic
    expires_at_us: int
    preview: GroupPreview

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([self.secret, self.noise_public, self.expires_at_us, self.preview.to_wire()])

    @classmethod
    def from_wire(cls, body: bytes) -> GroupInvite:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        secret, noise_public, expires_at_us, preview = cbor.record(
            cbor.decode_growing(body, _INVITE_BYTES),
            "group invite",
            cbor.octets(SECRET_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.uint(),
            GroupPreview.from_wire,
        )
        crypto.check_noise_key(noise_public)
        return cls(secret, noise_public, expires_at_us, preview)


def may_invite(groups: Groups, author: DeviceKey) -> None:
    """Check that a device may invite this one, before anything of its message is read.

    Raises:
        NotAMemberError: it shares no group with this device.
    """
    if groups.shares_nothing_with(author):
        raise NotAMemberError("the invitation comes from an unknown device")


def invite_member(
    groups: Groups,
    joining: Joining,
    group_id: GroupId,
    member: DeviceKey,
    capabilities: tuple[str, ...],
    described: GroupDescription,
    now_us: int,
    *,
    may_be_member: bool = False,
) -> GroupInvite:
    """Make an invite to a group, as it is described, for a device of another group that both are in.

    `may_be_member`: also where the group lists it, as it may have lost its state.

    Raises:
        LocalError: it is a board, no member of any group that this device is in, or of that one already; or this device
            may not let it in.
        UnknownGroupError: this device is not in the group.
    """
    known = [found for group in groups.joined() if (found := group.member(member)) is not None]
    if not known:
        raise LocalError(
            "that device shares no group with this one", hint="use 'covey invite' to let in an unknown device"
        )
    if known[0].is_board:
        raise LocalError("only a board's gateway can add it", hint="on the gateway: covey mcu enrol")
    manifest = groups.group(group_id)
    if manifest.member(member) is not None and not may_be_member:
        raise LocalError("that device is already in that group")
    invite = joining.invite(group_id, capabilities, "", now_us, GROUP_REQUEST_US, member)
    shown = preview_of(manifest, described)
    return GroupInvite(invite.secret, invite.inviter.noise_public, invite.expires_at_us, shown)


def preview_of(manifest: GroupManifest, described: GroupDescription) -> GroupPreview:
    """Return what an invitation to a group shows of it: of more members than that those that came first."""
    eldest = sorted(manifest.members, key=lambda each: (each.since, each.keys.signing_public))[:PREVIEWED_MEMBERS]
    shown = tuple((each.keys.signing_public, each.label) for each in eldest)
    return GroupPreview(described.title, len(manifest.members), shown, described.description, described.picture)


def receive_group_invite(groups: Groups, records: RequestRecords, message: Message, now_us: int) -> GroupInvited | None:
    """Keep an invitation for a person; return what the person should hear of it.

    Raises:
        InviteError: it has expired.
        LimitError: too many wait already.
        RemoteError: malformed.
    """
    found = GroupInvite.from_wire(message.body)
    if any(group.group_id == message.group_id for group in groups.joined()):
        return None
    if now_us > found.expires_at_us:
        raise InviteError("the invitation has expired")
    declined = records.declined()
    waiting = []
    for each in records.pending():
        same = (each.group_id, each.inviter.signing_public) == (message.group_id, message.author)
        # An expired one keeps its place for a while: else its inviter could have any number reported to the person.
        if now_us > each.expires_at_us and not 0 <= now_us - each.received_at_us < INVITE_REQUEST_US:
            records.drop(each.group_id, each.inviter.signing_public)
        elif not same and each.group_id not in declined:
            waiting.append(each.inviter.signing_public)
    most = (
        MAXIMUM_GROUP_REQUESTS_OF_ONE if len(waiting) < MAXIMUM_GROUP_REQUESTS else 1
    )  # one is there for every member
    if waiting.count(message.author) >= most:
        raise LimitError("too many invitations are waiting")
    inviter = DeviceKeys(message.author, found.noise_public)
    expires_at_us = min(found.expires_at_us, now_us + GROUP_REQUEST_US)
    request = GroupRequest(message.group_id, inviter, found.secret, expires_at_us, now_us, found.preview)
    if message.group_id in declined:
        _keep_alone(records, request)
        return None
    records.save(request)
    return GroupInvited(message.group_id, message.author)


def unanswered(groups: Groups, records: RequestRecords, now_us: int) -> list[GroupRequest]:
    """Return the invitations that a person can still answer."""
    own = {group.group_id for group in groups.joined()}
    settled = own | records.declined().keys()
    return [each for each in records.pending() if each.expires_at_us > now_us and each.group_id not in settled]


def decline(records: RequestRecords, request: GroupRequest, now_us: int) -> None:
    """Decline a group: its invitations are hidden from now on (003.20)."""
    records.decline(request.group_id, now_us)
    _keep_alone(records, request)


def _keep_alone(records: RequestRecords, request: GroupRequest) -> None:
    """Keep only the newest invitation to a declined group."""
    records.drop(request.group_id)
    records.save(request)


def as_invite(request: GroupRequest) -> Invite:
    """Return the invite that a person accepts."""
    return Invite(request.group_id, request.inviter, request.secret, request.expires_at_us, "")
