"""The outbox growth of an open transaction: totals are written once per commit, not per message.

1. Totals are in the device's row (messages, bytes, bytes of each class) and in each recipient's (messages, and whether
   there may be batches among them). Code that reads or reduces them first writes what is kept here (`write`).
2. Both rows' totals are read when numbers are allocated, which is a statement anyway.
3. Nothing is kept outside of a transaction.
"""

from __future__ import annotations

from collections import Counter

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

_GROWN = "UPDATE device SET queued_messages = queued_messages + ?, queued_bytes = queued_bytes + ?, " + ", ".join(  # noqa: S608 - our names
    f"{column} = {column} + ?" for column in BYTES_OF_CLASS.values()
)


class OutboxGrowth:
    """Allocates numbers, and keeps what is queued under them until it is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._messages: Counter[DeviceKey] = Counter()
        self._with_batches: set[DeviceKey] = set()
        self._bytes: Counter[MessageClass] = Counter()
        self._bytes_before = 0
        self._of_groups_before = 0
        self._rows: dict[DeviceKey, tuple[int, int]] = {}
        database.remember(self._forget, self.write)

    def allocate(self, recipient: DeviceKey) -> tuple[int, int]:
        """Return the next (seq, link_seq) for a recipient."""
        found = self._database.first(
            "UPDATE device SET next_seq = next_seq + 1 "
            "RETURNING next_seq - 1, queued_bytes, control_bytes + history_bytes"
        )
        if found is None:
            raise DamagedStateError("the state database lacks a required row")
        seq, self._bytes_before, self._of_groups_before = found
        peer, base, link_seq = self._database.first(
            "INSERT INTO peer (signing_public, next_place) VALUES (?, 2) "
            "ON CONFLICT DO UPDATE SET next_place = next_place + 1 RETURNING id, base, next_place - 1 - base",
            (recipient,),
        )
        self._rows[recipient] = peer, base
        return seq, link_seq

    @property
    def bytes(self) -> int:
        """The bytes of the outbox when numbers were allocated last, with all that was added since."""
        return self._bytes_before + self._bytes.total()

    def total(self) -> int:
        """Return the bytes of the outbox now. Reads the device's row only where this transaction has not done so."""
        if not self._rows:
            return self._database.one("SELECT queued_bytes FROM device") + self._bytes.total()
        return self.bytes

    def shrank(self, size: int) -> None:
        """Note that so many bytes have left the outbox; the device's row says so already."""
        self._bytes_before -= size

    @property
    def holds_of_groups(self) -> bool:
        """Whether something waits that has to be erased with its group."""
        return self._of_groups_before + sum(self._bytes[each] for each in ERASED_CLASSES) > 0

    def row(self, recipient: DeviceKey) -> tuple[int, int]:
        """Return the number of a recipient's queue, and the base of its places, as of when numbers were allocated."""
        known = self._rows.get(recipient)
        if known is None:
            known = self._database.first("SELECT id, base FROM peer WHERE signing_public = ?", (recipient,))
            self._bytes_before, self._of_groups_before = self._database.first(
                "SELECT queued_bytes, control_bytes + history_bytes FROM device"
            )
        return known

    def add(self, recipient: DeviceKey, kind: MessageClass, size: int) -> None:
        """Count one more message."""
        self._messages[recipient] += 1
        self._bytes[kind] += size
        if kind in {MessageClass.TELEMETRY, MessageClass.ALARM}:
            self._with_batches.add(recipient)
        if not self._database.within:
            self.write()
            self._forget()

    def write(self) -> None:
        """Write what is kept."""
        if not self._messages:
            return
        of_classes = [self._bytes[kind] for kind in BYTES_OF_CLASS]
        self._database.run(_GROWN, (self._messages.total(), self._bytes.total(), *of_classes))
        self._database.run_each(
            "UPDATE peer SET queued_messages = queued_messages + ?, holds_batches = holds_batches OR ? "
            "WHERE signing_public = ?",
            [(count, recipient in self._with_batches, recipient) for recipient, count in self._messages.items()],
        )
        self._bytes_before += self._bytes.total()
        self._messages.clear()
        self._with_batches.clear()
        self._bytes.clear()

    def _forget(self) -> None:
        self._messages.clear()
        self._with_batches.clear()
        self._bytes.clear()
        self._rows.clear()
