"""Invites that this device has given, and joins that it waits for: devices that may speak before they are members."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Mode, Role
from covey.core.ids import DeviceKey, GroupId
from covey.core.pairing.invite import SECRET_BYTES, Invite, JoinRequest, hash_secret
from covey.core.pairing.pending import OpenInvite, PendingJoin
from covey.core.pairing.uri import GroupUri
from covey.core.wire.message import Message
from covey.errors import InviteError, LocalError
from covey.limits.group import MAXIMUM_CAPABILITIES, MAXIMUM_CAPABILITY_BYTES, MAXIMUM_MEMBERS
from covey.limits.pairing import (
    INVITE_US,
    MAXIMUM_GROUP_REQUESTS,
    MAXIMUM_OPEN_INVITES,
    MAXIMUM_PREPARED_INVITES,
    PUBLIC_REQUEST_US,
)

if TYPE_CHECKING:
    from covey.core.records import Records


class Invitations:
    """One device's invites and pending joins; all of it is in the records."""

    def __init__(self, identity: Identity, records: Records, rng: Callable[[int], bytes]) -> None:
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
        prepared_for: str | None = None,
        *,
        members: Collection[DeviceKey] = (),
    ) -> Invite:
        """Open an invite to a group: single use, ten minutes where nothing else is said, for anybody or one device.

        `prepared_for` is what the device is to be called whose file it goes into. `members` are those of the group:
        their invites, which they request themselves, count separately.

        Raises:
            LocalError: too many capabilities or open invites.
        """
        unused = [each for each in self._records.invites.all() if each.used_by is None and each.expires_at_us > now_us]
        if prepared_for is not None:
            alike, most = [each for each in unused if each.prepared_for is not None], MAXIMUM_PREPARED_INVITES
        else:
            alike = [each for each in unused if each.prepared_for is None]
            alike = [each for each in alike if (each.bound_to is None) == (bound_to is None)]
            alike = [each for each in alike if (each.bound_to in members) == (bound_to in members)]
            most = MAXIMUM_OPEN_INVITES if bound_to is None else MAXIMUM_GROUP_REQUESTS
            most = MAXIMUM_MEMBERS if bound_to in members else most
        if len(alike) >= most:
            raise LocalError(
                f"{most} invites are open, the maximum",
                hint="cancel one: covey invite --list, then covey invite --cancel ID",
            )
        secret = self._rng(SECRET_BYTES)
        invite = Invite(group_id, self._identity.keys, secret, now_us + lifetime_us, relay_url)
        self._records.invites.open(
            OpenInvite(
                invite.secret_hash,
                group_id,
                invite.expires_at_us,
                check_capabilities(capabilities),
                None,
                bound_to,
                prepared_for,
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
        found = self._borne(message)
        if found is None:
            raise InviteError("no such invite")
        if found.used_by not in {None, message.author}:
            raise InviteError("the invite has been used")
        if found.bound_to not in {None, message.author}:
            raise InviteError("the invite belongs to another device")
        if found.used_by is None and now_us > found.expires_at_us:
            raise InviteError("the invite has expired")
        return found

    def never_takes(self, message: Message) -> bool:
        """Say whether no JOIN like this one will ever be taken: only an end that comes too early is a clock's matter.

        Raises:
            RemoteError: the request is malformed.
        """
        found = self._borne(message)
        if found is None:
            return True
        return bool({found.used_by, found.bound_to} - {None, message.author})

    def _borne(self, message: Message) -> OpenInvite | None:
        secret_hash = hash_secret(JoinRequest.from_wire(message.body).secret)
        found = None
        for invite in self._records.invites.all():
            if crypto.same(invite.secret_hash, secret_hash):
                found = invite
        return found if found is not None and found.group_id == message.group_id else None

    def ask(self, invite: Invite, now_us: int) -> None:
        """Remember that this device asks to join, and whose answer counts: its own, and that of who was asked before.

        Raises:
            LocalError: expired, or our own invite.
        """
        if now_us > invite.expires_at_us:
            raise LocalError(
                "this invite has expired", hint="ask for a new invite; if this one is new, check both devices' clocks"
            )
        if invite.inviter.signing_public == self._identity.signing_public:
            raise LocalError(
                "this device made the invite itself", hint="run 'covey join' on the device that should join"
            )
        self._records.joins.begin(PendingJoin(invite.group_id, invite.inviter, invite.expires_at_us))

    def ask_members(self, uri: GroupUri, label: str, now_us: int) -> None:
        """Remember that this device asks members of a public group for its manifest, to let itself in.

        Raises:
            LocalError: the URI names this device.
        """
        if any(each.signing_public == self._identity.signing_public for each in uri.contacts):
            raise LocalError("this device made the URI itself", hint="run 'covey join' on the device that should join")
        for each in uri.contacts:
            self._records.joins.begin(PendingJoin(uri.group_id, each, now_us + PUBLIC_REQUEST_US, label))

    def awaited(self, group_id: GroupId, author: DeviceKey) -> PendingJoin | None:
        """Return what this device has asked `author` about a group."""
        for pending in self._records.joins.pending():
            if pending.group_id == group_id and pending.inviter.signing_public == author:
                return pending
        return None

    def waits_for(self, group_id: GroupId) -> bool:
        """Say whether this device has asked anybody to be let into a group, and is not in it yet."""
        return any(pending.group_id == group_id for pending in self._records.joins.pending())


def check_may_let_in(group: GroupManifest, own: DeviceKey, newcomer: DeviceKey | None = None) -> None:
    """Check that this device may let somebody into a group: the newcomer where it is known, else anybody.

    Nobody should hand out an invite that is refused when it is used (`group/policy.py`, rules 5, 6 and 8).

    Raises:
        LocalError: the mode does not let it, the newcomer is banned, or the group is full.
    """
    present = group.member(own)
    if group.mode in {Mode.ADMIN_INVITES, Mode.PUBLIC} and (present is None or present.role is not Role.ADMIN):
        admins = ", ".join(member.name for member in group.members if member.role is Role.ADMIN) or "nobody"
        raise LocalError("only an admin can let devices into this group", hint=f"ask an admin: {admins}"[:200])
    if group.invited is not None and group.member(group.invited) is not None:
        raise LocalError(
            "this group is for two devices, and both are in it", hint="create another group: covey group create"
        )
    if group.invited is not None and newcomer not in {None, group.invited}:
        raise LocalError("this group is for one other device, and that is not it")
    if newcomer is not None and group.ban(newcomer) is not None:
        raise LocalError("that device is banned from this group", hint="lift the ban: covey group unban DEVICE")
    if len(group.members) >= MAXIMUM_MEMBERS:
        raise LocalError(f"this group has {MAXIMUM_MEMBERS} members, the maximum")


def check_capabilities(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return capabilities as a manifest wants them.

    Raises:
        LocalError: too many, or one that is no word.
    """
    distinct = tuple(sorted(set(names)))
    if len(distinct) > MAXIMUM_CAPABILITIES or any(
        not 0 < len(name.encode()) <= MAXIMUM_CAPABILITY_BYTES for name in distinct
    ):
        raise LocalError(
            f"a device can have at most {MAXIMUM_CAPABILITIES} capabilities of 1 to {MAXIMUM_CAPABILITY_BYTES} bytes"
        )
    return distinct
