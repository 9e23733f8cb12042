"""Invites that this device has given, and joins that it waits for: who may speak before being a member."""

from __future__ import annotations

from collections.abc import Callable

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, GroupId
from covey.core.membership.records import InvitationRecords, OpenInvite, PendingJoin
from covey.core.pairing.invite import SECRET_BYTES, Invite, JoinRequest, hash_secret
from covey.core.wire.message import Message
from covey.errors import InviteError, LocalError
from covey.limits.group import MAXIMUM_CAPABILITIES, MAXIMUM_CAPABILITY_BYTES
from covey.limits.pairing import INVITE_US, MAXIMUM_GROUP_REQUESTS, MAXIMUM_OPEN_INVITES


class Invitations:
    """One device's invites and pending joins; all of it is in the records."""

    def __init__(self, identity: Identity, records: InvitationRecords, rng: Callable[[int], bytes]) -> None:
        self._identity = identity
        self._records = records
        self._rng = rng

    def open(
        self,
        group_id: GroupId,
        capabilities: tuple[str, ...],
        relay_url: str,
        now_us: int,
        lifetime_us: int = INVITE_US,
        bound_to: DeviceKey | None = None,
    ) -> Invite:
        """Open an invite to a group: single use, ten minutes where nothing else is said, for anybody or one device.

        Raises:
            LocalError: too many capabilities or open invites.
        """
        unused = [each for each in self._records.invites.all() if each.used_by is None and each.expires_at_us > now_us]
        alike = [each for each in unused if (each.bound_to is None) == (bound_to is None)]
        most = MAXIMUM_OPEN_INVITES if bound_to is None else MAXIMUM_GROUP_REQUESTS
        if len(alike) >= most:
            raise LocalError(f"{most} invites are open already", hint="covey invite --cancel")
        secret = self._rng(SECRET_BYTES)
        invite = Invite(group_id, self._identity.keys, secret, now_us + lifetime_us, relay_url)
        self._records.invites.open(
            OpenInvite(
                invite.secret_hash, group_id, invite.expires_at_us, check_capabilities(capabilities), None, bound_to
            ),
            now_us,
        )
        return invite

    def find(self, message: Message, now_us: int) -> OpenInvite:
        """Return the invite that a JOIN message proves.

        Raises:
            InviteError: there is none, or it is used or expired.
            RemoteError: the request is malformed.
        """
        secret_hash = hash_secret(JoinRequest.from_wire(message.body).secret)
        found = None
        for invite in self._records.invites.all():
            if crypto.same(invite.secret_hash, secret_hash):
                found = invite
        if found is None or found.group_id != message.group_id:
            raise InviteError("no such invite")
        if found.used_by not in {None, message.author}:
            raise InviteError("the invite has been used")
        if found.bound_to not in {None, message.author}:
            raise InviteError("the invite is another device's")
        if found.used_by is None and now_us > found.expires_at_us:
            raise InviteError("the invite has expired")
        return found

    def ask(self, invite: Invite, now_us: int) -> None:
        """Remember that this device asks to join, and whose answer alone counts.

        Raises:
            LocalError: expired, or our own invite.
        """
        if now_us > invite.expires_at_us:
            raise LocalError("this invite has expired", hint="ask for a new one; check both clocks if it is fresh")
        if invite.inviter.signing_public == self._identity.signing_public:
            raise LocalError("this invite was made by this device", hint="run 'covey join' on the device that joins")
        self._records.joins.begin(PendingJoin(invite.group_id, invite.inviter, invite.expires_at_us))

    def awaits_answer_from(self, group_id: GroupId, author: DeviceKey) -> bool:
        """Say whether this device has asked `author` to let it into the group."""
        return any(
            pending.group_id == group_id and pending.inviter.signing_public == author
            for pending in self._records.joins.pending()
        )


def check_capabilities(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return capabilities as a manifest wants them.

    Raises:
        LocalError: too many, or one that is no word.
    """
    distinct = tuple(sorted(set(names)))
    if len(distinct) > MAXIMUM_CAPABILITIES or any(
        not 0 < len(name.encode()) <= MAXIMUM_CAPABILITY_BYTES for name in distinct
    ):
        raise LocalError(f"at most {MAXIMUM_CAPABILITIES} capabilities of 1 to {MAXIMUM_CAPABILITY_BYTES} bytes each")
    return distinct
