"""Admitting devices to a group, and asking to be admitted.

A device with an invite is admitted by the device that made it, and believes no other. A device whose keys are known is
admitted at once, by an invite for it alone. A public group is joined with a manifest that a member sends
(`public_joins.py`). `membership.py` applies manifests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import DeviceKeys, Identity
from covey.core.group.manifest import Member
from covey.core.group.messages import GroupSend
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.invitations import check_may_let_in
from covey.core.membership.membership import Membership
from covey.core.pairing.invite import Invite, JoinRequest
from covey.core.pairing.pending import OpenInvite
from covey.core.pairing.uri import GroupUri
from covey.core.wire.message import Message
from covey.errors import InviteError, LocalError
from covey.limits.pairing import ADMISSION_US, INVITE_US

if TYPE_CHECKING:
    from covey.core.records.groups import InviteRecords


class Joining:
    """How devices come into the groups of one device, and it into others'."""

    def __init__(self, identity: Identity, membership: Membership, invites: InviteRecords) -> None:
        self._own = identity.signing_public
        self._membership = membership
        self._groups = membership.groups
        self._invitations = membership.invitations
        self._invites = invites

    def invite(
        self,
        group_id: GroupId,
        capabilities: tuple[str, ...],
        relay_url: str,
        now_us: int,
        lifetime_us: int = INVITE_US,
        bound_to: DeviceKey | None = None,
        prepared_for: str | None = None,
    ) -> Invite:
        """Open an invite to a group: single use, ten minutes by default, for any device or one.

        A device with an invite `prepared_for` it, in a file, is admitted together with others (`gathering.py`).

        Raises:
            LocalError: this device may not let others in; too many capabilities or open invites.
            UnknownGroupError: this device is not in the group.
        """
        group = self._groups.group(group_id)
        check_may_let_in(group, self._own, bound_to)
        members = {each.keys.signing_public for each in group.members}
        return self._invitations.open(
            group_id, capabilities, relay_url, now_us, lifetime_us, bound_to, prepared_for, members=members
        )

    def add_device(
        self, group_id: GroupId, newcomer: Member, relay_url: str, now_us: int
    ) -> tuple[Invite, list[GroupSend]]:
        """Add a device by its keys; the invite returned is its alone, and makes it believe this device's answer.

        Raises:
            LocalError: it is a member already, one of its keys is in the group, or the group does not permit it.
            UnknownGroupError: this device is not in the group.
        """
        if self._groups.group(group_id).member(newcomer.keys.signing_public) is not None:
            raise LocalError(f"device {newcomer.name} is already a member")
        check_may_let_in(self._groups.group(group_id), self._own, newcomer.keys.signing_public)
        invite = self._invitations.open(group_id, newcomer.capabilities, relay_url, now_us, ADMISSION_US)
        opened = OpenInvite(invite.secret_hash, group_id, invite.expires_at_us, newcomer.capabilities, None)
        try:
            sends = self.let_in(opened, newcomer, now_us)
        except InviteError as error:
            raise LocalError(str(error)) from error
        if newcomer.is_board:  # it follows no manifests: and takes nothing of the link behind one
            sends = [each for each in sends if each.recipient != newcomer.keys.signing_public]
        return invite, sends

    def begin_join(self, invite: Invite, now_us: int) -> None:
        """Remember that this device asks to join, and whose answer alone counts.

        Raises:
            LocalError: expired, our own invite, or a group that this device is in.
        """
        if any(group.group_id == invite.group_id for group in self._groups.joined()):
            raise LocalError("this device is already in that group")
        self._invitations.ask(invite, now_us)
        self._groups.readdress()

    def begin_visit(self, uri: GroupUri, label: str, now_us: int) -> None:
        """Remember that this device asks members of a public group for its manifest, to let itself in.

        Raises:
            LocalError: the URI names this device, or it is in the group.
        """
        if any(group.group_id == uri.group_id for group in self._groups.joined()):
            raise LocalError("this device is already in that group")
        self._invitations.ask_members(uri, label, now_us)
        self._groups.readdress()

    def receive_visit(self, message: Message, now_us: int) -> list[GroupSend] | None:
        """Give a visitor the manifest of a public group; None where it has to ask again (`public_joins.py`, rule 2)."""
        group, request = self._groups.group(message.group_id), JoinRequest.from_wire(message.body)
        visitor = DeviceKeys(message.author, request.noise_public)
        if not self._membership.public_joins.answers(group, visitor, self._groups.addresses, now_us):
            return None
        self._groups.readdress()
        return [self._membership.spreading.to_visitor(group, message.author)]

    def admit(self, message: Message, invite: OpenInvite, now_us: int) -> list[GroupSend]:
        """Add the bearer of an invite to the group (000.18, 001.07).

        Raises:
            InviteError: the group is full, or it has one of the keys already.
        """
        request = JoinRequest.from_wire(message.body)
        member = Member(DeviceKeys(message.author, request.noise_public), request.label, extensions=request.extensions)
        return self.let_in(invite, member, now_us)

    def let_in(self, invite: OpenInvite, newcomer: Member, now_us: int) -> list[GroupSend]:
        """Use an invite for a device, and give it the group (000.19).

        Raises:
            InviteError: the group is full, or it has one of the keys already.
        """
        group_id, joiner = invite.group_id, newcomer.keys.signing_public
        sends: list[GroupSend] = []
        try:
            if self._groups.group(group_id).member(joiner) is None:
                if invite.used_by is not None:
                    raise InviteError("the invite was used, and its device is no longer a member")
                if self._groups.group(group_id).ban(DeviceKey(invite.secret_hash)) is not None:
                    raise InviteError("the group has banned the invite")
                member = replace(newcomer, capabilities=invite.capabilities)
                sends = self._membership.change(group_id, lambda draft, _: draft.adding(member), now_us)
                self._invites.use(invite.secret_hash, joiner)
            elif [head.issuer for head in self._groups.trust(group_id).heads()] != [self._own]:
                sends = self._membership.change(group_id, lambda draft, _: draft, now_us)  # it believes none but ours
            if invite.bound_to == joiner:
                self._invites.use(invite.secret_hash, joiner)
        except LocalError as error:
            raise InviteError(str(error)) from error
        trust, secret = self._groups.trust(group_id), self._groups.secret(group_id)
        return [*sends, self._membership.spreading.to_newcomer(trust, joiner, secret)]
