"""This device's own telemetry: into its collector's queue, and out of it again where the device lands it itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.send_queue import SendQueue
from covey.core.link.sender import Sender
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType, read_message
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.core.records import Records

_DAY_US = 86_400_000_000


class Publishing:
    """Queues batches for the collector of a group."""

    def __init__(self, own: DeviceKey, groups: Groups, records: Records, queue: SendQueue, sender: Sender) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._queue = queue
        self._sender = sender

    def queued(self) -> Iterator[tuple[DeviceKey, Place, Message]]:
        """Yield (recipient, place, message) of this device's telemetry that waits for others, as it was signed."""
        for recipient in self._records.outbox.recipients():
            after = Place(0)
            while rows := self._sender.waiting(recipient, after):
                after = rows[-1][0]
                for place, raw in rows:
                    message = read_message(raw, verify=False)
                    if message.type is MessageType.REDIRECTED:
                        message = read_message(message.body, verify=False)
                    if message.type is MessageType.TELEMETRY and recipient != self._own:
                        yield recipient, place, message

    def pushed(self, recipient: DeviceKey, place: Place) -> None:
        """Take telemetry out of a queue: this device has landed it itself. Inside a transaction."""
        self._queue.remove(recipient, place)

    def keep(self, days: float) -> None:
        """Let telemetry expire after so many days of running time; 0: never."""
        self._queue.telemetry_lifetime_us = int(days * _DAY_US) or None

    def send(self, group_id: GroupId, batch: bytes, readings: int, now: Now) -> None:
        """Queue one batch for this device's collector, and count its readings as published. Inside a transaction.

        Where the outbox is full, the oldest telemetry goes, and a signed loss record says so.

        Raises:
            LocalError: the group has no collector, or the outbox is full: then the caller rolls back.
            UnknownGroupError: this device is not in the group.
        """
        collector = self._groups.collector_of(group_id)
        if collector is None:
            raise LocalError("the group has no collector", hint="invite one: covey invite --capability collector")
        self._queue.queue_batch(collector.keys.signing_public, group_id, batch, now)
        self._records.counters.count("published_readings", readings)
        self._records.counters.count("published_messages")

    def count_replaced_times(self, readings: int) -> None:
        """Count readings whose time was not believed, so that they got the time of their arrival."""
        if readings:
            self._records.counters.count("published_times_replaced", readings)
