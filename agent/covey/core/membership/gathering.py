"""Admit devices of a fleet that arrive at about the same time, each with its own invite, by one manifest.

Each manifest goes to every member, so forty single admissions cost 820 messages. A device waits for this once in its
life. (docs/protocol/groups.md, "Pairing", Invites of a fleet.)

1. The request of a device with such an invite is kept with the invite, which belongs to that device from then on.
2. All waiting devices are admitted `GATHER_QUIET_US` after the last of them arrived, and at most `GATHER_US` after the
   first. Only this process knows these times: after a restart they begin again.
3. A device that the group does not accept is left out, and keeps no other device out: a banned device, a key that the
   group lists already, an invite that the group has banned, or one beyond the group's room. Its request is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import GroupSend
from covey.core.ids import DeviceKey, EpochId, GroupId
from covey.core.membership.membership import Membership
from covey.core.now import Now
from covey.core.pairing.invite import JoinRequest
from covey.core.pairing.pending import OpenInvite
from covey.core.wire.message import Message
from covey.errors import LocalError
from covey.limits.pairing import GATHER_QUIET_US, GATHER_US

if TYPE_CHECKING:
    from covey.core.records.groups import InviteRecords
    from covey.core.records.link import CounterRecords


class Gathering:
    """Who waits to be let in together. Who it is, is durable; since when, is not."""

    def __init__(self, invites: InviteRecords, counters: CounterRecords) -> None:
        self._invites = invites
        self._counters = counters
        self._waits = any(each.request is not None for each in invites.all())
        self._first_us: int | None = None
        self._last_us = 0

    def take(self, message: Message, invite: OpenInvite, now: Now) -> bool:
        """Keep the request of a device that is let in with others (rule 1); False where it is let in by itself."""
        if invite.used_by is not None:
            return False
        self._invites.keep_request(invite.secret_hash, message.author, message.body)
        self._begin(now)
        return True

    def _begin(self, now: Now) -> None:
        if self._first_us is None:
            self._first_us = now.monotonic_us
        self._waits, self._last_us = True, now.monotonic_us

    def next_deadline(self) -> int | None:
        """Return when `let_in` should be called next, in monotonic microseconds; None where nobody waits."""
        if self._first_us is None:
            return None
        return min(self._last_us + GATHER_QUIET_US, self._first_us + GATHER_US)

    def has_work(self, now: Now) -> bool:
        """Say whether somebody waits who is due, or has waited since before this process began."""
        deadline = self.next_deadline()
        return self._waits if deadline is None else deadline <= now.monotonic_us

    def let_in(self, membership: Membership, now: Now) -> list[GroupSend]:
        """Let in everybody who waits, in one manifest for each group (rule 2). Writes, so inside a transaction."""
        if not self.has_work(now):
            return []
        if self._first_us is None:
            self._begin(now)
            return []
        self._waits, self._first_us = False, None
        waiting: dict[GroupId, list[OpenInvite]] = {}
        for invite in self._invites.all():
            if invite.request is not None and invite.used_by is None:
                waiting.setdefault(invite.group_id, []).append(invite)
        sends: list[GroupSend] = []
        for group_id, invites in waiting.items():
            sends += self._let_into(group_id, invites, membership, now)
        return sends

    def _let_into(
        self, group_id: GroupId, invites: list[OpenInvite], membership: Membership, now: Now
    ) -> list[GroupSend]:
        group = next((each for each in membership.groups.joined() if each.group_id == group_id), None)
        admitted = {} if group is None else _admissible(group, invites)
        sends: list[GroupSend] = []
        try:
            if admitted:
                sends = self._admit(group_id, admitted, membership, now)
        except LocalError:  # this device may let nobody in any more
            admitted = {}
        for invite in invites:
            self._invites.drop_request(invite.secret_hash)
            if invite not in admitted:
                self._counters.count("dropped_invite")
        return sends

    def _admit(
        self, group_id: GroupId, admitted: dict[OpenInvite, Member], membership: Membership, now: Now
    ) -> list[GroupSend]:
        """Issue the manifest that lets them in, and give each of them the group.

        Raises:
            LocalError: this device may let nobody in; nothing is changed.
        """

        def with_all(draft: GroupManifest, _: EpochId) -> GroupManifest:
            for newcomer in admitted.values():
                draft = draft.adding(newcomer)
            return draft

        sends = membership.change(group_id, with_all, now.wall_us)
        trust, secret = membership.groups.trust(group_id), membership.groups.secret(group_id)
        for invite, newcomer in admitted.items():
            key = newcomer.keys.signing_public
            self._invites.use(invite.secret_hash, key)
            sends.append(membership.spreading.to_newcomer(trust, key, secret))
        return sends


def _admissible(group: GroupManifest, invites: list[OpenInvite]) -> dict[OpenInvite, Member]:
    """Return the devices that a group accepts, by invite (rule 3)."""
    admitted: dict[OpenInvite, Member] = {}
    for invite in invites:
        if group.ban(DeviceKey(invite.secret_hash)) is not None:
            continue
        newcomer = _newcomer(invite)
        try:
            group = group.adding(newcomer)
        except LocalError:
            continue
        admitted[invite] = newcomer
    return admitted


def _newcomer(invite: OpenInvite) -> Member:
    assert invite.bound_to is not None
    assert invite.request is not None
    request = JoinRequest.from_wire(invite.request)
    keys = DeviceKeys(invite.bound_to, request.noise_public)
    return Member(keys, request.label, capabilities=invite.capabilities, extensions=request.extensions)
