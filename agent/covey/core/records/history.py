"""Durable state of histories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from covey.core.history.operation import (
    Behind,
    Held,
    Log,
    LogEnd,
    OfferWait,
    Operation,
    OperationShape,
    Remains,
    StoredOperation,
)
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId, Place
from covey.core.orders.nodes import OrderNode


class OrderRecords(Protocol):
    """A group's operations, as far as orders are judged by them: a table, or a selection of one."""

    def nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield what bears on orders, by height and id."""

    def judged_nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield only those by which orders are judged. Their ancestry takes all `nodes`."""

    def raw(self, group_id: GroupId, operation_id: OperationId) -> bytes | None:
        """Return an operation's bytes."""


class OperationRecords(OrderRecords, Protocol):
    """The operations of this device's groups."""

    def held(self, group_id: GroupId, operation_id: OperationId) -> Held | None:
        """Return what is known of an operation that is here, or was forgotten."""

    def numbered(self, group_id: GroupId, log: Log, number: int) -> int:
        """Return how many operations a log has under one number, forgotten ones included: two prove a fork."""

    def end_of(self, group_id: GroupId, log: Log) -> LogEnd | None:
        """Return how far a log has come, whether its last operation is here or was forgotten; None: not begun."""

    def logs(self, group_id: GroupId) -> list[tuple[Log, int]]:
        """Return (log, highest number) of every log, sorted."""

    def authors(self, group_id: GroupId) -> frozenset[DeviceKey]:
        """Return the authors of all logs."""

    def log_lengths(self, group_id: GroupId, author: DeviceKey) -> list[tuple[Incarnation, int]]:
        """Return (incarnation, bytes of its operations) of an author's logs, by incarnation."""

    def length(self, group_id: GroupId) -> int:
        """Return how many bytes the operations of all authors have, forgotten ones included."""

    def author_lengths(self, group_id: GroupId) -> dict[DeviceKey, int]:
        """Return by author how many bytes its operations have, forgotten ones included."""

    def authors_beyond(self, group_id: GroupId, logs: int, length: int) -> frozenset[DeviceKey]:
        """Return the authors that have more logs here than a number, or more bytes."""

    def rivals_below(self, group_id: GroupId, operation: Operation) -> int:
        """Return how many operations under the same number of its log have lower ids, forgotten ones included."""

    def is_followed(self, group_id: GroupId, operation: Operation) -> bool:
        """Say whether an operation names it as a parent, or as the one before it in its log."""

    def drop(self, group_id: GroupId, operation_id: OperationId) -> list[OperationId]:
        """Delete an operation that is here and that none follows; return those that it followed."""

    def heads(self, group_id: GroupId) -> list[OperationId]:
        """Return the operations that none follows, sorted."""

    def after(self, group_id: GroupId, log: Log, number: int) -> Iterator[tuple[int, OperationId, bytes]]:
        """Yield (height, id, operation) of a log's operations after a number."""

    def of_kind(self, group_id: GroupId, kind: int, *, newest_first: bool = False) -> Iterator[StoredOperation]:
        """Yield the operations of a kind, by height and id."""

    def shapes(self, group_id: GroupId) -> Iterator[OperationShape]:
        """Yield where each operation stands, also one that was forgotten, each after all that follow it."""

    def shape(self, group_id: GroupId, operation_id: OperationId) -> OperationShape | None:
        """Return where an operation stands, also one that was forgotten."""

    def remains(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
        """Yield by height and id what remains of each operation, or would, with its arrival, and what it approves.

        Each has its target, and is `judged` by its kind alone.
        """

    def remember(self, group_id: GroupId, remains: Remains, manifest_version: int, *, late: bool = False) -> None:
        """Keep where an operation stands, as if what it says had been forgotten here."""

    def forgotten_ends(self, group_id: GroupId) -> dict[Log, int]:
        """Return by log up to which number operations were forgotten."""

    def add(self, operation: Operation, manifest_version: int, now_us: int, *, late: bool = False) -> None:
        """Store an accepted operation; its parents are no longer heads."""

    def frontier(self, group_id: GroupId, operation_id: OperationId) -> tuple[int, ...]:
        """Return the arrivals of the last of what bears on orders that an operation follows, or is."""


class AnnouncementRecords(Protocol):
    """How much of this device's own operations each member has been sent, one row a member."""

    def of(self, group_id: GroupId, member: DeviceKey, log: Log) -> Behind | None:
        """Return what a member has been sent of a log; None where that is nothing."""

    def announced(self, group_id: GroupId, member: DeviceKey, place: Place, log: Log, number: int) -> None:
        """Note that a log up to a number waits for a member, at a place of its queue."""

    def behind(self, group_id: GroupId, log: Log, member: DeviceKey | None = None) -> list[Behind]:
        """Return a group's members, or the one, that have been sent less of a log than was written."""

    def forget(self, group_id: GroupId, member: DeviceKey) -> None:
        """Forget what a member has been sent."""


class CatchUpRecords(Protocol):
    """The members that deliver missing history, and how long graphs have been offered."""

    def note(self, group_id: GroupId, member: DeviceKey, *, taken: int, waiting: int, more: int, now_us: int) -> None:
        """Note what a message of a member has brought; nothing is kept of one that leaves nothing to fetch."""

    def offered(self) -> list[GroupId]:
        """Return the groups whose graph was offered, and in which this device waits on."""

    def offer_wait(self, group_id: GroupId) -> OfferWait | None:
        """Return how long it has waited since a graph was offered; None where no graph was offered."""

    def note_offer(self, group_id: GroupId, wait: OfferWait) -> None:
        """Note how long it has waited since then."""

    def forget_offer(self, group_id: GroupId) -> None:
        """Forget that a graph was offered."""
