"""What changes the groups of one device: creating, joining, leaving, and accepted manifests.

`trust.py` decides whether a manifest is accepted and what the group is then; `groups.py` holds the current state;
`joining.py` admits others. This module stores accepted manifests, notifies those that must know, and applies the
consequences of a change. Messages for others are returned to the caller as `GroupSend`s, to be queued in the same
transaction. Beyond the rules of trust (docs/protocol/groups.md, "Spreading manifests"):

    1. The issuer of a manifest sends it to every member that it lists, with the rivals that it ends, and to each device
       that it removed (000.18, 000.20, 000.21). What one message cannot carry is left out: a device that receives a
       manifest that follows something missing asks for that (`maintenance.py`). One manifest is sent even if no relay
       accepts it, since people can also carry a message by hand.
    2. A manifest that follows something unknown is kept until that arrives (`replay.py`, `maintenance.py`).
    3. Each epoch has a secret of 32 random bytes, drawn by the issuer of the manifest that begins it and sent inside
       the sealed message to each member.
    4. Messages for a device that no longer shares a group with this one are withdrawn, except the notice of it
       (`addresses.py`).
    5. A device that only void manifests added is notified by every device that learns of it, because nobody removes it.
       It receives the removals that make those manifests void, and nothing later: a removed device may have invented
       it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.features import own_announcement
from covey.core.group.manifest import (
    GroupManifest,
    Member,
    Mode,
    genesis,
    manifest_hash,
    read_manifest,
    secret_id,
    sign_manifest,
)
from covey.core.group.messages import SECRET_BYTES, Bundle, Departed, GroupSend, first_within, taken_at_once
from covey.core.group.revocation import Revoke, check_revoke, read_revoke, sign_revoke
from covey.core.group.trust import GroupTrust
from covey.core.ids import GROUP_ID_BYTES, DeviceKey, EpochId, GroupId
from covey.core.link.carriage import Carriage
from covey.core.membership.events import (
    GroupChanged,
    GroupDestroyed,
    GroupEvent,
    InvitationState,
    RemovedFromGroup,
    VoteCast,
)
from covey.core.membership.groups import Groups
from covey.core.membership.invitations import Invitations, check_capabilities
from covey.core.membership.public_joins import PublicJoins
from covey.core.membership.replay import Offered, offer_all, reopened
from covey.core.pairing.pending import PendingJoin
from covey.core.wire.message import Message, MessageType
from covey.errors import AheadError, InviteError, LocalError, RemoteError
from covey.limits.group import MAXIMUM_GROUPS, VOID_DEVICES

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.groups import EventRecords, GroupRecords


class Spreading:
    """Makes the messages by which others come to know manifests."""

    def __init__(self, records: GroupRecords, carriage: Carriage) -> None:
        self._records = records
        self._carriage = carriage

    def of_change(
        self,
        before: GroupManifest,
        manifest: GroupManifest,
        nearest_first: list[GroupManifest],
        audience: Iterable[DeviceKey],
    ) -> list[GroupSend]:
        """Return a manifest of ours as messages for every device that was in the group in any member's view.

        `nearest_first` begins with it. Listed members get the secret of a new epoch.
        """
        begins = manifest.epoch_id != before.epoch_id
        secrets = self._secret_of(manifest) if begins else ()
        news = self._bundled(nearest_first)
        inside, outside = Bundle(news, secrets).to_wire(), Bundle(news).to_wire()
        listed = {member.keys.signing_public for member in manifest.members}
        return [self._send(each, manifest.group_id, inside if each in listed else outside) for each in sorted(audience)]

    def to_newcomer(self, trust: GroupTrust, newcomer: DeviceKey, secret: bytes | None) -> GroupSend:
        """Return the group as it is, for a device that was let in: all that is held, or the last one, which is ours."""
        held = [manifest.raw for manifest in trust.held()]
        fitting = self._fitting(held)
        manifests = fitting if len(fitting) == len(held) else (held[-1],)
        bundle = Bundle(manifests, (secret,) if secret is not None else ())
        return self._send(newcomer, trust.group_id, bundle.to_wire())

    def to_visitor(self, group: GroupManifest, visitor: DeviceKey) -> GroupSend:
        """Return the manifest of a public group, for a device that wants to let itself in."""
        return self._send(visitor, group.group_id, Bundle((group.raw,)).to_wire())

    def to_readmitted(
        self, group_id: GroupId, missed: Sequence[bytes], former: DeviceKey, secret: bytes | None
    ) -> list[GroupSend]:
        """Return all that a device has missed that is a member again; the last message has the epoch's secret."""
        sends = []
        while missed:
            fitting = self._fitting(missed)
            missed = missed[len(fitting) :]
            bundle = Bundle(fitting, (secret,) if secret is not None and not missed else ())
            sends.append(self._send(former, group_id, bundle.to_wire()))
        return sends

    def to_void(self, group_id: GroupId, news: list[GroupManifest], void: Iterable[Member]) -> list[GroupSend]:
        """Return the manifests, oldest first, that make what let some members in void, for these."""
        body = Bundle(self._bundled(news[::-1])).to_wire()
        return [self._send(each.keys.signing_public, group_id, body) for each in void if not each.is_board]

    def _secret_of(self, manifest: GroupManifest) -> tuple[bytes, ...]:
        secret = self._records.secret(manifest.group_id, manifest.epoch_id)
        return () if secret is None else (secret,)

    def _bundled(self, nearest_first: list[GroupManifest]) -> tuple[bytes, ...]:

        fitting = nearest_first[: len(self._fitting([each.raw for each in nearest_first]))]
        return tuple(each.raw for each in sorted(fitting, key=lambda each: (each.version, each.hash)))

    def _fitting(self, raws: Sequence[bytes]) -> tuple[bytes, ...]:
        return first_within(raws, self._carriage.maximum_payload) or tuple(raws[:1])

    def _send(self, recipient: DeviceKey, group_id: GroupId, body: bytes) -> GroupSend:
        return GroupSend(recipient, MessageType.GROUP_MANIFEST, group_id, body)


Edit = Callable[[GroupManifest, EpochId], GroupManifest]
"""Makes the next version of a draft; the bytes are the id of the new epoch's secret, where one begins."""


class Membership:
    """All that changes the groups of one device."""

    def __init__(
        self,
        identity: Identity,
        groups: Groups,
        records: Records,
        rng: Callable[[int], bytes],
        carriage: Carriage,
    ) -> None:
        self.groups = groups
        self._identity = identity
        self._own = identity.signing_public
        self._records = records
        self._rng = rng
        self.spreading = Spreading(records.groups, carriage)
        self.invitations = Invitations(identity, records, rng)
        self.public_joins = PublicJoins()
        self.unfinished: set[GroupId] = set()
        """Groups with manifests that can be taken, and were not for the bound of one turn's work."""
        self.removals: deque[GroupManifest] = deque()  # issued just now, not listing all who were, boards apart
        self.events = GroupEvents(records.events)

    # -- changing a group ---------------------------------------------------------------------------------------------

    def create(
        self,
        label: str,
        capabilities: tuple[str, ...],
        now_us: int,
        mode: Mode = Mode.INVITES_ONLY,
        invited: DeviceKey | None = None,
    ) -> GroupManifest:
        """Create a group with this device as its only member (000.01, 003.10).

        Raises:
            LocalError: too many groups or capabilities.
        """
        if len(self.groups) >= MAXIMUM_GROUPS:
            raise LocalError(f"this device is in {MAXIMUM_GROUPS} groups, the maximum")
        creator = Member(
            self._identity.keys,
            label,
            capabilities=check_capabilities(capabilities),
            extensions=own_announcement(),
        )
        group_id, secret = GroupId(self._rng(GROUP_ID_BYTES)), self._rng(SECRET_BYTES)
        manifest = sign_manifest(genesis(group_id, creator, secret_id(secret), mode, invited), self._identity)
        trust = GroupTrust(group_id, None)
        trust.create(manifest)
        self.groups.hold(trust)
        self._records.groups.save_secret(group_id, manifest.epoch_id, secret, now_us)
        self._save(manifest, now_us)
        self._accepted(trust, None, [manifest], now_us)
        return manifest

    def change(self, group_id: GroupId, edit: Edit, now_us: int) -> list[GroupSend]:
        """Issue the next version of a group; return it as messages for everybody.

        Raises:
            LocalError: this device may not do that, or it cannot be done.
            UnknownGroupError: this device is not in the group.
        """
        trust, before = self.groups.held(group_id)
        return self._issue(trust, before, edit, now_us)

    def _issue(self, trust: GroupTrust, before: GroupManifest, edit: Edit, now_us: int) -> list[GroupSend]:
        """Sign the next version of a group, take it, and return it as messages for everybody.

        Raises:
            LocalError: this device may not do that, or it cannot be done; nothing is changed.
        """
        group_id, secret = trust.group_id, self._rng(SECRET_BYTES)
        unsigned = trust.finish(edit(trust.draft(secret_id(secret), self._own), secret_id(secret)), secret_id(secret))
        if not unsigned.members:
            raise LocalError(
                "the group would have no members left", hint="as the last member, leave it: covey group leave"
            )
        manifest = sign_manifest(unsigned, self._identity)
        everybody = [member for each in (*trust.heads(), before) for member in each.members]
        audience = {member.keys.signing_public: member for member in everybody if not member.is_board}
        removes = manifest.member(self._own) is not None and not all(map(manifest.member, audience))
        for void in trust.void_members():  # rule 5 has notified them
            audience.pop(void, None)
        try:
            trust.offer(read_manifest(manifest.raw))
        except RemoteError as error:
            raise LocalError(f"this device is not allowed to do that in this group: {error}") from error
        if manifest.epoch_id == secret_id(secret):
            self._records.groups.save_secret(group_id, manifest.epoch_id, secret, now_us)
        news = trust.news_of(manifest)
        self._save(manifest, now_us)
        if removes:
            self.removals.append(manifest)
        self._accepted(trust, before, [manifest], now_us)
        strangers = [member for key, member in audience.items() if not (manifest.member(key) or before.member(key))]
        self.groups.addresses.part_from(strangers)
        self.groups.readdress()
        return self.spreading.of_change(before, manifest, news, audience.keys() - {self._own})

    def leave(self, group_id: GroupId, now_us: int) -> list[GroupSend]:
        """Leave a group; return notices for the others, if there are any (003.51).

        Raises:
            UnknownGroupError: this device is not in it.
        """
        _, manifest = self.groups.held(group_id)
        if len(manifest.members) == 1:
            self._records.groups.forget(group_id)
            self.groups.refresh()
            return []
        return self.change(group_id, lambda draft, epoch_id: draft.removing(self._own, epoch_id), now_us)

    def destroy(self, group_id: GroupId, now_us: int) -> list[GroupSend]:
        """Destroy a group for everybody (000.22).

        Raises:
            UnknownGroupError: this device is not in it.
        """
        return self._revoke(sign_revoke(self.groups.group(group_id), self._identity), now_us)

    def receive_revoke(self, message: Message, now_us: int) -> list[GroupSend]:
        """Obey a Revoke, and pass it on.

        Raises:
            RemoteError: it is not for this group as it is.
        """
        if self.groups.is_revoked(message.group_id):
            return []
        revoke = read_revoke(message.body)
        if not self.groups.is_in(message.group_id):  # whom it does not name, its issuer did not know to be in
            raise AheadError("the Revoke is for members, and this device is not a member yet")
        check_revoke(revoke, self.groups.group(message.group_id), self._own)
        sends = self._revoke(revoke, now_us)
        return [each for each in sends if each.recipient not in {message.author, revoke.issuer}]

    def _revoke(self, revoke: Revoke, now_us: int) -> list[GroupSend]:
        manifest = self.groups.group(revoke.group_id)
        self._records.groups.note_revocation(revoke.group_id, revoke.raw)
        self.groups.readdress()
        self.events.report(GroupDestroyed(manifest, revoke.issuer), now_us)
        self.groups.note_parted(revoke.group_id, (member.keys.signing_public for member in manifest.members))
        boards = {member.keys.signing_public for member in manifest.members if member.is_board}
        everybody = {*revoke.targets, *(member.keys.signing_public for member in manifest.members)}
        return [
            GroupSend(target, MessageType.REVOKE, revoke.group_id, revoke.raw)
            for target in sorted(everybody - {self._own, *boards})
            if self.groups.address(target) is not None
        ]

    # -- what others send ---------------------------------------------------------------------------------------------

    def lets_wait(self, message: Message, now_us: int) -> bool:
        """Say whether a newcomer's manifest has to come again later (`public_joins.py`, rule 4)."""
        trust = self.groups.trust_of(message.group_id)
        return self.public_joins.lets_wait(trust.current if trust is not None else None, message.author, now_us)

    def receive_manifests(self, message: Message, now_us: int) -> list[GroupSend]:
        """Take manifests and secrets; return what others have to hear of it.

        Raises:
            RemoteError: the rule of `trust.py` that failed, where nothing of it was new.
        """
        bundle = Bundle.from_wire(message.body)
        group_id, author = message.group_id, message.author
        pending = self.invitations.awaited(group_id, author)
        if group_id in {group.group_id for group in self.groups.joined()} or pending is None:
            sends = self.take(group_id, bundle.manifests, now_us)
        elif pending.label is None:
            sends = self._enter(group_id, author, bundle, now_us)
        else:
            sends = self._let_itself_in(pending, bundle, now_us)
        self._keep_secrets(self.groups.trust(group_id), bundle.secrets, now_us)
        return sends

    def take(self, group_id: GroupId, raws: tuple[bytes, ...], now_us: int) -> list[GroupSend]:
        """Process manifests of a held group, from any source, as `receive_manifests` does."""
        return self._take(self.groups.trust(group_id), taken_at_once(raws), now_us)

    def _enter(self, group_id: GroupId, inviter: DeviceKey, bundle: Bundle, now_us: int) -> list[GroupSend]:
        """Take the group that an inviter has let this device into.

        Raises:
            RemoteError: the rule of `trust.py` that failed; nothing is changed.
        """
        trust, offered = GroupTrust(group_id, None), taken_at_once(bundle.manifests)
        trust.join(offered, inviter, self._own, self._identity.noise.holds)
        self._begin(trust, now_us)
        self._records.joins.end(group_id)
        sends = self._accepted(trust, None, trust.held(), now_us)
        try:
            return [*sends, *self._take(trust, offered, now_us)]
        except RemoteError:
            return sends  # the rest was of no use

    def _let_itself_in(self, pending: PendingJoin, bundle: Bundle, now_us: int) -> list[GroupSend]:
        """Take the manifest of a public group, and issue the next one with this device in it (`public_joins.py`).

        Raises:
            RemoteError: it is no such group's, or does not let this device in.
        """
        group_id, own = (
            pending.group_id,
            Member(self._identity.keys, pending.label or "", extensions=own_announcement()),
        )
        trust = GroupTrust(group_id, None)
        visited = trust.visit(bundle.manifests, pending.inviter.signing_public)
        present = visited.member(self._own)
        if present is not None and not self._identity.noise.holds(present.keys.noise_public):
            raise InviteError("the manifest lists this device with a noise key that it does not have")
        self._begin(trust, now_us)
        try:
            if present is None:
                sends = self._issue(trust, visited, lambda draft, _: draft.adding(own), now_us)
            else:
                sends = self._accepted(trust, None, [visited], now_us)
        except LocalError as error:
            self._records.groups.forget(group_id)
            self.groups.drop(group_id)
            self.groups.readdress()
            raise InviteError(str(error)) from error
        self._records.joins.end(group_id)
        self.groups.readdress()
        return sends

    def _begin(self, trust: GroupTrust, now_us: int) -> None:
        """Begin a group with its first manifests, forgetting anything known of it before."""
        self._records.groups.forget_before_joining(trust.group_id)
        self.groups.hold(trust)
        for manifest in trust.held():
            self._save(manifest, now_us)

    def go_on(self, group_id: GroupId, now_us: int) -> list[GroupSend]:
        """Take more of what a bundle brought, after a turn whose work was bounded."""
        self.unfinished.discard(group_id)
        trust = self.groups.trust_of(group_id)
        try:
            return self._take(trust, (), now_us) if trust is not None else []
        except RemoteError:
            return []  # nothing of it was of use

    def _take(self, trust: GroupTrust, offered: Iterable[bytes], now_us: int) -> list[GroupSend]:
        """Offer manifests, and early ones kept before, until none of them follows a held one any more (rule 2).

        Raises:
            RemoteError: why one was refused, if none was useful.
        """
        before = trust.current
        early = self._records.groups.early_manifests(trust.group_id)
        kept = {each.hash: each for each in (read_manifest(raw, verify=False) for raw in early)}
        waiting = dict(kept)
        for raw in offered:
            known = manifest_hash(raw)
            if known not in waiting and not self._records.groups.has_manifest(trust.group_id, known):
                waiting[known] = trust.read(raw)
        offered_now = offer_all(trust, waiting, self.public_joins.admission(trust, waiting, now_us))
        looked_back = any(each.version <= trust.root.version for each in waiting.values())
        self._keep(trust, offered_now, now_us)
        if looked_back and (found := reopened(trust, waiting, self._records.groups)) is not None:
            trust = found
            self.groups.hold(trust)
            reopened_now = offer_all(trust, waiting, self.public_joins.admission(trust, waiting, now_us))
            self._keep(trust, reopened_now, now_us)
            refused = offered_now.refused or reopened_now.refused
            news = [*offered_now.news, *reopened_now.news]
            offered_now = Offered(news, [], refused, reopened_now.unfinished)
        if offered_now.unfinished:
            self.unfinished.add(trust.group_id)
        for placed in kept.keys() - waiting.keys():
            self._records.groups.drop_early_manifest(trust.group_id, placed)
        for manifest in (waiting[each] for each in waiting.keys() - kept.keys()):
            self._records.groups.keep_early_manifest(trust.group_id, manifest.hash, manifest.version, manifest.raw)
        if offered_now.news:
            return self._accepted(trust, before, offered_now.news, now_us)
        if looked_back:
            self._records.groups.settle_manifests(trust.group_id, trust.settle())
        if offered_now.refused is not None and not waiting:
            raise offered_now.refused
        return []

    def _keep(self, trust: GroupTrust, offered: Offered, now_us: int) -> None:
        for manifest in offered.news:
            self._save(manifest, now_us)
        for replaced in offered.replaced:
            self._records.groups.drop_manifest(trust.group_id, replaced)

    def _save(self, manifest: GroupManifest, now_us: int) -> None:
        self._records.groups.save_manifest(manifest.group_id, manifest.hash, manifest.version, manifest.raw, now_us)

    def _keep_secrets(self, trust: GroupTrust, secrets: Iterable[bytes], now_us: int) -> None:
        """Store secrets that a held manifest names (rule 3), but none of a left group: they would outlive it."""
        if not self.groups.is_in(trust.group_id):
            return
        named = {manifest.epoch_id for manifest in trust.held()}
        for secret in secrets:
            if secret_id(secret) in named:
                self._records.groups.save_secret(trust.group_id, secret_id(secret), secret, now_us)

    def take_departed(self) -> list[Departed]:
        """Return, once, devices that were removed and share no group with us any more (rule 4)."""
        departed = self.groups.addresses.take_departed()
        return [each for each in departed if self.groups.shares_nothing_with(each.device)]

    def end_departures(self) -> list[DeviceKey]:
        """Forget removed devices that know of it, or never will; return them, as nothing may wait for them."""
        ended = self.groups.addresses.end_departures()
        self.groups.readdress()
        return ended

    def _accepted(
        self, trust: GroupTrust, before: GroupManifest | None, news: list[GroupManifest], now_us: int
    ) -> list[GroupSend]:
        """Apply the consequences of stored changes; return messages for others (rule 5)."""
        void_members = trust.void_members()
        void_news = trust.manifests_for_void() if void_members else []
        self._records.groups.settle_manifests(trust.group_id, trust.settle())
        after = trust.current
        assert after is not None
        known = {member.keys.signing_public: member for member in before.members} if before else {}
        listed = {member.keys.signing_public: member for member in after.members}
        gone = tuple(member for key, member in known.items() if key not in listed)
        named = known.keys() | {member.keys.signing_public for each in news for member in each.members}
        self.groups.note_parted(trust.group_id, known.keys() - listed.keys() if self._own in listed else known)
        void = [void_members[key] for key in sorted(named & void_members.keys() - {self._own})]
        del void[max(0, VOID_DEVICES - len(self._records.departures.addresses())) :]
        is_out = self._own not in listed
        self.groups.addresses.part_after(news, void, [member for member in gone if member not in void], is_out=is_out)
        leaves = any(each.issuer == self._own and each.member(self._own) is None for each in news)
        if is_out and leaves:  # an earlier one of ours may come back to a restored state
            self.groups.addresses.keep_notifying(after.members)  # that we leave
        elif not (is_out and self.groups.has_left(trust.group_id)):  # else others have changed it meanwhile
            self.groups.addresses.welcome(listed)  # whoever removed us hears nothing of whom we have removed
        self.groups.readdress()
        if is_out:
            if before is None or self._own in known:
                self.events.report(RemovedFromGroup(after), now_us)
        else:
            added = tuple(member for key, member in listed.items() if key not in known)
            self.events.report(GroupChanged(after, added, gone, self._own not in known, trust.conflict), now_us)
        return self.spreading.to_void(trust.group_id, void_news, void)


class GroupEvents:
    """Events of groups: at once for the caller of this device, and durably for later readers."""

    def __init__(self, records: EventRecords) -> None:
        self._records = records
        self._unreported: deque[GroupEvent] = deque()

    def report(self, event: GroupEvent, now_us: int) -> None:
        """Note that it happened, inside the transaction by which it does."""
        self._unreported.append(event)
        self._records.keep(event, now_us)

    def invitation(self, group_id: GroupId, device: DeviceKey, state: InvitationState, now_us: int) -> None:
        """Note an invitation's new state, inside the transaction that changes it."""
        self._records.invitation(group_id, device, state, now_us)

    def vote(self, cast: VoteCast, now_us: int) -> None:
        """Note that somebody has voted, inside the transaction that keeps the vote."""
        self._records.vote(cast, now_us)

    def next(self) -> GroupEvent | None:
        """Return the oldest that was not returned yet."""
        return self._unreported.popleft() if self._unreported else None
