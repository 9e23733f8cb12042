"""The configured sensors, as a role of the agent: their measurements go into batches.

1. Each has its own feed, next to the loop. A turn takes what is there, and waits for nothing.
2. If a sensor waits for its feed (a broker's messages), its readings are committed at once, and the feed is notified. A
   sensor's position is committed with its readings, so that no reading is stored twice. Without a recipient, or with a
   full outbox, nothing more is taken: the feeds fill up, and then wait.
3. Each sensor's state is stored for `covey status` and the metrics, and logged when it changes, at most as often as the
   limits say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from covey.app.telemetry.publisher import Outflow
from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.names import SENSOR_CONDITION, SENSOR_DROPPED, SENSOR_READ
from covey.errors import ReadingError
from covey.limits.sensors import SENSOR_LINE_US, SENSOR_NOTE_US
from covey.ports import Report, SensorFeed

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_STARTING, _UP = "starting", "up"
_END_S = 2.0
_AT_ONCE = 1_024


@dataclass(slots=True)
class _Known:
    """What was last noted and last reported of a sensor, when, and which reading of it was refused.

    `position` is what is committed of how far it has come, and `written` what the last transaction wrote. `counted` are
    its drops that are noted, `has_news`: readings of it wait that no commit holds.
    """

    feed: SensorFeed
    noted: str = ""
    noted_us: int | None = None
    reported: str = _STARTING
    reported_us: int | None = None
    refused: str = ""
    position: bytes | None = None
    written: bytes | None = None
    refusals: int = 0
    counted: Counter[Drop] = field(default_factory=Counter)
    counted_us: int | None = None
    has_news: bool = False


class AttachedSensors:
    """Takes what feeds have measured, and says how they are."""

    def __init__(self, feeds: Sequence[SensorFeed], outflow: Outflow, store: SqliteStore, report: Report) -> None:
        self._known = [_Known(feed) for feed in feeds]
        self._outflow = outflow
        self._store = store
        self._report = report
        self._started = False

    def turn(self, node: Node, now: Now) -> int | None:
        """Take what has been measured; return when to be called next, in monotonic microseconds."""
        if not self._started:
            self._started = True
            self._forget_others(now)
            for each in self._known:
                each.feed.start()
        self._take(node, now)
        for each in self._known:
            self._note(each, each.refused or each.feed.state(), now)
        due = self._outflow.flush_if_due(node, now, partial(self._with_positions, now))
        self._report_committed()
        return due

    def stop(self, node: Node, now: Now) -> None:
        """Have the feeds end, and publish what they had measured."""
        for each in self._known:
            each.feed.stop()
        for place, each in enumerate(self._known):
            each.feed.join(_END_S / (place + 1))
        self._take(node, now)
        self._flush(node, now)
        for each in self._known:
            self._count_drops(each, now)

    def _take(self, node: Node, now: Now) -> None:
        if self._outflow.full or not self._outflow.wanted(node):
            return
        for each in self._known:
            each.refused = ""
            full = False
            for reading in each.feed.take(_AT_ONCE):
                try:
                    full |= self._outflow.add(reading.name, reading.unit, reading.time_us, reading.value)
                    each.has_news = True
                except ReadingError as error:
                    each.refused = f"a reading is refused: {error}"
                    each.refusals += 1
            if full:
                self._flush(node, now)
        if any(each.feed.urgent() for each in self._known):
            self._flush(node, now)

    def _flush(self, node: Node, now: Now) -> None:
        self._outflow.flush(node, now, partial(self._with_positions, now))
        self._report_committed()

    def _with_positions(self, now: Now, queue: Callable[[], int]) -> int:
        """Queue what waits, and write in the same transaction how far each sensor has come by it."""
        readings = queue()
        self._write_positions()
        for each in self._known:
            if each.has_news:
                self._store.conditions.set(f"{SENSOR_READ}{each.feed.name}", "committed", now.wall_us)
        return readings

    def _write_positions(self) -> None:
        for each in self._known:
            each.written = each.feed.position
            if each.written is not None and each.written != each.position:
                self._store.sensor_positions.set(each.feed.name, each.written)

    def _report_committed(self) -> None:
        if self._outflow.waiting:
            return
        for each in self._known:
            each.position = each.written
            each.has_news = False
        if any(each.feed.position != each.position for each in self._known):  # no reading waited for it
            with self._store.transaction():
                self._write_positions()
            for each in self._known:
                each.position = each.written
        for each in self._known:
            each.feed.commit()

    def _note(self, sensor: _Known, state: str, now: Now) -> None:
        if _passed(sensor.counted_us, now, SENSOR_NOTE_US):
            self._count_drops(sensor, now)
        if state != sensor.noted and _passed(sensor.noted_us, now, SENSOR_NOTE_US):
            with self._store.transaction():
                self._store.conditions.set(f"{SENSOR_CONDITION}{sensor.feed.name}", state, now.wall_us)
            sensor.noted, sensor.noted_us = state, now.monotonic_us
        if state not in {sensor.reported, _STARTING} and _passed(sensor.reported_us, now, SENSOR_LINE_US):
            how = "measures" if state == _UP else state
            self._report("info" if state == _UP else "warning", f"sensor {sensor.feed.name}: {how}")
            sensor.reported, sensor.reported_us = state, now.monotonic_us

    def _count_drops(self, sensor: _Known, now: Now) -> None:
        dropped = +Counter({Drop.REFUSED: sensor.refusals, **sensor.feed.dropped()})
        if dropped != sensor.counted:
            with self._store.transaction():
                for reason, number in (dropped - sensor.counted).items():
                    self._store.counters.count(f"{SENSOR_DROPPED}{sensor.feed.name} {reason}", number)
            sensor.counted, sensor.counted_us = dropped, now.monotonic_us

    def _forget_others(self, now: Now) -> None:
        here = {each.feed.name for each in self._known}
        forget_sensors(self._store, here, now.wall_us)
        gone = [name for name in self._store.sensor_positions.names() if name not in here]
        if gone:
            with self._store.transaction():
                for name in gone:
                    self._store.sensor_positions.forget(name)


def forget_sensors(store: SqliteStore, besides: set[str], now_us: int) -> None:
    """Let no condition of a sensor hold, besides those of some."""
    gone = [
        name
        for name, (state, _) in store.conditions.values().items()
        if name.startswith(SENSOR_CONDITION) and state and name.removeprefix(SENSOR_CONDITION) not in besides
    ]
    if gone:
        with store.transaction():
            for name in gone:
                store.conditions.set(name, "", now_us)


def _passed(since_us: int | None, now: Now, at_least_us: int) -> bool:
    return since_us is None or now.monotonic_us >= since_us + at_least_us
