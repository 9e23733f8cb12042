"""What a node reads and writes of its durable state, as one Protocol.

Every call happens inside a transaction that the runtime opened and will commit before it releases anything. The core
decides what to write; it never knows where. `adapters/sqlite/store.py` implements it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from covey.core.crypto import DeviceKeys
from covey.core.link.incarnations import Gone, IncarnationSpan
from covey.core.link.link_keys import LinkKeyRecords
from covey.core.pairing.records import GroupRequest
from covey.core.presence.status import PeerPresence
from covey.core.wire.message import LossReason, Message
from covey.core.wire.sequences import Range, SequenceSet


class MessageClass(IntEnum):
    """How an outbox treats a message when room is short."""

    CONTROL = 0
    DATA = 1
    TELEMETRY = 2


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


class Records(LinkKeyRecords, Protocol):
    """The durable state of one device."""

    def incarnation(self) -> bytes:
        """Return the 8 bytes drawn when this state was new."""

    def spans(self, recipient: bytes) -> list[IncarnationSpan]:
        """Return the incarnations of a recipient's queue, oldest first; none where nothing was ever queued."""

    def doubt(self, recipient: bytes, incarnation: bytes, now_us: int) -> bool:
        """Begin another incarnation, as a recipient has shown that the present one had another life.

        What waits in it is signed anew. False where the same recipient has said so a short time ago: nothing changes.
        """

    def recipients_unreported(self) -> list[bytes]:
        """Return the recipients that have not been told of everything that is gone."""

    def losses_to_report(self, recipient: bytes) -> list[Gone]:
        """Return what is gone and no record tells yet; nothing as long as an earlier record waits for the recipient.

        So what is lost meanwhile keeps company, in one record. A bounded number, by place.
        """

    def losses_reported(self, recipient: bytes, last_place: int) -> None:
        """Forget what is gone up to a place: signed records are queued, and the last one is what waits now."""

    def allocate_number(self) -> int:
        """Return the next telemetry number of this device; it is never given again."""

    def allocate(self, recipient: bytes) -> tuple[int, int]:
        """Return the next (seq, link_seq) for a message to a recipient; neither is ever given again."""

    def queue(
        self,
        recipient: bytes,
        seq: int,
        link_seq: int,
        kind: MessageClass,
        message: bytes,
        now_us: int,
        number: int | None = None,
        *,
        beyond: bool = False,
    ) -> None:
        """Append a signed message to the outbox; `number` is a telemetry batch's own.

        Raises:
            OutboxFullError: the outbox has reached its bound; control messages may exceed it.
        """

    def limit_life(self, recipient: bytes, link_seq: int, lifetime_us: int) -> None:
        """Let a message that was just queued expire when this state has aged by its lifetime, and not before."""

    def grow_older(self, elapsed_us: int) -> None:
        """Add to this state's age: the time that agents have run on it, which no clock can set."""

    def expire(self) -> list[tuple[bytes, list[Range]]]:
        """Forget what has outlived its lifetime, a bounded number; return whose places, which are to be told."""

    def queued(self, recipient: bytes, after_link_seq: int, limit: int, size: int) -> list[tuple[int, bytes]]:
        """Return (place, message) of a recipient in order: up to `limit`, until their bytes reach `size`."""

    def make_room(self, recipient: bytes, size: int) -> list[Range]:
        """Where `size` more bytes would not fit, forget the recipient's oldest telemetry; return the places.

        They are to be told. Where that would not suffice, nothing is forgotten: `queue` will refuse.
        """

    def withdraw(
        self, recipient: bytes, link_seq: int, code: str, now_us: int, reason: LossReason | None = None
    ) -> bool:
        """Move the message of a place from the outbox to quarantine; False where it is gone already.

        With a reason, its recipient is to be told.
        """

    def recipients_waiting(self) -> list[bytes]:
        """Return the recipients that the outbox holds messages for."""

    def free(self, recipient: bytes, received: SequenceSet) -> int:
        """Forget the places that the recipient holds; return how many messages that were."""

    def withdraw_all(self, recipient: bytes) -> list[Range]:
        """Forget what waits for a recipient, control messages and batches apart; return its places, to be told."""

    def silent_collectors(self) -> set[bytes]:
        """Return the collectors that new telemetry does not go to."""

    def set_silent(self, device: bytes, since_us: int | None) -> None:
        """Note that a collector is silent, or, with None, that it is not."""

    def recipients_of_batches(self) -> set[bytes]:
        """Return the recipients whose queues may hold telemetry of this device."""

    def holds_no_batches(self, recipient: bytes) -> None:
        """Note that a queue has been looked through and holds none, until one is queued."""

    def moved(self, recipient: bytes, place: int) -> None:
        """Forget a place of a queue whose message goes another way: nothing of it is lost, and nothing told."""

    def forget_queue(self, recipient: bytes, *, but_telemetry: bool = False) -> int:
        """Forget whatever waits for a recipient, or was to be told to it; return how many messages that was."""

    def control_waits(self) -> bool:
        """Say whether any control message waits for an acknowledgement."""

    def control_messages(self, recipient: bytes) -> list[tuple[int, bytes]]:
        """Return (place, message) of the control messages that wait for a recipient."""

    def incarnations(self, author: bytes) -> int:
        """Return of how many incarnations of an author links are remembered."""

    def forget_incarnations(self, author: bytes, keep: bytes) -> None:
        """Forget an author's links, except for one incarnation and those of which something has still to land."""

    def let_go(self, recipient: bytes, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        """Return the link sequences of an span that its recipient lacks and the outbox does not hold."""

    def links(self, author: bytes) -> list[tuple[bytes, SequenceSet]]:
        """Return (incarnation, what has come) of each link from an author."""

    def received(self, author: bytes, incarnation: bytes) -> SequenceSet:
        """Return what has come over a link."""

    def set_received(self, author: bytes, incarnation: bytes, received: SequenceSet) -> None:
        """Remember what has come over a link."""

    def heard(self, device: bytes, now_us: int) -> None:
        """Note that something new came from a device: a message, or an acknowledgement of what was not acknowledged."""

    def links_heard(self, since_us: int, limit: int) -> list[tuple[bytes, bytes]]:
        """Return (author, incarnation) of the links from who was heard since a time, or to a minute; the newest first.

        A wall clock that has gone back hides none.
        """

    def presence(self, device: bytes) -> PeerPresence | None:
        """Return what a device has last told of itself."""

    def note_presence(self, device: bytes, told: PeerPresence) -> None:
        """Keep that."""

    def presence_floor(self) -> int:
        """Return below which counters of this device's own presence may have been used."""

    def set_presence_floor(self, floor: int) -> None:
        """Raise that: all below may be used now."""

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""

    def land(self, message: Message, now_us: int) -> bool:
        """Keep a message for the collector; False where too much waits for the vault."""

    def unlanded(self, author: bytes, incarnation: bytes) -> set[int]:
        """Return the link sequences of a link that wait for the vault."""

    def manifests(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (group_id, hash, manifest) of what is not settled or was settled last, by group, version and hash."""

    def manifests_from(self, group_id: bytes, version: int) -> list[bytes]:
        """Return every accepted manifest of a group from a version on, by version and hash."""

    def has_manifest(self, group_id: bytes, manifest_hash: bytes) -> bool:
        """Say whether a manifest was accepted before."""

    def save_manifest(self, group_id: bytes, manifest_hash: bytes, version: int, raw: bytes, now_us: int) -> None:
        """Keep an accepted manifest for good."""

    def settle_manifests(self, group_id: bytes, version: int) -> None:
        """Note that everything below a version is followed by everything else."""

    def reopen_manifests(self, group_id: bytes, version: int) -> None:
        """Note that what is at or above a version may have rivals."""

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

    def forget_group(self, group_id: bytes) -> None:
        """Forget a group's manifests and secrets."""

    def votes(self, group_id: bytes) -> list[bytes]:
        """Return votes about a group's members that have not decided yet."""

    def save_vote(self, group_id: bytes, raw: bytes) -> None:
        """Keep a vote; a bounded number for each group."""

    def drop_vote(self, group_id: bytes, raw: bytes) -> None:
        """Forget a vote."""

    def revocations(self) -> list[tuple[bytes, int]]:
        """Return (group_id, noted at) of groups that are being destroyed."""

    def note_revocation(self, group_id: bytes, raw: bytes, now_us: int) -> None:
        """Note that a group is being destroyed."""

    def end_revocation(self, group_id: bytes) -> None:
        """Forget that, with the group."""

    def departures(self) -> list[tuple[bytes, bytes]]:
        """Return (signing key, noise key) of devices that share no group with us and still have to hear of it."""

    def departures_due(self, before_us: int) -> list[bytes]:
        """Return the devices of departures for which nothing waits, or the oldest message was queued before a time."""

    def note_departure(self, signing_public: bytes, noise_public: bytes) -> None:
        """Keep the address of a device that was removed."""

    def end_departure(self, signing_public: bytes) -> None:
        """Forget that address."""

    def invites(self) -> list[OpenInvite]:
        """Return the invites of this device that have not expired."""

    def open_invite(self, invite: OpenInvite, now_us: int) -> None:
        """Remember an invite, and forget those that nobody can use any more."""

    def use_invite(self, secret_hash: bytes, joiner: bytes) -> None:
        """Mark an invite as used, for good."""

    def pending_joins(self) -> list[PendingJoin]:
        """Return the joins that wait for an answer."""

    def begin_join(self, pending: PendingJoin) -> None:
        """Remember a join."""

    def end_join(self, group_id: bytes) -> None:
        """Forget a pending join."""

    def group_requests(self) -> list[GroupRequest]:
        """Return the invitations to further groups that wait for a person, the oldest first."""

    def save_group_request(self, request: GroupRequest) -> None:
        """Keep an invitation; a later one to the same group by the same member replaces it."""

    def drop_group_request(self, group_id: bytes, inviter: bytes | None = None) -> None:
        """Forget a member's invitation to a group, or everybody's."""

    def carrier(self, device: bytes) -> bytes | None:
        """Return the device that carries for another one, a board."""

    def set_carrier(self, device: bytes, carrier: bytes) -> None:
        """Remember who carries for a board."""

    def quarantine(self, code: str, message: bytes, now_us: int, recipient: bytes | None = None) -> None:
        """Keep an authentic message that could not be used, or sent to a recipient, for a person to look at."""

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter that `covey status` shows."""


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """A segment that a collector has decided to write: fixed before any of it is written."""

    number: int
    incarnation: bytes
    last_id: int
    created_at_us: int
    nonce: bytes


@dataclass(frozen=True, slots=True)
class LandedMessage:
    """One message of a plan."""

    author: bytes
    incarnation: bytes
    link_seq: int
    received_at_us: int
    message: bytes
    recipient: bytes | None = None
    """Of a message of this device's own that waits for somebody: `link_seq` is its place in that queue."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message that was set aside: on its way to a recipient, or, without one, when it had come."""

    id: int
    code: str
    stored_at_us: int
    recipient: bytes | None
    message: bytes


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """What the outbox holds for one recipient."""

    recipient: bytes
    queued: int
    acknowledged: int
    oldest_at_us: int | None
