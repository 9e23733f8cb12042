"""Durable state of membership and pairing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from covey.core.ids import DeviceKey, EpochId, GroupId, Incarnation, ManifestHash, NoisePublic, OperationId
from covey.core.membership.agreement import SaidHeads
from covey.core.membership.events import GroupEvent, InvitationState, VoteCast
from covey.core.pairing.pending import GroupRequest, InviteWish, OpenInvite, Pairing, PendingJoin, UnknownGroup
from covey.core.wire.message import Message


class GroupRecords(Protocol):
    """Manifests and secrets of this device's groups."""

    def manifests_from(self, group_id: GroupId, version: int, most: int, after: int = 0) -> list[bytes]:
        """Return accepted manifests of a group from a version on, by version and hash: so many after the first ones."""

    def manifests_at(self, group_id: GroupId, version: int) -> list[bytes]:
        """Return the accepted manifests of a version, by hash."""

    def has_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bool:
        """Say whether a manifest was accepted before."""

    def save_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        """Store an accepted manifest permanently."""

    def drop_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> None:
        """Forget an accepted manifest that others of its issuer have replaced."""

    def reopen_manifests(self, group_id: GroupId, version: int) -> None:
        """Note that what is at or above a version may have rivals."""

    def lowest_version(self, group_id: GroupId) -> int:
        """Return the lowest version of a group's accepted manifests; 0 where there are none."""

    def followed_from(self, group_id: GroupId) -> set[ManifestHash]:
        """Return what the lowest accepted manifests follow."""

    def save_past_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        """Store permanently a manifest that an accepted one follows, as an ancestor of everything else."""

    def manifests(self) -> list[tuple[GroupId, ManifestHash, bytes]]:
        """Return (group_id, hash, manifest) of what is not settled or was settled last, by group, version and hash."""

    def manifest_hashes(self) -> list[tuple[GroupId, ManifestHash]]:
        """Return (group_id, hash) of what `manifests` returns."""

    def settle_manifests(self, group_id: GroupId, version: int) -> None:
        """Note that everything below a version is followed by everything else."""

    def keep_early_manifest(self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes) -> None:
        """Keep a manifest that follows something unknown."""

    def early_manifests(self, group_id: GroupId) -> list[bytes]:
        """Return the manifests kept so."""

    def drop_early_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> None:
        """Forget one of them."""

    def save_secret(self, group_id: GroupId, epoch_id: EpochId, secret: bytes, now_us: int) -> None:
        """Keep an epoch's secret."""

    def secret(self, group_id: GroupId, epoch_id: EpochId) -> bytes | None:
        """Return an epoch's secret."""

    def forget(self, group_id: GroupId) -> None:
        """Forget a group's manifests and secrets, and whatever else is known of it."""

    def forget_before_joining(self, group_id: GroupId) -> None:
        """Forget the same before this device is let in; not what its person has agreed to for that."""

    def erase_content(self, group_id: GroupId) -> None:
        """Forget a group's secrets and history, and keep its manifests."""

    def revocations(self) -> list[tuple[GroupId, int]]:
        """Return groups that are being destroyed, and since how long, in microseconds that agents ran on this state."""

    def revocation(self, group_id: GroupId) -> bytes | None:
        """Return the Revoke of a group that is being destroyed."""

    def note_revocation(self, group_id: GroupId, raw: bytes) -> None:
        """Note that a group is being destroyed."""

    def manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bytes | None:
        """Return an accepted manifest."""

    def changed_at(self, group_id: GroupId) -> int:
        """Return when the last manifest of a group was accepted here, by the wall clock; 0 for one of no known time."""


class VoteRecords(Protocol):
    """Votes about members that have not decided anything yet."""

    def of_group(self, group_id: GroupId) -> list[bytes]:
        """Return votes about a group's members that have not decided yet."""

    def save(self, group_id: GroupId, voter: DeviceKey, raw: bytes, admins: Collection[DeviceKey]) -> bool:
        """Keep an admin's vote; of former admins' votes a bounded number stays. False where its share is used up."""

    def drop(self, group_id: GroupId, raw: bytes) -> None:
        """Forget a vote."""


class AheadRecords(Protocol):
    """Messages of groups that rest on a manifest that has not come yet."""

    def groups(self) -> list[GroupId]:
        """Return the groups that something waits in."""

    def of_group(self, group_id: GroupId) -> list[tuple[int, bytes]]:
        """Return (number, message) of what waits in a group, in the order in which it came."""

    def keep(self, message: Message) -> bool:
        """Keep a message; False where too many wait, of its author or in all."""

    def drop(self, number: int) -> None:
        """Forget a message."""


class DepartureRecords(Protocol):
    """Removed devices that have not acknowledged their departure notice."""

    def addresses(self) -> list[tuple[DeviceKey, NoisePublic]]:
        """Return (signing key, noise key) of devices that share no group with us and still have to hear of it."""

    def due(self, patience_us: int) -> list[DeviceKey]:
        """Return whose departure is over: nothing waits, or for so long; and visitors whose time is over.

        Time counts while agents run on this state.
        """

    def note(self, signing_public: DeviceKey, noise_public: NoisePublic, lifetime_us: int | None = None) -> None:
        """Keep the address of a device that was removed, or of a visitor for so long."""

    def visitors(self) -> int:
        """Return how many visitors have an address."""

    def end(self, signing_public: DeviceKey) -> None:
        """Forget that address."""


class EventRecords(Protocol):
    """What happened, for those who ask later."""

    def keep(self, event: GroupEvent, now_us: int) -> None:
        """Store an event of a group."""

    def invitation(self, group_id: GroupId, device: DeviceKey, state: InvitationState, now_us: int) -> None:
        """Store the state of an invitation from or to this device; `device` is the other one."""

    def vote(self, cast: VoteCast, now_us: int) -> None:
        """Keep that somebody has voted."""


class HeadsRecords(Protocol):
    """What each device has last said of the groups that it shares with this one."""

    def note(self, device: DeviceKey, said: GroupId, report: bytes | None, now_us: int) -> None:
        """Keep what a device has said, and its report where it came with one; the same again only once a minute."""

    def seen_at(self) -> dict[DeviceKey, int]:
        """Return when each device last said anything, by the wall clock, to a minute."""

    def all(self) -> dict[DeviceKey, SaidHeads]:
        """Return by signing key what each device has said."""


class InviteRecords(Protocol):
    """This device's invites, and who of their bearers waits to be admitted."""

    def all(self) -> list[OpenInvite]:
        """Return the invites of this device that have not expired."""

    def open(self, invite: OpenInvite, now_us: int) -> None:
        """Remember an invite, and forget those that nobody can use any more."""

    def use(self, secret_hash: bytes, joiner: DeviceKey) -> None:
        """Mark an invite as used, permanently."""

    def keep_request(self, secret_hash: bytes, joiner: DeviceKey, request: bytes) -> None:
        """Keep a JOIN's body with its invite, which is the joiner's alone from now on."""

    def drop_request(self, secret_hash: bytes) -> None:
        """Note that the request is dealt with."""


class JoinRecords(Protocol):
    """Groups that this device has asked to join."""

    def pending(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""

    def begin(self, pending: PendingJoin) -> None:
        """Store a join in addition to others of the same group; one by an invite ends public ones, and vice versa."""

    def end(self, group_id: GroupId, inviter: DeviceKey | None = None) -> None:
        """Forget the joins of a group, or what one inviter was asked."""


class RequestRecords(Protocol):
    """Invitations to further groups that wait for a person."""

    def pending(self) -> list[GroupRequest]:
        """Return the invitations to further groups that wait for a person, the oldest first."""

    def save(self, request: GroupRequest) -> None:
        """Keep an invitation; a later one to the same group by the same member replaces it."""

    def drop(self, group_id: GroupId, inviter: DeviceKey | None = None) -> None:
        """Forget a member's invitation to a group, or everybody's."""

    def declined(self) -> dict[GroupId, int]:
        """Return the groups that a person has declined, and when each was, the last one first."""

    def decline(self, group_id: GroupId, now_us: int) -> None:
        """Remember that a group was declined."""

    def reconsider(self, group_id: GroupId) -> None:
        """Forget that a group was declined."""


class GroupAskRecords(Protocol):
    """Unknown groups that this device is addressed in, and devices that ask to be let into its own."""

    def note_unknown(self, group_id: GroupId, author: DeviceKey, now_us: int) -> None:
        """Note that a device has addressed this one in an unknown group; the same again only once an hour."""

    def unknown(self, since_us: int) -> list[UnknownGroup]:
        """Return the unknown groups that were named since a moment, the newest first."""

    def note_asked(self, group_id: GroupId, author: DeviceKey, now_us: int) -> None:
        """Note that the author was asked for an invite."""

    def note_wish(self, group_id: GroupId, device: DeviceKey, now_us: int) -> bool:
        """Note that a device asks to be let into a group; return whether that is news to the person here."""

    def decline_wishes(self, group_id: GroupId, now_us: int) -> None:
        """Remember that the person does not let the devices in that have asked: their requests are not shown again."""

    def wishes(self, since_us: int) -> list[InviteWish]:
        """Return which devices have asked since a moment, the newest first."""

    def drop(self, group_id: GroupId, device: DeviceKey | None = None) -> None:
        """Forget what is noted of a group, by one device or by all."""


class PairingRecords(Protocol):
    """The durable state of ceremonies."""

    def all(self) -> list[Pairing]:
        """Return the running ceremonies, and the last ones that have ended."""

    def open(self, pairing: Pairing, now_us: int) -> None:
        """Remember a code, and forget those that ended long ago."""

    def note_joiner(self, pairing: Pairing) -> None:
        """Remember who has proved to know the secret."""

    def decide(self, secret_hash: bytes, accepts: bool) -> None:
        """Remember what the person has decided."""

    def note_minted(self, secret_hash: bytes, minted: bool) -> None:
        """Remember that the joiner was given an account that is to go again if it never joins; or that this is over."""

    def note_account_gone(self, secret_hash: bytes) -> None:
        """Note that the relay account of an invite file has been removed."""

    def end(self, secret_hash: bytes, ended: str) -> None:
        """Note how a ceremony has ended, once, and forget its secrets."""


class InvitedOperatorRecords(Protocol):
    """Operators that a person accepted with a group's invite, or that moved this device into the group."""

    def pin(self, group_id: GroupId, operators: Iterable[DeviceKey], inviter: DeviceKey, now_us: int) -> None:
        """Keep a group's operators, in place of earlier ones."""

    def forget(self, group_id: GroupId) -> None:
        """Forget that."""


class PersonalRecords(Protocol):
    """Which group is the person's own, and what was done about its history."""

    def pinned(self) -> GroupId | None:
        """Return the personal group that a person has named on this device."""

    def pin(self, group_id: GroupId) -> None:
        """Name it, and forget what was done about another one."""

    def unpin(self) -> None:
        """Name none any more."""

    def obeyed(self, group_id: GroupId) -> OperationId | None:
        """Return by which operation a group was left or erased here last."""

    def note_obeyed(self, group_id: GroupId, operation: OperationId) -> None:
        """Note that it was, or by which one it is said to be held again."""

    def invited(self, group_id: GroupId, held_by: OperationId) -> set[DeviceKey]:
        """Return which own devices this one has invited to a group since an operation says that it is held."""

    def note_invited(self, group_id: GroupId, device: DeviceKey, held_by: OperationId) -> None:
        """Note that it has; nothing is owed to that device any more."""

    def note_incarnations(self, device: DeviceKey, incarnations: Collection[Incarnation]) -> bool:
        """Note in which incarnations an own device was heard; say whether another one began after those before."""

    def owe_invitations(self, device: DeviceKey, groups: Iterable[GroupId]) -> None:
        """Note that an own device is to be invited to groups once more, whatever it was invited to before."""

    def owed(self, group_id: GroupId) -> set[DeviceKey]:
        """Return which own devices are to be invited to a group once more."""
