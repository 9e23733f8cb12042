"""Readings into batches, batches into the outbox: what sensors and `covey publish` share.

A reading that is an alarm (`telemetry.series`) waits for nothing: it goes into a batch of alarms, ahead of everything
else in the outbox, and what is open is committed with it. Series that are kept whole have batches of their own.
Readings with a time of their own and readings timed by this device's clock go into separate batches, because a batch
has one clock. A reading counts as published when its batch's commit is done; `add` and `flush` return how many
that were.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covey.app.device.device import group_id
from covey.app.device.noted_alarms import note_alarms
from covey.app.loop.link_windows import ask_for_window
from covey.core.actions.moves import followed
from covey.core.ids import GroupId
from covey.core.node import Node
from covey.core.now import ABSOLUTE_US, Now
from covey.core.telemetry.batch import Alarm, BatchBuilder, ClockKind, ClockReading, Value
from covey.core.telemetry.series_rules import Keep, SeriesWatch
from covey.core.telemetry.times import AHEAD_US, EARLIEST_US, LATEST_US, is_believable
from covey.errors import LocalError, ReadingError
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS, PUBLISH_BATCHES
from covey.ports import Clock, Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device

_COMPLAIN_EVERY_US = 600_000_000


class _Closed(NamedTuple):
    """A batch that waits for its commit, how many readings it has, and what they say if they are alarms."""

    batch: bytes
    readings: int
    alarm: Alarm | None = None
    rows: bytes = b""
    whole: bool = False


def _always(work: Callable[[], int]) -> int:
    return work()


class Publisher:
    """Collects readings of one device. Call `flush` when `add` or `due` says so.

    `batch_us` is the longest time that a reading waits, `batch_readings` how many one message holds at most.
    """

    def __init__(
        self,
        clock: Clock,
        store: SqliteStore,
        group: Callable[[Node], GroupId],
        batch_us: int,
        batch_readings: int,
        series: SeriesWatch,
        urgent: Callable[[Now], None] = lambda _now: None,
        sign_rows: Callable[[bytes], bytes] = lambda _batch: b"",
    ) -> None:
        """`urgent` is called in the transaction that queues alarms.

        `sign_rows` returns what a batch carries so that each of its readings can be proven, or nothing.
        """
        self._clock = clock
        self._store = store
        self._group = group
        self.batch_us = batch_us
        self.batch_readings = batch_readings
        self._timed_here = BatchBuilder()
        self._asserted = BatchBuilder()
        self._watch = series
        self._urgent = urgent
        self._sign_rows = sign_rows
        self._whole = {False: BatchBuilder(), True: BatchBuilder()}
        """The open batches of series that are kept whole, by whether their times are asserted."""
        self._alarms: dict[tuple[Alarm, bool], BatchBuilder] = {}
        """The open batches of alarms, by what they say and whether their times are asserted."""
        self._raised: list[tuple[str, str]] = []
        """The series whose alarms no commit holds yet."""
        self._closed: list[_Closed] = []
        self._opened_us: int | None = None
        self._replaced_times = 0
        self._believed_us = 0
        """Times from `EARLIEST_US` up to this one are believed without asking the clock, which takes a sixth of the CPU
        that a reading costs. Each flush ends that, as the clock may be set back."""

    def add(self, name: str, unit: str, time_us: int | None, value: Value) -> bool:
        """Take one reading; return whether enough batches are full to want `flush`, or it is an alarm.

        `time_us` None means now; a time that SenML calls relative is this device's monotonic clock's. One that cannot
        be (`times.is_believable`) becomes now, and is counted.

        Raises:
            ReadingError: no table could hold it; nothing was taken.
        """
        if self._watch.has_rules:
            alarm = self._watch.judge(name, unit, value, self._clock.monotonic_us())
            if alarm is not None:
                self._add_alarm(alarm, name, unit, time_us, value)
                return True
            if self._watch.keep(name) is Keep.WHOLE:
                ordinary, time_us, replaced = self._looked_at(time_us)
                return self._put(self._whole[ordinary is self._asserted], name, unit, time_us, value, replaced)
        if time_us is not None and EARLIEST_US <= time_us <= self._believed_us:  # as nearly all are
            return self._put(self._asserted, name, unit, time_us, value, 0)
        builder, time_us, replaced = self._looked_at(time_us)
        return self._put(builder, name, unit, time_us, value, replaced)

    def _put(self, builder: BatchBuilder, name: str, unit: str, time_us: int, value: Value, replaced: int) -> bool:
        builder.add(name, unit, time_us, value)
        self._replaced_times += replaced
        if self._opened_us is None:
            self._opened_us = self._clock.monotonic_us()
        if builder.count >= self.batch_readings or builder.full:
            self._close(builder)
        return len(self._closed) >= PUBLISH_BATCHES

    def _add_alarm(self, alarm: Alarm, name: str, unit: str, time_us: int | None, value: Value) -> None:
        """Put an alarm into a batch of its own kind: one that waits for nothing, and is marked as a whole."""
        ordinary, time_us, replaced = self._looked_at(time_us)
        builder = self._alarms.setdefault((alarm, ordinary is self._asserted), BatchBuilder())
        try:
            builder.add(name, unit, time_us, value)
        except ReadingError:
            self._watch.withdraw(name, unit)
            raise
        self._replaced_times += replaced
        if alarm is not Alarm.ENDED:
            self._raised.append((name, unit))
        if self._opened_us is None:
            self._opened_us = self._clock.monotonic_us()
        if builder.full:
            self._close_alarms()

    def _looked_at(self, time_us: int | None) -> tuple[BatchBuilder, int, bool]:
        """Return the batch that a time belongs to, the time that is believed, and whether that replaces another."""
        replaced = time_us is not None and not self._believes(time_us)
        if time_us is None or replaced:
            builder, time_us = self._timed_here, self._clock.monotonic_us()
        else:
            builder = self._timed_here if time_us < ABSOLUTE_US else self._asserted
        return builder, time_us, replaced

    @property
    def waiting(self) -> int:
        """The readings that no commit holds yet."""
        apart = sum(each.count for each in (*self._alarms.values(), *self._whole.values()))
        return self._timed_here.count + self._asserted.count + apart + sum(each.readings for each in self._closed)

    def due(self) -> int | None:
        """Return the monotonic time at which the open batches are old enough."""
        return None if self._opened_us is None else self._opened_us + self.batch_us

    def flush(self, node: Node, once: Callable[[Callable[[], int]], int] = _always) -> int:
        """Put everything into the outbox, in one commit; return how many readings that were.

        `once` does what it is given, in that commit, or knows that it was done, and returns how many those were.

        Raises:
            LocalError: no collector, or the outbox is full; the readings are still here.
            StorageError: the disk refused; the readings are still here.
        """
        if not self.close():
            return 0
        now = Now(self._clock.monotonic_us(), self._clock.wall_us())
        with self._store.transaction():
            readings = once(lambda: self.queue(node, now))
        self._closed = []
        self._raised = []
        self._opened_us = None
        self._replaced_times = 0
        self._believed_us = 0
        return readings

    def flush_alarms(self, node: Node) -> int:
        """Put the alarms alone into the outbox, which has a reserve for them; return how many those were.

        Raises:
            LocalError: as `flush`.
            StorageError: as `flush`.
        """
        alarms = [each for each in self._closed if each.alarm is not None]
        if alarms:
            others = [each for each in self._closed if each.alarm is None]
            with self._store.transaction():
                self._queue(alarms, node, Now(self._clock.monotonic_us(), self._clock.wall_us()))
            self._closed = others
            self._raised = []
        return sum(each.readings for each in alarms)

    def close(self) -> int:
        """Close the open batches; return the bytes of all closed ones."""
        self._close_alarms()
        self._close(self._timed_here)
        self._close(self._asserted)
        for builder in self._whole.values():
            self._close(builder)
        return sum(len(each.batch) + len(each.rows) for each in self._closed)

    def withdraw(self) -> None:
        """Have readings of the series that have just raised an alarm raise it again: these were not queued."""
        for name, unit in self._raised:
            self._watch.withdraw(name, unit)
        self._raised = []

    def queue(self, node: Node, now: Now) -> int:
        """Put the closed batches into the outbox, inside a transaction; return how many readings those are.

        Raises:
            LocalError: no collector, or the outbox is full.
        """
        self._queue(sorted(self._closed, key=lambda each: each.alarm is None), node, now)
        node.telemetry.count_suppressed_alarms(self._watch.take_suppressed())
        node.telemetry.count_replaced_times(self._replaced_times)
        return self.waiting

    def _queue(self, batches: list[_Closed], node: Node, now: Now) -> None:
        group_id = self._group(node)
        for each in batches:
            node.telemetry.send(group_id, each.batch, each.readings, now, each.alarm, each.rows, whole=each.whole)
        if any(each.alarm is not None for each in batches):
            note_alarms(self._store, self._watch, now.wall_us)
            self._urgent(now)

    def _believes(self, time_us: int) -> bool:
        wall_us = self._clock.wall_us()
        self._believed_us = min(wall_us + AHEAD_US, LATEST_US)
        return is_believable(time_us, wall_us, self._clock.synchronised)

    def _close(self, builder: BatchBuilder) -> None:
        if builder.count:
            batch = builder.body(self._anchor(asserted=builder in (self._asserted, self._whole[True])))
            whole = builder in self._whole.values()
            self._closed.append(_Closed(batch, builder.count, rows=self._sign_rows(batch), whole=whole))
            builder.clear()

    def _close_alarms(self) -> None:
        for (alarm, asserted), builder in self._alarms.items():
            batch = builder.body(self._anchor(asserted=asserted))
            self._closed.append(_Closed(batch, builder.count, alarm, self._sign_rows(batch)))
        self._alarms.clear()

    def _anchor(self, *, asserted: bool) -> ClockReading:
        if asserted:
            kind = ClockKind.ASSERTED
        else:
            kind = ClockKind.SYNCHRONISED if self._clock.synchronised() else ClockKind.UNSYNCHRONISED
        return ClockReading(self._clock.boot_id(), self._clock.monotonic_us(), self._clock.wall_us(), kind)


class Outflow:
    """What sensors of the agent put into the outbox, at their own rhythm; what is in the way is told now and then."""

    def __init__(self, publisher: Publisher, report: Report) -> None:
        self._publisher = publisher
        self._report = report
        self._quiet_until_us = 0

    def add(self, name: str, unit: str, time_us: int | None, value: Value) -> bool:
        """Take one reading, as `Publisher.add` does."""
        return self._publisher.add(name, unit, time_us, value)

    def wanted(self, node: Node) -> bool:
        """Say whether there is anybody to send to."""
        return any(node.groups.collector_of(group.group_id) for group in node.groups.joined())

    @property
    def waiting(self) -> int:
        """The readings that no commit holds yet."""
        return self._publisher.waiting

    @property
    def full(self) -> bool:
        """Whether as much waits as may."""
        return self._publisher.waiting >= MAXIMUM_BATCH_READINGS

    def flush(self, node: Node, now: Now, once: Callable[[Callable[[], int]], int] = _always) -> None:
        """Put everything into the outbox, as `Publisher.flush` does; where that is refused, all but alarms wait."""
        try:
            self._publisher.flush(node, once)
        except LocalError as error:
            with suppress(LocalError):
                self._publisher.flush_alarms(node)
            if now.monotonic_us >= self._quiet_until_us:
                self._report("warning", f"readings are waiting: {error}")
                self._quiet_until_us = now.monotonic_us + _COMPLAIN_EVERY_US

    def flush_if_due(self, node: Node, now: Now, once: Callable[[Callable[[], int]], int] = _always) -> int | None:
        """Flush where the open batches are old enough; return when they will be."""
        due = self._publisher.due()
        if due is not None and now.monotonic_us >= due:
            self.flush(node, now, once)
            return None
        return due


def _unmoved() -> dict[GroupId, GroupId]:
    return {}


def telemetry_group(
    configured: GroupId | None, moved: Callable[[], dict[GroupId, GroupId]] = _unmoved
) -> Callable[[Node], GroupId]:
    """Return the rule that picks the group telemetry goes to: the configured one, or the first with a collector.

    `moved` returns by group to which other one operators have moved this device, and its readings: they stay where the
    device is if that group has removed it again.
    """

    def follow(node: Node, group_id: GroupId) -> GroupId:
        last = followed(group_id, moved())
        return last if node.groups.is_in(last) else group_id

    def pick(node: Node) -> GroupId:
        if configured is not None:
            return follow(node, configured)
        groups = [manifest.group_id for manifest in node.groups.joined()]
        for joined in groups:
            if node.groups.collector_of(joined) is not None:
                return follow(node, joined)
        if groups:
            raise LocalError(
                "no group of this device has a collector", hint="invite one: covey invite --capability collector"
            )
        raise LocalError("this device is in no group", hint="covey group create, or covey join")

    return pick


def device_publisher(device: Device, batch_readings: int | None = None) -> Publisher:
    """Return what turns a device's readings into queued batches, as configured."""
    telemetry = device.config.telemetry

    def sign(batch: bytes) -> bytes:
        if not device.config.telemetry.receipts:
            return b""
        from covey.core.vault.receipts import SALT_BYTES, sign_rows  # most devices spare the memory

        return sign_rows(device.node.identity, batch, secrets.token_bytes(SALT_BYTES))

    return Publisher(
        device.clock,
        device.store,
        telemetry_group(group_id(telemetry.group) if telemetry.group else None, device.store.group_moves.targets),
        int(telemetry.batch_seconds * 1e6),
        batch_readings or telemetry.batch_readings,
        device.series,
        lambda now: ask_for_window(device.store, now),
        sign,
    )
