"""Which collector a device's telemetry goes to, and what happens to messages that wait for another one.

1. The collectors of a group are ordered by their rendezvous hash with this device. New telemetry goes to the first that
   is not silent, or to the first if all are.
2. A collector is silent if something has waited for it for a while, nothing was acknowledged, and the relay was
   reachable. Messages already queued for it stay, and its first acknowledgement ends its silence. So does an empty
   queue, because then nothing would ever test it.
3. Messages for a former collector go to the current one: in a REDIRECTED, as they were signed. A table that has one
   already from its first recipient recognises a repetition. Without a collector, they wait.
4. A queue is searched once, a window at a time, and again only when telemetry is added or the collectors change,
   because queues for other members may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from covey.core.group.manifest import COLLECTOR
from covey.core.ids import DeviceKey, GroupId, Place
from covey.core.link.send_queue import SendQueue
from covey.core.link.sender import Sender
from covey.core.link.windows import Windows
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.telemetry.batch import Alarm
from covey.core.wire.message import BATCHES, Message, MessageType, read_message
from covey.errors import LocalError, MalformedError, RemoteError, UnknownGroupError
from covey.limits.relay import COLLECTOR_CHECK_US, REDIRECTED_AT_ONCE

if TYPE_CHECKING:
    from covey.core.records import Records


_MOVED = BATCHES | {MessageType.REDIRECTED}


class Collectors:
    """Watches the collectors of this device, and moves what waits for those that are none any more."""

    def __init__(
        self,
        own: DeviceKey,
        records: Records,
        queue: SendQueue,
        sender: Sender,
        windows: Windows,
        waiting_since_us: dict[DeviceKey, int],
        silent_us: int,
    ) -> None:
        self._own = own
        self._records = records
        self._queue = queue
        self._sender = sender
        self._windows = windows
        self._silent_us = silent_us
        self._check_at_us = 0
        self._waiting_since_us = waiting_since_us
        self._looked_at: dict[DeviceKey, tuple[Place, bool]] = {}
        self._stuck: dict[DeviceKey, set[DeviceKey]] = {}

    def has_work(self, now: Now) -> bool:
        """Say whether `maintain` has something to do."""
        return now.monotonic_us >= self._check_at_us

    def answered(self, device: DeviceKey, now: Now) -> None:
        """Note that a device has acknowledged something. Inside a transaction."""
        if device in self._waiting_since_us:
            self._waiting_since_us[device] = now.monotonic_us
        if device in self._records.presence.silent_collectors():
            self._records.presence.set_silent_collector(device, None)

    def maintain(self, groups: Groups, now: Now) -> None:
        """Do what is due. Inside a transaction."""
        if not self.has_work(now):
            return
        self._check_at_us = now.monotonic_us + min(COLLECTOR_CHECK_US, max(1, self._silent_us // 4))
        collectors = {
            member.keys.signing_public for group in groups.joined() for member in group.with_capability(COLLECTOR)
        }
        self._watch(collectors.intersection(self._records.outbox.recipients()) - {self._own}, now)
        if not collectors:
            return  # all waits, and however much that is, it is not looked through for nothing
        for recipient in sorted(self._records.outbox.recipients_of_batches() - collectors):
            if self._stuck.get(recipient) != collectors and self._redirect(groups, recipient, collectors, now):
                self._check_at_us = now.monotonic_us

    def _watch(self, waited_for: set[DeviceKey], now: Now) -> None:
        """Apply rule 2."""
        silent = self._records.presence.silent_collectors()
        for device in silent - waited_for:
            self._records.presence.set_silent_collector(device, None)
        if not self._windows.is_connected:
            self._waiting_since_us.clear()
            return
        since = {device: self._waiting_since_us.get(device, now.monotonic_us) for device in waited_for}
        self._waiting_since_us.clear()
        self._waiting_since_us.update(since)
        for device in waited_for - silent:
            if now.monotonic_us - since[device] >= self._silent_us:
                self._records.presence.set_silent_collector(device, now.wall_us)
                self._records.counters.count("silent_collectors")

    def _redirect(self, groups: Groups, recipient: DeviceKey, collectors: set[DeviceKey], now: Now) -> bool:
        """Search the next window of a queue, and move its telemetry; return whether there is more (rule 4)."""
        after, left = self._looked_at.pop(recipient, (Place(0), False))
        rows, moved = self._sender.waiting(recipient, after), 0
        for place, raw in rows:
            if moved >= REDIRECTED_AT_ONCE:
                break
            if _is_batch(raw):
                gone = self._redirected(groups, recipient, place, read_message(raw, verify=False), now)
                moved, left = moved + gone, left or not gone
            after = place
        if rows:
            self._looked_at[recipient] = after, left
            return True
        if left:
            self._stuck[recipient] = collectors
        else:
            self._records.outbox.holds_no_batches(recipient)
        return False

    def _redirected(self, groups: Groups, recipient: DeviceKey, place: Place, message: Message, now: Now) -> bool:
        try:
            collector = groups.collector_of(message.group_id)
        except UnknownGroupError:
            return False
        if collector is None:
            return False
        content = message.raw if message.type in BATCHES else message.body
        self._queue.redirect(recipient, place, collector.keys.signing_public, message.group_id, content, now)
        self._records.counters.count("redirected_messages")
        return True


def _is_batch(raw: bytes) -> bool:
    try:
        return read_message(raw, verify=False).type in _MOVED
    except RemoteError:
        return False  # nothing that this device has written; whoever gets it says so


def read_redirected(message: Message) -> bytes:
    """Return the telemetry inside a REDIRECTED: its author's, signed for another collector of the same group.

    Raises:
        RemoteError: anything else.
    """
    inner = read_message(message.body)
    if inner.type not in BATCHES or (inner.author, inner.group_id) != (message.author, message.group_id):
        raise MalformedError("only telemetry of the same author and group may be redirected")
    return inner.raw


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
                    if message.type in BATCHES and recipient != self._own:
                        yield recipient, place, message

    def pushed(self, recipient: DeviceKey, place: Place) -> None:
        """Take telemetry out of a queue: this device has landed it itself. Inside a transaction."""
        self._queue.remove(recipient, place)

    def keep(self, days: float, is_newest_only: Callable[[str], bool] = lambda _: False) -> None:
        """Let telemetry expire after so many days of running time (0: never), and thin some series to one row."""
        self._queue.in_one_window = is_newest_only
        self._queue.telemetry_lifetime_us = int(days * _DAY_US) or None

    def send(
        self,
        group_id: GroupId,
        batch: bytes,
        readings: int,
        now: Now,
        alarm: Alarm | None = None,
        rows: bytes = b"",
        *,
        whole: bool = False,
    ) -> None:
        """Queue one batch for this device's collector, and count its readings as published. Inside a transaction.

        Where the outbox is full, the oldest telemetry that is not `whole` gives way, as `SendQueue.queue_telemetry`
        says.

        Raises:
            LocalError: the group has no collector, or the outbox is full: then the caller rolls back.
            UnknownGroupError: this device is not in the group.
        """
        collector = self._groups.collector_of(group_id)
        if collector is None:
            raise LocalError("the group has no collector", hint="invite one: covey invite --capability collector")
        self._queue.queue_batch(collector.keys.signing_public, group_id, batch, now, alarm, rows, whole=whole)
        self._records.counters.count("published_readings", readings)
        self._records.counters.count("published_messages")
        if alarm is not None:
            self._records.counters.count("published_alarms", readings)

    def count_suppressed_alarms(self, alarms: int) -> None:
        """Count readings that were alarms beyond a series' bound, and went as ordinary ones."""
        if alarms:
            self._records.counters.count("suppressed_alarms", alarms)

    def count_replaced_times(self, readings: int) -> None:
        """Count readings whose time was not believed, so that they got the time of their arrival."""
        if readings:
            self._records.counters.count("published_times_replaced", readings)
