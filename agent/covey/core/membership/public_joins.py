"""Joining a public group without an invite (003.07): a device asks a member for the manifest, and adds itself.

1. A request contains no secret. It is answered in a public group that has room, to a device that is not banned, even by
   a member that may not admit others. Otherwise there is no answer.
2. The answer is the group's manifest, to a visitor: a device that gets an address for `VISIT_US`, and whose messages
   are not accepted. At most `PUBLIC_VISITORS` have one at a time.
3. The visitor believes the members that its URI names, and the manifest that one of them sends. It signs the next
   version, which adds itself and changes nothing else, and sends that to every member. The rules of `policy.py` apply.
4. A device can create any number of keys. So a member answers at most `PUBLIC_JOINS_AT_ONCE` visitors at a time and one
   every `PUBLIC_JOIN_US`, and accepts no more manifests of devices that added themselves, whichever device delivers
   them, except those that an admin's manifest follows. The rest is repeated, and accepted later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Mode, Role
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, ManifestHash
from covey.core.membership.addresses import Addresses
from covey.core.pairing.invite import JoinRequest
from covey.errors import InviteError
from covey.limits.group import PUBLIC_JOIN_US, PUBLIC_JOINS_AT_ONCE, SELF_JOINED_MEMBERS


class JoinPace:
    """How many devices may let themselves in now: so many at once, and one more in each time."""

    def __init__(self) -> None:
        self._left = float(PUBLIC_JOINS_AT_ONCE)
        self._at_us: int | None = None

    def exhausted(self, now_us: int) -> bool:
        """Say whether nobody may at the moment."""
        elapsed_us = 0 if self._at_us is None else max(0, now_us - self._at_us)
        self._left = min(PUBLIC_JOINS_AT_ONCE, self._left + elapsed_us / PUBLIC_JOIN_US)
        self._at_us = now_us
        return self._left < 1

    def take(self, now_us: int) -> bool:
        """Let one in, if one may."""
        if self.exhausted(now_us):
            return False
        self._left -= 1
        return True


def lets_itself_in(manifest: GroupManifest) -> bool:
    """Say whether a manifest is that of a newcomer who lets itself in."""
    newcomer = manifest.member(manifest.issuer) if manifest.mode is Mode.PUBLIC and manifest.version > 1 else None
    return newcomer is not None and newcomer.since == manifest.version


class PublicJoins:
    """The bounds of rules 2 and 4. Nothing of it is durable: after a restart it begins again."""

    def __init__(self) -> None:
        self._answered, self._taken = JoinPace(), JoinPace()

    def answers(self, group: GroupManifest, visitor: DeviceKeys, addresses: Addresses, now_us: int) -> bool:
        """Say whether a visitor gets the manifest now, and give it an address; else it asks again (rule 2)."""
        if not group.raw or self._answered.exhausted(now_us) or not addresses.receive_visitor(visitor):
            return False
        return self._answered.take(now_us)

    def lets_wait(self, group: GroupManifest | None, author: DeviceKey, now_us: int) -> bool:
        """Say whether a newcomer's manifest has to come again later (rule 4)."""
        if group is None or group.mode is not Mode.PUBLIC or group.member(author) is not None:
            return False
        return self._taken.exhausted(now_us)

    def admission(
        self, trust: GroupTrust, waiting: Mapping[ManifestHash, GroupManifest], now_us: int
    ) -> Callable[[GroupManifest], bool]:
        """Return what says whether one of the manifests that wait may be taken (rule 4)."""
        vouched = _followed_by_admins(trust, waiting)

        def admits(manifest: GroupManifest) -> bool:
            return not lets_itself_in(manifest) or manifest.hash in vouched or self._taken.take(now_us)

        return admits


def _followed_by_admins(trust: GroupTrust, waiting: Mapping[ManifestHash, GroupManifest]) -> set[ManifestHash]:
    vouched: set[ManifestHash] = set()
    for manifest in sorted(waiting.values(), key=lambda each: -each.version):
        issuer = trust.current.member(manifest.issuer) if trust.current is not None else None
        if manifest.hash in vouched or (issuer is not None and issuer.role is Role.ADMIN):
            vouched.update(each for each in manifest.prev if each in waiting)
    return vouched


def check_visit(group: GroupManifest, author: DeviceKey, request: JoinRequest) -> None:
    """Check that a device may let itself into a group (rule 1).

    Raises:
        InviteError: it may not.
    """
    if group.mode is not Mode.PUBLIC:
        raise InviteError("the request has no invite, and the group is not public")
    if group.ban(author) is not None:
        raise InviteError("the device is banned")
    if group.member(author) is None and len(group.members) >= SELF_JOINED_MEMBERS:
        raise InviteError("only admins may fill the rest of the group")
    if any(
        member.keys.noise_public == request.noise_public and member.keys.signing_public != author
        for member in group.members
    ):
        raise InviteError("another member uses its noise key")
