"""The outbox growth of an open transaction: numbers and totals are written once per commit, not per message.

1. The device's row has the next number of any message, and totals (messages, bytes, bytes of each class). The row of
   each recipient has its next place, and totals (messages, and whether there may be batches among them).
2. Both rows are read when a transaction first queues something for a recipient. Code that reads or changes these
   columns first writes what is kept here (`write`).
3. Nothing is kept outside of a transaction, and nothing after `write`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey
from covey.core.link.queued import MessageClass
from covey.errors import DamagedStateError

BYTES_OF_CLASS = {
    MessageClass.CONTROL: "control_bytes",
    MessageClass.DATA: "data_bytes",
    MessageClass.TELEMETRY: "telemetry_bytes",
    MessageClass.HISTORY: "history_bytes",
    MessageClass.ALARM: "alarm_bytes",
}
"""The device row's total of each class."""

ERASED_CLASSES = frozenset({MessageClass.CONTROL, MessageClass.HISTORY})
"""What may hold a group's secrets, or what was said in it: a group that is erased must not outlive itself here."""

_GROWN = (
    "UPDATE device SET next_seq = ?, queued_messages = queued_messages + ?, queued_bytes = queued_bytes + ?, "  # noqa: S608 - our names
    + ", ".join(f"{column} = {column} + ?" for column in BYTES_OF_CLASS.values())
)


@dataclass(slots=True)
class _Growing:
    """A recipient's queue, with the messages that were added."""

    peer: int
    base: int
    next_place: int
    messages: int = 0
    with_batches: bool = False


class OutboxGrowth:
    """Allocates numbers, and keeps what is queued under them until it is written."""

    def __init__(self, database: Database) -> None:
        self.allocated = 0
        """How many numbers were allocated since the start, also those of transactions that were rolled back."""
        self._database = database
        self._queues: dict[DeviceKey, _Growing] = {}
        self._bytes: Counter[MessageClass] = Counter()
        self._next_seq = 0
        self._bytes_before = 0
        self._of_groups_before = 0
        database.remember(self._forget, self.write)

    def allocate(self, recipient: DeviceKey) -> tuple[int, int]:
        """Return the next (seq, link_seq) for a recipient."""
        queue = self._queue(recipient)
        seq, place = self._next_seq, queue.next_place
        self.allocated += 1
        self._next_seq += 1
        queue.next_place += 1
        self._write_outside()
        return seq, place - queue.base

    def _queue(self, recipient: DeviceKey) -> _Growing:
        """Return a recipient's queue, made if it has none."""
        if not self._database.within:
            self._forget()
        elif (known := self._queues.get(recipient)) is not None:
            return known
        if not self._queues:
            found = self._database.first("SELECT next_seq, queued_bytes, control_bytes + history_bytes FROM device")
            if found is None:
                raise DamagedStateError("the state database lacks a required row")
            self._next_seq, self._bytes_before, self._of_groups_before = found
        row = self._database.first("SELECT id, base, next_place FROM peer WHERE signing_public = ?", (recipient,))
        if row is None:
            row = self._database.first(
                "INSERT INTO peer (signing_public) VALUES (?) RETURNING id, base, next_place", (recipient,)
            )
        self._queues[recipient] = queue = _Growing(*row)
        return queue

    @property
    def bytes(self) -> int:
        """The bytes of the outbox when numbers were allocated last, with all that was added since."""
        return self._bytes_before + self._bytes.total()

    def total(self) -> int:
        """Return the bytes of the outbox now. Reads the device's row only where this transaction has not done so."""
        return self.bytes if self._queues else self._database.one("SELECT queued_bytes FROM device")

    @property
    def holds_of_groups(self) -> bool:
        """Whether something waits that has to be erased with its group."""
        return self._of_groups_before > 0 or any(each in self._bytes for each in ERASED_CLASSES)

    def row(self, recipient: DeviceKey) -> tuple[int, int]:
        """Return the number of a recipient's queue, and the base of its places."""
        queue = self._queue(recipient)
        return queue.peer, queue.base

    def add(self, recipient: DeviceKey, kind: MessageClass, size: int) -> None:
        """Count one more message of a queue whose `row` was read."""
        queue = self._queues[recipient]
        queue.messages += 1
        queue.with_batches |= kind in {MessageClass.TELEMETRY, MessageClass.ALARM}
        self._bytes[kind] += size
        self._write_outside()

    def _write_outside(self) -> None:
        if not self._database.within:
            self.write()

    def write(self) -> None:
        """Write what is kept, and keep nothing."""
        if not self._queues:
            return
        of_classes = [self._bytes[kind] for kind in BYTES_OF_CLASS]
        messages = sum(queue.messages for queue in self._queues.values())
        self._database.run(_GROWN, (self._next_seq, messages, self._bytes.total(), *of_classes))
        self._database.run_each(
            "UPDATE peer SET next_place = ?, queued_messages = queued_messages + ?, holds_batches = holds_batches OR ? "
            "WHERE id = ?",
            [(each.next_place, each.messages, each.with_batches, each.peer) for each in self._queues.values()],
        )
        self._forget()

    def _forget(self) -> None:
        self._queues.clear()
        self._bytes.clear()
