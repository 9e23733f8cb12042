"""How a device answers members that ask for what they lack of a history.

1. Who asks says how far it has come in each log, and is answered with what comes after that, the lowest first, as
   much as one message carries. Where not even the lowest is small enough for a relay there is no answer.
2. Who has not taken what it was given before is given nothing more.
3. Who has forgotten operations that an asker lacks does not answer: the rest would wait for them at the asker, and be
   asked for again and again. Whoever keeps them answers; what others can give is in `checkpoints/newcomers.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.group.messages import GroupSend
from covey.core.history.messages import HistoryPull, OperationBundle, bundle_payload_bytes
from covey.core.history.operation import read_operation
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.carriage import Carriage
from covey.core.link.records import MessageClass
from covey.core.wire.message import Message, MessageType
from covey.limits.history import (
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_OPERATION_BYTES,
)

_AROUND_BODY = MAXIMUM_OPERATION_BYTES - MAXIMUM_OPERATION_BODY_BYTES

if TYPE_CHECKING:
    from covey.core.records import Records


class HistoryAnswering:
    """Gives members what they lack."""

    def __init__(self, records: Records, carriage: Carriage) -> None:
        self._records = records
        self._carriage = carriage

    def read_pull(self, message: Message) -> HistoryPull:
        """Read a request, as far as it names logs that are here.

        Raises:
            RemoteError: malformed.
        """
        pull = HistoryPull.from_wire(message.body)
        return pull.among(log for log, _ in self._records.operations.logs(message.group_id))

    def lacks_forgotten(self, group_id: GroupId, pull: HistoryPull) -> bool:
        """Say whether an asker lacks what was forgotten here."""
        forgotten = self._records.operations.forgotten.ends(group_id)
        return any(number > pull.end_of(log) for log, number in forgotten.items())

    def is_fed(self, member: DeviceKey) -> bool:
        """Say whether a member has not taken what it was given before."""
        return self._records.outbox.waiting_bytes(member, MessageClass.HISTORY) > BUNDLE_OPERATION_BYTES

    def answer(self, message: Message) -> list[GroupSend]:
        """Give a member what it lacks, by the rules.

        Raises:
            RemoteError: malformed.
        """
        pull = self.read_pull(message)
        if self.is_fed(message.author):
            self._records.counters.count("pulls_unanswered")
            return []
        if self.lacks_forgotten(message.group_id, pull):
            self._records.counters.count("pulls_of_forgotten")
            return []
        bundle = self.bundle(message.group_id, pull)
        if not bundle.operations:
            return []
        if not self.fits_a_relay(len(bundle.operations), sum(map(len, bundle.operations))):
            self._records.counters.count("pulls_too_large")
            return []
        return [GroupSend(message.author, MessageType.OPERATIONS, message.group_id, bundle.to_wire())]

    def bundle(self, group_id: GroupId, pull: HistoryPull) -> OperationBundle:
        """Return what an asker lacks, as much as one message carries.

        The first operation is there even where no relay takes it.
        """
        chosen: list[bytes] = []
        length = 0
        for raw in self._missing(group_id, pull):
            length += len(raw)
            bounded = len(chosen) < BUNDLE_OPERATIONS and length <= BUNDLE_OPERATION_BYTES
            if chosen and not (bounded and self.fits_a_relay(len(chosen) + 1, length)):
                return OperationBundle(tuple(chosen), max(1, self._count_missing(group_id, pull) - len(chosen)))
            chosen.append(raw)
        return OperationBundle(tuple(chosen))

    def fits_a_relay(self, operations: int, length: int) -> bool:
        """Say whether one message carries some operations, which are `length` bytes together."""
        return bundle_payload_bytes(operations, length) <= self._carriage.maximum_payload

    def largest_body(self) -> int:
        """Return how large the body of an operation may be, in bytes, so that a relay of this device carries it."""
        fitting, too_large = 0, MAXIMUM_OPERATION_BODY_BYTES + 1
        while too_large - fitting > 1:  # padding makes the size of a message a staircase
            middle = (fitting + too_large) // 2
            if self.fits_a_relay(1, middle + _AROUND_BODY):
                fitting = middle
            else:
                too_large = middle
        return fitting

    def _count_missing(self, group_id: GroupId, pull: HistoryPull) -> int:
        """Return how many operations come after the ends of logs, those that were forgotten among them."""
        return sum(max(0, number - pull.end_of(log)) for log, number in self._records.operations.logs(group_id))

    def _missing(self, group_id: GroupId, pull: HistoryPull) -> Iterator[bytes]:
        """Yield what comes after the ends of logs, and what is wanted by its id, the lowest first."""
        records = self._records.operations
        logs = [log for log, number in records.logs(group_id) if number > pull.end_of(log)]
        after = [records.after(group_id, log, pull.end_of(log)) for log in logs]
        named = [(each, raw) for each in pull.wanted if (raw := records.raw(group_id, each)) is not None]
        by_name = sorted((read_operation(raw, verify=False).height, each, raw) for each, raw in named)
        before = None
        for _, operation_id, raw in heapq.merge(by_name, *after):
            if operation_id != before:
                yield raw
            before = operation_id
