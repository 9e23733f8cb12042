"""What history reads and writes of the durable state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from covey.core.history.operation import Log, Operation
from covey.core.ids import DeviceKey, GroupId, Incarnation, ManifestHash, OperationId, Place
from covey.core.link.records import CounterRecords
from covey.core.membership.records import ControlRecords


@dataclass(frozen=True, slots=True)
class Held:
    """What acceptance asks of an operation that is here: where it stands, and the version of its manifest."""

    height: int
    manifest_version: int
    log: Log
    number: int


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """An operation as it lies here: the how-manieth to come, and when that was."""

    arrival: int
    height: int
    stored_at_us: int
    id: OperationId
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperationShape:
    """Where an operation stands, whether it is here or was forgotten; `stored_at_us` is None where it was.

    `late` says that it came when its author was known to be no member any more.
    """

    arrival: int
    id: OperationId
    author: DeviceKey
    manifest: ManifestHash
    parents: tuple[OperationId, ...]
    kind: int
    late: bool
    stored_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Remains:
    """What remains of an operation where what it says is forgotten; `length` is that of the whole one, in bytes.

    `judged` says that others are judged by what it says, so that it is never forgotten by a checkpoint that covers it.
    `target` is what stays of an order's words (`core/orders/target.py`), empty of everything else; None in a graph of
    the form that has none.
    """

    id: OperationId
    log: Log
    number: int
    height: int
    manifest: ManifestHash
    kind: int
    judged: bool
    length: int
    parents: tuple[OperationId, ...]
    target: bytes | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """How much is here: logs, and the bytes of their operations."""

    logs: int
    length: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A member that has been sent a log up to a number; `waits` says that it has not acknowledged that yet."""

    group_id: GroupId
    member: DeviceKey
    number: int
    waits: bool


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a log has come: its highest number, an operation of that, and how many bytes its operations have."""

    number: int
    last: OperationId
    length: int


class ForgottenRecords(Protocol):
    """The operations that are not here any more."""

    def ends(self, group_id: GroupId) -> dict[Log, int]:
        """Return by log up to which number operations were forgotten."""


class PlaceRecords(Protocol):
    """Where operations stand, whether what they say is here or was forgotten."""

    def remains(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
        """Yield by height and id what remains of each operation, or would, with its arrival, and what it approves.

        Each has its target, and is `judged` by its kind alone.
        """

    def remember(self, group_id: GroupId, remains: Remains, manifest_version: int, *, late: bool = False) -> None:
        """Keep where an operation stands, as if what it says had been forgotten here."""


class OperationRecords(Protocol):
    """The operations of this device's groups."""

    def held(self, group_id: GroupId, operation_id: OperationId) -> Held | None:
        """Return what is known of an operation that is here, or was forgotten."""

    def numbered(self, group_id: GroupId, log: Log, number: int) -> int:
        """Return how many operations are here under one number of a log: more than one prove a fork."""

    def end_of(self, group_id: GroupId, log: Log) -> LogEnd | None:
        """Return how far a log has come; None where nothing of it is here."""

    def logs(self, group_id: GroupId) -> list[tuple[Log, int]]:
        """Return (log, highest number) of every log, sorted."""

    def totals(self, group_id: GroupId, author: DeviceKey | None = None) -> Totals:
        """Return how much is here, of all authors or of one."""

    def heads(self, group_id: GroupId) -> list[OperationId]:
        """Return the operations that none follows, sorted."""

    def after(self, group_id: GroupId, log: Log, number: int) -> Iterator[tuple[int, OperationId, bytes]]:
        """Yield (height, id, operation) of a log's operations after a number."""

    def raw(self, group_id: GroupId, operation_id: OperationId) -> bytes | None:
        """Return an operation's bytes."""

    def of_kind(self, group_id: GroupId, kind: int, *, newest_first: bool = False) -> Iterator[StoredOperation]:
        """Yield the operations of a kind, by height and id."""

    def shapes(self, group_id: GroupId) -> Iterator[OperationShape]:
        """Yield where each operation stands, also one that was forgotten, each after all that follow it."""

    @property
    def places(self) -> PlaceRecords:
        """Where they stand, whether what they say is here or not."""

    @property
    def forgotten(self) -> ForgottenRecords:
        """The operations that are not here any more."""

    def add(self, operation: Operation, manifest_version: int, now_us: int, *, late: bool = False) -> None:
        """Keep an accepted operation for good; what it follows is no head any more."""


class AnnouncementRecords(Protocol):
    """How much of this device's own operations each member has been sent, one row a member."""

    def of(self, group_id: GroupId, member: DeviceKey, log: Log) -> Behind | None:
        """Return what a member has been sent of a log; None where that is nothing."""

    def announced(self, group_id: GroupId, member: DeviceKey, place: Place, log: Log, number: int) -> None:
        """Note that a log up to a number waits for a member, at a place of its queue."""

    def behind(self, log: Log) -> list[Behind]:
        """Return the members for whom more of a log was written than they have been sent."""

    def forget(self, group_id: GroupId, member: DeviceKey) -> None:
        """Forget what a member has been sent."""


class CatchUpRecords(Protocol):
    """The members from whom histories are being fetched."""

    def note(self, group_id: GroupId, member: DeviceKey, *, taken: int, waiting: int, more: int, now_us: int) -> None:
        """Note what a message of a member has brought; nothing is kept of one that leaves nothing to fetch."""


@dataclass(frozen=True, slots=True)
class OfferWait:
    """How long a device that was offered a graph has waited, in microseconds of running: since it was given operations
    last, and in all. None: it was given some since the last offer."""

    since_given_us: int | None
    whole_us: int


class GraphOfferRecords(Protocol):
    """How long this device has waited since each group's graph was offered."""

    def waiting(self) -> list[GroupId]:
        """Return in which groups it waits on."""

    def wait(self, group_id: GroupId) -> OfferWait | None:
        """Return how long it has waited; None where no graph was offered."""

    def note(self, group_id: GroupId, wait: OfferWait) -> None:
        """Note how long it has waited."""

    def forget(self, group_id: GroupId) -> None:
        """Forget that it was offered."""


class NamedManifestRecords(Protocol):
    """The manifests that operations name."""

    def manifest(self, group_id: GroupId, manifest_hash: ManifestHash) -> bytes | None:
        """Return an accepted manifest."""


class OwnIncarnation(Protocol):
    """The incarnation that this device writes in."""

    def present(self) -> Incarnation:
        """Return it."""


class AcceptanceRecords(Protocol):
    """What judging an operation needs."""

    @property
    def operations(self) -> OperationRecords:
        """The operations of this device's groups."""

    @property
    def groups(self) -> NamedManifestRecords:
        """The manifests that operations name."""


class HistoryRecords(AcceptanceRecords, Protocol):
    """What the history of this device's groups needs."""

    @property
    def announcements(self) -> AnnouncementRecords:
        """Which members have been sent this device's own operations."""

    @property
    def catching_up(self) -> CatchUpRecords:
        """The members from whom histories are being fetched."""

    @property
    def incarnations(self) -> OwnIncarnation:
        """The incarnation that this device writes in."""

    @property
    def outbox(self) -> ControlRecords:
        """Messages that wait for their recipients."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""
