"""The groups of one device: creating, joining, admitting, and what manifests change.

`trust.py` decides whether a manifest is accepted; this module does what follows from it. Manifests that others must
hear of are handed to the caller as `Push`es, to be queued in the same transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agent.core import crypto
from agent.core.crypto import DeviceKeys, Identity
from agent.core.group_manifest import COLLECTOR, GroupManifest, Member, genesis, read_manifest, sign_manifest
from agent.core.ids import GROUP_ID_BYTES
from agent.core.limits import INVITE_US, MAXIMUM_CAPABILITIES, MAXIMUM_GROUPS, MAXIMUM_OPEN_INVITES
from agent.core.message import Message
from agent.core.pairing import SECRET_BYTES, Invite, JoinRequest, hash_secret
from agent.core.records import OpenInvite, PendingJoin, Records
from agent.core.trust import GroupTrust, Verdict
from agent.errors import InviteError, LocalError, RemoteError, UnknownGroupError, VersionGapError


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """This device holds a new manifest of a group."""

    manifest: GroupManifest
    added: tuple[Member, ...]
    joined: bool


@dataclass(frozen=True, slots=True)
class RemovedFromGroup:
    """This device is no longer listed (000.21)."""

    manifest: GroupManifest


@dataclass(frozen=True, slots=True)
class Push:
    """A manifest that a device must be told of."""

    recipient: bytes
    manifest: GroupManifest


class Membership:
    """Every group that a device holds, and the address of everybody it may speak to."""

    def __init__(self, identity: Identity, records: Records, rng: Callable[[int], bytes]) -> None:
        self._identity = identity
        self._records = records
        self._rng = rng
        self._groups: dict[bytes, GroupTrust] = {}
        self._addresses: dict[bytes, bytes] = {}
        self.events: deque[GroupChanged | RemovedFromGroup] = deque()
        self.refresh()

    def refresh(self) -> None:
        """Take up what another process wrote."""
        for raw in self._records.manifests():
            manifest = read_manifest(raw)
            held = self._groups.get(manifest.group_id)
            if held is None or held.current is None or held.current.version < manifest.version:
                self._groups[manifest.group_id] = GroupTrust(manifest.group_id, manifest)
        self._addresses = {
            member.keys.signing_public: member.keys.noise_public
            for manifest in self.groups()
            for member in manifest.members
        }
        for pending in self._records.pending_joins():
            self._addresses[pending.inviter.signing_public] = pending.inviter.noise_public

    def groups(self) -> list[GroupManifest]:
        """Return the manifest held of each group."""
        return [trust.current for trust in self._groups.values() if trust.current is not None]

    def group(self, group_id: bytes) -> GroupManifest:
        """Return the manifest held of a group.

        Raises:
            UnknownGroupError: this device is not in it.
        """
        trust = self._groups.get(group_id)
        if trust is None or trust.current is None:
            raise UnknownGroupError("a group that this device does not hold")
        return trust.current

    def address(self, signing_public: bytes) -> bytes | None:
        """Return the noise key of a device that this one may speak to."""
        return self._addresses.get(signing_public)

    def create(self, label: str, capabilities: tuple[str, ...], now_us: int) -> GroupManifest:
        """Create a group with this device as its only member (000.01, 003.10).

        Raises:
            LocalError: too many groups or capabilities.
        """
        if len(self._groups) >= MAXIMUM_GROUPS:
            raise LocalError(f"this device is in {MAXIMUM_GROUPS} groups already")
        creator = Member(self._identity.keys, label, capabilities=check_capabilities(capabilities))
        manifest = sign_manifest(genesis(self._rng(GROUP_ID_BYTES), creator), self._identity)
        trust = GroupTrust(manifest.group_id, None)
        trust.create(manifest)
        self._groups[manifest.group_id] = trust
        self._accepted(None, manifest, now_us)
        return manifest

    def invite(self, group_id: bytes, capabilities: tuple[str, ...], relay_url: str, now_us: int) -> Invite:
        """Open an invite to a group: single use, ten minutes.

        Raises:
            LocalError: too many capabilities or open invites.
            UnknownGroupError: this device is not in the group.
        """
        self.group(group_id)
        unused = [each for each in self._records.invites() if each.used_by is None and each.expires_at_us > now_us]
        if len(unused) >= MAXIMUM_OPEN_INVITES:
            raise LocalError(f"{MAXIMUM_OPEN_INVITES} invites are open already", hint="let one be used or expire")
        secret = self._rng(SECRET_BYTES)
        invite = Invite(group_id, self._identity.keys, secret, now_us + INVITE_US, relay_url)
        self._records.open_invite(
            OpenInvite(invite.secret_hash, group_id, invite.expires_at_us, check_capabilities(capabilities), None)
        )
        return invite

    def begin_join(self, invite: Invite, now_us: int) -> None:
        """Remember that this device asks to join, and whose answer alone counts.

        Raises:
            LocalError: expired, our own invite, or a group that this device is in.
        """
        if now_us > invite.expires_at_us:
            raise LocalError("this invite has expired", hint="ask for a new one; check both clocks if it is fresh")
        if invite.inviter.signing_public == self._identity.signing_public:
            raise LocalError("this invite was made by this device", hint="run 'covey join' on the device that joins")
        if invite.group_id in self._groups:
            raise LocalError("this device is in that group already")
        self._records.begin_join(PendingJoin(invite.group_id, invite.inviter, invite.expires_at_us))
        self.refresh()

    def find_invite(self, message: Message, now_us: int) -> OpenInvite:
        """Return the invite that a JOIN message proves.

        Raises:
            InviteError: there is none, or it is used or expired.
            RemoteError: the request is malformed.
        """
        secret_hash = hash_secret(JoinRequest.from_wire(message.body).secret)
        found = None
        for invite in self._records.invites():
            if crypto.same(invite.secret_hash, secret_hash):
                found = invite
        if found is None or found.group_id != message.group_id:
            raise InviteError("no such invite")
        if found.used_by not in {None, message.author}:
            raise InviteError("the invite has been used")
        if found.used_by is None and now_us > found.expires_at_us:
            raise InviteError("the invite has expired")
        return found

    def admit(self, message: Message, invite: OpenInvite, now_us: int) -> list[Push]:
        """Add the bearer of an invite to the group (000.18, 001.07).

        Raises:
            InviteError: the group is full, or one of the keys stands in it already.
        """
        request = JoinRequest.from_wire(message.body)
        manifest = self.group(invite.group_id)
        if manifest.member(message.author) is not None:
            return [Push(message.author, manifest)]
        keys = DeviceKeys(message.author, request.noise_public)
        try:
            unsigned = manifest.adding(Member(keys, request.label, capabilities=invite.capabilities))
        except LocalError as error:
            raise InviteError(str(error)) from error
        self._records.use_invite(invite.secret_hash, message.author)
        return self._issue(unsigned, now_us)

    def awaits_answer_from(self, group_id: bytes, author: bytes) -> bool:
        """Say whether this device has asked `author` to let it into the group."""
        return any(
            pending.group_id == group_id and pending.inviter.signing_public == author
            for pending in self._records.pending_joins()
        )

    def receive_manifest(self, message: Message, now_us: int) -> None:
        """Offer a manifest to the group's trust; one that came too early is kept until it follows.

        Raises:
            RemoteError: the rule of `trust.py` that failed.
        """
        trust = self._groups.get(message.group_id) or GroupTrust(message.group_id, None)
        before = trust.current
        try:
            if before is None and self.awaits_answer_from(message.group_id, message.author):
                verdict = trust.join(message.body, message.author, self._identity.signing_public)
            else:
                verdict = trust.update(message.body)
        except VersionGapError:
            early = read_manifest(message.body)
            if before is None or early.version <= before.version + 1:
                raise
            self._records.hold_manifest(early.group_id, early.version, early.raw)
            return
        if verdict is Verdict.ACCEPTED and trust.current is not None:
            self._groups[message.group_id] = trust
            self._records.end_join(message.group_id)
            self._accepted(before, trust.current, now_us)
            self._apply_held(trust, now_us)

    def collector_of(self, group_id: bytes) -> Member | None:
        """Return the collector that this device's telemetry goes to.

        Rendezvous hashing over the collectors in the manifest: devices spread, and few move when one more comes.
        """
        own = self._identity.signing_public
        return max(
            self.group(group_id).with_capability(COLLECTOR),
            key=lambda member: crypto.digest(b"covey/1 rendez", own + member.keys.signing_public),
            default=None,
        )

    def _issue(self, unsigned: GroupManifest, now_us: int) -> list[Push]:
        """Sign the next manifest, hold it, and push it to every other member."""
        before = self.group(unsigned.group_id)
        manifest = sign_manifest(unsigned, self._identity)
        self._groups[manifest.group_id].update(manifest.raw)
        self._accepted(before, manifest, now_us)
        return [
            Push(member.keys.signing_public, manifest)
            for member in manifest.members
            if member.keys.signing_public != self._identity.signing_public
        ]

    def _apply_held(self, trust: GroupTrust, now_us: int) -> None:
        while trust.current is not None:
            before = trust.current
            for raw in self._records.held_manifests(trust.group_id, before.version + 1):
                try:
                    trust.update(raw)
                except RemoteError as error:
                    self._records.count(f"quarantined_{error.code}")
                    continue
                self._accepted(before, trust.current, now_us)
                break
            else:
                return

    def _accepted(self, before: GroupManifest | None, after: GroupManifest, now_us: int) -> None:
        self._records.save_manifest(after.group_id, after.version, after.raw, now_us)
        self.refresh()
        if after.member(self._identity.signing_public) is None:
            self.events.append(RemovedFromGroup(after))
            return
        known = {member.keys.signing_public for member in before.members} if before else set()
        added = tuple(member for member in after.members if member.keys.signing_public not in known)
        self.events.append(GroupChanged(after, added, joined=before is None))


def check_capabilities(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return capabilities as a manifest wants them.

    Raises:
        LocalError: too many, or one that is no word.
    """
    distinct = tuple(sorted(set(names)))
    if len(distinct) > MAXIMUM_CAPABILITIES or any(not 0 < len(name.encode()) <= 32 for name in distinct):
        raise LocalError(f"at most {MAXIMUM_CAPABILITIES} capabilities of 1 to 32 bytes each")
    return distinct
