"""What the machines of membership read and write of the durable state: a small Protocol for each family of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, EpochId, GroupId, ManifestHash, NoisePublic, Place
from covey.core.link.records import CounterRecords, MessageClass
from covey.core.membership.events import EventRecords
from covey.core.pairing.records import GroupRequest
from covey.core.wire.message import Message, MessageType, read_message


@dataclass(frozen=True, slots=True)
class OpenInvite:
    """An invite as its issuer remembers it; `bound_to` is the one device that may use it, where it is not anybody's.

    `prepared_for` is what the device is to be called whose file it stands in, None for one that a person hands over;
    `request` the body of the JOIN of a device that waits to be let in with others (`gathering.py`).
    """

    secret_hash: bytes
    group_id: GroupId
    expires_at_us: int
    capabilities: tuple[str, ...]
    used_by: DeviceKey | None
    bound_to: DeviceKey | None = None
    prepared_for: str | None = None
    request: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PendingJoin:
    """A group that this device has asked to join, and a device whose answer counts.

    Of an invite that is the inviter alone. `label` is what a public group's newcomer calls itself, who asks several
    members; None where there is an invite.
    """

    group_id: GroupId
    inviter: DeviceKeys
    expires_at_us: int
    label: str | None = None


class ManifestRecords(Protocol):
    """The accepted manifests of this device's groups."""

    def manifests_from(self, group_id: GroupId, version: int, most: int, after: int = 0) -> list[bytes]:
        """Return accepted manifests of a group from a version on, by version and hash: so many after the first ones."""

    def has_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bool:
        """Say whether a manifest was accepted before."""

    def save_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        """Keep an accepted manifest for good."""

    def drop_manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> None:
        """Forget an accepted manifest that others of its issuer have replaced."""

    def reopen_manifests(self, group_id: GroupId, version: int) -> None:
        """Note that what is at or above a version may have rivals."""


class PastRecords(Protocol):
    """The manifests from before those that a device was given first."""

    def lowest_version(self, group_id: GroupId) -> int:
        """Return the lowest version of a group's accepted manifests; 0 where there are none."""

    def followed_from(self, group_id: GroupId) -> set[ManifestHash]:
        """Return what the lowest accepted manifests follow."""

    def save_past_manifest(
        self, group_id: GroupId, manifest_hash: ManifestHash, version: int, raw: bytes, now_us: int
    ) -> None:
        """Keep a manifest that an accepted one follows for good, as one that everything else follows."""


class GroupRecords(ManifestRecords, PastRecords, Protocol):
    """Manifests and secrets of this device's groups."""

    def manifests(self) -> list[tuple[GroupId, ManifestHash, bytes]]:
        """Return (group_id, hash, manifest) of what is not settled or was settled last, by group, version and hash."""

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


class VoteRecords(Protocol):
    """Votes about members that have not decided anything yet."""

    def of_group(self, group_id: GroupId) -> list[bytes]:
        """Return votes about a group's members that have not decided yet."""

    def save(self, group_id: GroupId, raw: bytes) -> None:
        """Keep a vote; a bounded number for each group."""

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


class InviteRecords(Protocol):
    """This device's invites."""

    def all(self) -> list[OpenInvite]:
        """Return the invites of this device that have not expired."""

    def open(self, invite: OpenInvite, now_us: int) -> None:
        """Remember an invite, and forget those that nobody can use any more."""

    def use(self, secret_hash: bytes, joiner: DeviceKey) -> None:
        """Mark an invite as used, for good."""


class GatheringRecords(InviteRecords, Protocol):
    """This device's invites, with who of those that bear them waits to be let in together."""

    def keep_request(self, secret_hash: bytes, joiner: DeviceKey, request: bytes) -> None:
        """Keep a JOIN's body with its invite, which is the joiner's alone from now on."""

    def drop_request(self, secret_hash: bytes) -> None:
        """Note that the request is dealt with."""


class JoinRecords(Protocol):
    """Groups that this device has asked to join."""

    def pending(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""

    def begin(self, pending: PendingJoin) -> None:
        """Remember a join beside others of the same group; by an invite, public ones end, and the other way round."""

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


class SilentRecords(Protocol):
    """Collectors that do not answer."""

    def silent(self) -> set[DeviceKey]:
        """Return the collectors that new telemetry does not go to."""


class CarrierRecords(Protocol):
    """Which gateway carries for which board."""

    def of(self, device: DeviceKey) -> DeviceKey | None:
        """Return the device that carries for another one, a board."""


class ControlRecords(Protocol):
    """The control messages that wait."""

    def bytes_by_class(self) -> Mapping[MessageClass, int]:
        """Return the bytes of each class of messages that wait for an acknowledgement."""

    def waiting_bytes(self, recipient: DeviceKey, kind: MessageClass) -> int:
        """Return how many bytes of a class wait for a recipient."""

    def control_messages(self, recipient: DeviceKey) -> list[tuple[Place, bytes]]:
        """Return (place, message) of the control messages that wait for a recipient."""

    def recipients(self) -> list[DeviceKey]:
        """Return the recipients that the outbox holds messages for."""


def groups_of_waiting(outbox: ControlRecords, recipient: DeviceKey, kind: MessageType) -> list[GroupId]:
    """Return of which group each message of a type is that waits for a device."""
    waiting = (read_message(raw, verify=False) for _, raw in outbox.control_messages(recipient))
    return [each.group_id for each in waiting if each.type is kind]


class AddressRecords(Protocol):
    """What addresses follow from."""

    @property
    def departures(self) -> DepartureRecords:
        """Removed devices that have not acknowledged their departure notice."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""


class InvitationRecords(Protocol):
    """What invitations need."""

    @property
    def invites(self) -> InviteRecords:
        """This device's invites."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""


class MembershipRecords(Protocol):
    """What this device's groups need."""

    @property
    def events(self) -> EventRecords:
        """What happened, for those who ask later."""

    @property
    def groups(self) -> GroupRecords:
        """Manifests and secrets."""

    @property
    def departures(self) -> DepartureRecords:
        """Removed devices that have not acknowledged their departure notice."""

    @property
    def invites(self) -> InviteRecords:
        """This device's invites."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def collectors(self) -> SilentRecords:
        """Collectors that do not answer."""


class ExpiryRecords(Protocol):
    """What giving up needs."""

    @property
    def groups(self) -> GroupRecords:
        """Manifests and secrets."""

    @property
    def outbox(self) -> ControlRecords:
        """Messages that wait for their recipients."""

    @property
    def departures(self) -> DepartureRecords:
        """Removed devices that have not acknowledged their departure notice."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""


class RotationRecords(Protocol):
    """What announcing a noise key needs."""

    @property
    def invites(self) -> InviteRecords:
        """This device's invites."""

    @property
    def outbox(self) -> ControlRecords:
        """Messages that wait for their recipients."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def carriers(self) -> CarrierRecords:
        """Which gateway carries for which board."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""


class MaintenanceRecords(Protocol):
    """What the maintenance of groups needs."""

    @property
    def invites(self) -> GatheringRecords:
        """This device's invites."""

    @property
    def groups(self) -> GroupRecords:
        """Manifests and secrets."""

    @property
    def outbox(self) -> ControlRecords:
        """Messages that wait for their recipients."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def carriers(self) -> CarrierRecords:
        """Which gateway carries for which board."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""
