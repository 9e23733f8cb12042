"""What the machines of membership read and write of the durable state: a small Protocol for each family of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from covey.core.crypto import DeviceKeys
from covey.core.link.records import CounterRecords
from covey.core.pairing.records import GroupRequest


@dataclass(frozen=True, slots=True)
class OpenInvite:
    """An invite as its issuer remembers it; `bound_to` is the one device that may use it, where it is not anybody's."""

    secret_hash: bytes
    group_id: bytes
    expires_at_us: int
    capabilities: tuple[str, ...]
    used_by: bytes | None
    bound_to: bytes | None = None


@dataclass(frozen=True, slots=True)
class PendingJoin:
    """A group that this device has asked to join, and the only device whose answer counts."""

    group_id: bytes
    inviter: DeviceKeys
    expires_at_us: int


class ManifestRecords(Protocol):
    """The accepted manifests of this device's groups."""

    def manifests_from(self, group_id: bytes, version: int, most: int) -> list[bytes]:
        """Return the first accepted manifests of a group from a version on, by version and hash."""

    def has_manifest(self, group_id: bytes, manifest_hash: bytes) -> bool:
        """Say whether a manifest was accepted before."""

    def save_manifest(self, group_id: bytes, manifest_hash: bytes, version: int, raw: bytes, now_us: int) -> None:
        """Keep an accepted manifest for good."""

    def reopen_manifests(self, group_id: bytes, version: int) -> None:
        """Note that what is at or above a version may have rivals."""


class GroupRecords(ManifestRecords, Protocol):
    """Manifests and secrets of this device's groups."""

    def manifests(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (group_id, hash, manifest) of what is not settled or was settled last, by group, version and hash."""

    def settle_manifests(self, group_id: bytes, version: int) -> None:
        """Note that everything below a version is followed by everything else."""

    def keep_early_manifest(self, group_id: bytes, manifest_hash: bytes, version: int, raw: bytes) -> None:
        """Keep a manifest that follows something unknown."""

    def early_manifests(self, group_id: bytes) -> list[bytes]:
        """Return the manifests kept so."""

    def drop_early_manifest(self, group_id: bytes, manifest_hash: bytes) -> None:
        """Forget one of them."""

    def save_secret(self, group_id: bytes, epoch_id: bytes, secret: bytes, now_us: int) -> None:
        """Keep an epoch's secret."""

    def secret(self, group_id: bytes, epoch_id: bytes) -> bytes | None:
        """Return an epoch's secret."""

    def forget(self, group_id: bytes) -> None:
        """Forget a group's manifests and secrets."""

    def revocations(self) -> list[tuple[bytes, int]]:
        """Return (group_id, noted at) of groups that are being destroyed."""

    def note_revocation(self, group_id: bytes, raw: bytes, now_us: int) -> None:
        """Note that a group is being destroyed."""


class VoteRecords(Protocol):
    """Votes about members that have not decided anything yet."""

    def of_group(self, group_id: bytes) -> list[bytes]:
        """Return votes about a group's members that have not decided yet."""

    def save(self, group_id: bytes, raw: bytes) -> None:
        """Keep a vote; a bounded number for each group."""

    def drop(self, group_id: bytes, raw: bytes) -> None:
        """Forget a vote."""


class DepartureRecords(Protocol):
    """Removed devices that have not acknowledged their departure notice."""

    def addresses(self) -> list[tuple[bytes, bytes]]:
        """Return (signing key, noise key) of devices that share no group with us and still have to hear of it."""

    def due(self, before_us: int) -> list[bytes]:
        """Return the devices of departures for which nothing waits, or the oldest message was queued before a time."""

    def note(self, signing_public: bytes, noise_public: bytes) -> None:
        """Keep the address of a device that was removed."""

    def end(self, signing_public: bytes) -> None:
        """Forget that address."""


class InviteRecords(Protocol):
    """This device's invites."""

    def all(self) -> list[OpenInvite]:
        """Return the invites of this device that have not expired."""

    def open(self, invite: OpenInvite, now_us: int) -> None:
        """Remember an invite, and forget those that nobody can use any more."""

    def use(self, secret_hash: bytes, joiner: bytes) -> None:
        """Mark an invite as used, for good."""


class JoinRecords(Protocol):
    """Groups that this device has asked to join."""

    def pending(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""

    def begin(self, pending: PendingJoin) -> None:
        """Remember a join."""

    def end(self, group_id: bytes) -> None:
        """Forget a pending join."""


class RequestRecords(Protocol):
    """Invitations to further groups that wait for a person."""

    def pending(self) -> list[GroupRequest]:
        """Return the invitations to further groups that wait for a person, the oldest first."""

    def save(self, request: GroupRequest) -> None:
        """Keep an invitation; a later one to the same group by the same member replaces it."""

    def drop(self, group_id: bytes, inviter: bytes | None = None) -> None:
        """Forget a member's invitation to a group, or everybody's."""


class SilentRecords(Protocol):
    """Collectors that do not answer."""

    def silent(self) -> set[bytes]:
        """Return the collectors that new telemetry does not go to."""


class CarrierRecords(Protocol):
    """Which gateway carries for which board."""

    def of(self, device: bytes) -> bytes | None:
        """Return the device that carries for another one, a board."""


class ControlRecords(Protocol):
    """The control messages that wait."""

    def control_waits(self) -> bool:
        """Say whether any control message waits for an acknowledgement."""

    def control_bytes(self, recipient: bytes) -> int:
        """Return how many bytes of control messages wait for a recipient."""

    def control_messages(self, recipient: bytes) -> list[tuple[int, bytes]]:
        """Return (place, message) of the control messages that wait for a recipient."""

    def recipients(self) -> list[bytes]:
        """Return the recipients that the outbox holds messages for."""


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
