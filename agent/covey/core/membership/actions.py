"""Changes of this device's groups by a person or a role; messages about them are queued in the same transaction.

Every call writes, so it belongs inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.features import own_announcement
from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import GroupSend
from covey.core.group.policy import Action, read_vote
from covey.core.history.history import History
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.link.send_queue import TAKEN_OF_STRANGERS, SendQueue
from covey.core.membership.events import InvitationState, VoteCast
from covey.core.membership.expiry import withdraw_secrets
from covey.core.membership.joining import Joining
from covey.core.membership.membership import Edit, Membership
from covey.core.membership.past import Past
from covey.core.membership.requests import as_invite, invite_member
from covey.core.membership.rotation import announce_in, may_rotate, outdated, wiped
from covey.core.membership.unknown_groups import check_may_ask, request_to_wire
from covey.core.membership.voting import Voting, former_member, readmitting
from covey.core.membership.voting import vote as cast_vote
from covey.core.now import Now
from covey.core.pairing.invite import NO_INVITE, Invite, JoinRequest
from covey.core.pairing.pending import GroupRequest, UnknownGroup
from covey.core.pairing.preview import GroupDescription
from covey.core.pairing.uri import GroupUri
from covey.core.wire.message import MessageType
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.core.records import Records

_NOT_DESCRIBED = GroupDescription()


class GroupActions:
    """Changes groups, and queues what that makes necessary."""

    def __init__(
        self,
        identity: Identity,
        membership: Membership,
        joining: Joining,
        history: History,
        past: Past,
        records: Records,
        queue: SendQueue,
    ) -> None:
        self._identity = identity
        self._history = history
        self._membership = membership
        self._joining = joining
        self._past = past
        self._records = records
        self._queue = queue

    def request_join(self, invite: Invite, label: str, now: Now) -> None:
        """Ask the inviter to let this device into its group (003.16).

        Raises:
            LocalError: expired, our own invite, or a group that this device is in.
        """
        self._joining.begin_join(invite, now.wall_us)
        self._records.requests.reconsider(invite.group_id)
        request = JoinRequest(invite.secret, self._identity.noise_public, label, own_announcement())
        self._queue.queue(invite.inviter.signing_public, MessageType.JOIN, invite.group_id, request.to_wire(), now)

    def request_visit(self, uri: GroupUri, label: str, now: Now) -> None:
        """Ask members of a public group for its manifest, with which this device lets itself in (003.07).

        Raises:
            LocalError: the URI names this device, or it is in the group.
        """
        self._joining.begin_visit(uri, label, now.wall_us)
        self._records.requests.reconsider(uri.group_id)
        request = JoinRequest(NO_INVITE, self._identity.noise_public, label, own_announcement())
        for contact in uri.contacts:
            self._queue.queue(contact.signing_public, MessageType.JOIN, uri.group_id, request.to_wire(), now)

    def invite_member(
        self,
        group_id: GroupId,
        member: DeviceKey,
        capabilities: tuple[str, ...],
        now: Now,
        described: GroupDescription = _NOT_DESCRIBED,
        *,
        may_be_member: bool = False,
    ) -> None:
        """Invite a device that shares a group with this one to a further group; a person there answers.

        How the group is `described` is shown with the invitation, as are its members. `may_be_member`: the group may
        list the device, which may have lost it.

        Raises:
            LocalError: not that device, or not to that group.
            UnknownGroupError: this device is not in the group.
        """
        body = invite_member(
            *(self._membership.groups, self._joining, group_id, member, capabilities, described, now.wall_us),
            may_be_member=may_be_member,
        ).to_wire()
        self._queue.queue(member, MessageType.GROUP_INVITE, group_id, body, now)
        self._records.group_asks.drop(group_id, member)
        self._membership.events.invitation(group_id, member, InvitationState.SENT, now.wall_us)

    def accept_request(self, request: GroupRequest, label: str, now: Now) -> None:
        """Accept an invitation to a further group: ask its inviter to be let in.

        Raises:
            LocalError: expired, or a group that this device is in.
        """
        self.request_join(as_invite(request), label, now)
        self._records.requests.drop(request.group_id)
        inviter = request.inviter.signing_public
        self._membership.events.invitation(request.group_id, inviter, InvitationState.ACCEPTED, now.wall_us)

    def request_invite(self, unknown: UnknownGroup, now: Now) -> None:
        """Ask a member that has addressed this device in an unknown group to invite it (003.82).

        Raises:
            LocalError: it was asked a short time ago.
        """
        check_may_ask(unknown, now)
        self._records.group_asks.note_asked(unknown.group_id, unknown.author, now.wall_us)
        self._queue.queue(unknown.author, MessageType.INVITE_REQUEST, unknown.group_id, request_to_wire(), now)

    def ask_for_past(self, group_id: GroupId, member: DeviceKey, now: Now) -> None:
        """Ask a member for the manifests from before those that this device received first, unless asked of late."""
        self.queue_sends(self._past.ask(group_id, member, now), now)

    def add_device(self, group_id: GroupId, newcomer: Member, relay_url: str, now: Now) -> Invite:
        """Add a device by its keys, and notify all members; the invite is for it alone.

        Raises:
            LocalError: it is a member already, one of its keys is in the group, or the group does not permit it.
            UnknownGroupError: this device is not in the group.
        """
        invite, sends = self._joining.add_device(group_id, newcomer, relay_url, now.wall_us)
        self.queue_sends(sends, now)
        return invite

    def change(self, group_id: GroupId, edit: Edit, now: Now) -> None:
        """Issue a group's next version and queue it for everybody.

        Raises:
            LocalError: this device may not do that, or it cannot be done.
            UnknownGroupError: this device is not in the group.
        """
        self.queue_sends(self._membership.change(group_id, edit, now.wall_us), now)

    def unban(self, group_id: GroupId, target: DeviceKey, now: Now, *, readmit: bool = True) -> None:
        """End a ban where everybody may, and let the device in again as it was, where that is known (003.45).

        Raises:
            LocalError: there is no such ban, or it cannot be let in.
            UnknownGroupError: this device is not in the group.
        """
        group = self._membership.groups.group(group_id)
        former = former_member(self._records.groups, group, target) if readmit else None
        self.change(group_id, lambda draft, _: readmitting(draft.unbanning(target), former), now)
        self._catch_up(group, former, now)

    def _catch_up(self, before: GroupManifest, former: Member | None, now: Now) -> None:
        if former is None or former.is_board:
            return
        ban, key = before.ban(former.keys.signing_public), former.keys.signing_public
        if ban is None or self._membership.groups.group(before.group_id).member(key) is None:
            return
        secret = self._membership.groups.secret(before.group_id)
        missed = self._records.groups.manifests_from(before.group_id, max(1, ban.since - 1), -1)
        self.queue_sends(self._membership.spreading.to_readmitted(before.group_id, missed, key, secret), now)

    def vote(self, group_id: GroupId, action: Action, target: DeviceKey, now: Now, *, readmit: bool = True) -> Voting:
        """Vote for a ban or its end, which happens where that decides it; its end lets the device in again.

        Raises:
            LocalError: this device may not, or there is nothing to vote about.
            UnknownGroupError: this device is not in the group.
        """
        manifest = self._membership.groups.group(group_id)
        ends = action is Action.UNBAN and readmit
        former = former_member(self._records.groups, manifest, target) if ends else None
        voting, sends = cast_vote(
            self._membership, self._identity, self._records.votes, manifest, action, target, now.wall_us, former
        )
        own = self._identity.signing_public
        cast = VoteCast(group_id, action, target, own, voting.votes, voting.needed)
        self._membership.events.vote(cast, now.wall_us)
        self.queue_sends(sends, now)
        self._catch_up(manifest, former, now)
        return voting

    def decide(self, cast: VoteCast, now: Now) -> None:
        """Issue what another admin's vote has decided, where this device has voted for it before: they have crossed.

        What the group no longer lets happen waits for a person.
        """
        kept = map(read_vote, self._records.votes.of_group(cast.group_id))
        own = self._identity.signing_public, cast.action, cast.target
        if cast.votes < cast.needed or own not in {(each.voter, each.action, each.target) for each in kept}:
            return
        try:
            self.vote(cast.group_id, cast.action, cast.target, now)
        except LocalError:
            return

    def destroy(self, group_id: GroupId, now: Now) -> None:
        """Destroy a group for everybody in it; `UnknownGroupError` where this device is not."""
        self.queue_sends(self._membership.destroy(group_id, now.wall_us), now)

    def forget_destroyed(self, group_id: GroupId, now: Now) -> None:
        """Withdraw what still waits in a group that was destroyed, and is being forgotten."""
        manifest = self._membership.groups.trust(group_id).current
        for member in manifest.members if manifest is not None else ():
            self._queue.withdraw_of_group(member.keys.signing_public, group_id, now)
        self.withdraw_secrets(group_id, now)  # former members may wait for older ones

    def withdraw_words(self, group_id: GroupId, now: Now) -> None:
        """Withdraw what this device had still to say in a group that it has left, but the notice of that.

        The secrets of its epochs go, too.
        """
        trust = self._membership.groups.trust_of(group_id)
        current = None if trust is None else trust.current
        for member in current.members if current is not None else ():
            self._queue.withdraw_of_group(member.keys.signing_public, group_id, now, TAKEN_OF_STRANGERS)
        self.withdraw_secrets(group_id, now)

    def withdraw_secrets(self, group_id: GroupId, now: Now) -> None:
        """Have what waits of a group that this device has left go without the secrets of its epochs."""
        withdraw_secrets(self._identity.signing_public, group_id, self._records.outbox, self._queue, now)

    def leave(self, group_id: GroupId, now: Now) -> None:
        """Leave a group and tell the others; `UnknownGroupError` where this device is not in it."""
        self.queue_sends(self._membership.leave(group_id, now.wall_us), now)
        if self._membership.groups.trust_of(group_id) is None:  # nobody was left to tell
            self.withdraw_secrets(group_id, now)

    def rotate_noise_key(self, now: Now) -> None:
        """Tell every group the noise key that is current now; it must be stored already."""
        groups = outdated(self._membership.groups, self._identity)
        self.queue_sends(announce_in(groups, self._membership, self._identity, self._records, now.wall_us), now)

    def may_rotate(self, now: Now) -> bool:
        """Say whether the noise key may be replaced without a person."""
        return may_rotate(self._membership.groups, self._identity, self._records, now.wall_us)

    def noise_keys_to_wipe(self, now: Now) -> list[NoisePublic]:
        """Return the retired noise keys that nothing needs any more."""
        return wiped(self._membership.groups, self._identity, self._records, now.wall_us)

    def queue_sends(self, sends: Iterable[GroupSend], now: Now) -> None:
        """Queue messages about a change; what waits for the members who left by it is withdrawn."""
        self._queue.queue_all(sends, self._membership.take_departed(), now, self._membership.groups.take_parted())
        self._history.write_after_removals(self._membership.removals, now)
