"""Run one sensor in its own thread: open it, read it, and open it again when it fails.

1. The agent's loop waits for nothing here: readings wait in a queue, and if that is full the thread waits.
2. A reading gets the time of reading, by the monotonic clock, unless it has a believable time (`times`).
3. Anything that a sensor raises is its failure alone. It is closed, and opened again after a pause that doubles.
4. Readings and the position after them wait together, and are taken together.
5. A read that hangs cannot be ended from outside; it is reported, and delays nothing else.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from covey.core.ids import printable
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.names import NO_READING_YET, below
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.times import is_believable
from covey.errors import ReadingError
from covey.limits.sensors import (
    MAXIMUM_SENSOR_WHY_BYTES,
    SENSOR_HUNG_SECONDS,
    SENSOR_QUEUE_READINGS,
    SENSOR_RETRY_MAXIMUM_SECONDS,
    SENSOR_RETRY_SECONDS,
    SENSOR_SETTLED_SECONDS,
)
from covey.ports import Clock, Measurement, Sensor

STARTING = "starting"
UP = "up"
_IDLE_S = 0.01
"""A sensor that says nothing and does not wait either must not take a processor for itself."""
_HUNG = f"has not answered for {SENSOR_HUNG_SECONDS:.0f} s"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Readings that are committed together, with how far the sensor has come by them."""

    readings: list[Reading]
    position: bytes


class SensorWorker:
    """Implements `ports.SensorFeed`; `interval_s` 0 is for a sensor that speaks by itself."""

    def __init__(
        self,
        name: str,
        interval_s: float,
        open_sensor: Callable[[bytes], Sensor],
        clock: Clock,
        retry_s: float = SENSOR_RETRY_SECONDS,
        position: bytes = b"",
    ) -> None:
        self.name = name
        self._interval_s = interval_s
        self._open = open_sensor
        self._clock = clock
        self._retry_s = retry_s
        self._state = STARTING
        self._busy_since_us: int | None = None
        self._waiting: deque[Reading | _Stretch] = deque()
        self._queued = self._taken = self._committed = 0
        self._position: bytes | None = None
        self._committed_position = position
        self._promises: deque[tuple[int, Callable[[], None]]] = deque()
        self._urgent = False
        self._dropped = dict.fromkeys(Drop, 0)
        self._room = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sensor {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def position(self) -> bytes | None:
        """How far the sensor had come with what was taken."""
        return self._position

    def take(self, most: int) -> list[Reading]:
        """Return so many of the readings that wait; those of one position together."""
        found: list[Reading] = []
        taken = self._taken
        while self._waiting and len(found) < most:
            item = self._waiting.popleft()
            if isinstance(item, _Stretch):
                found += item.readings
                self._position = item.position
                taken += len(item.readings) + 1
            else:
                found.append(item)
                taken += 1
        if taken != self._taken:
            self._taken = taken
            self._room.set()
        return found

    def commit(self) -> None:
        """Know that the outbox holds all that was taken; the sensor hears of it in its own thread."""
        self._urgent = False
        if self._position is not None:
            self._committed_position = self._position
        self._committed = self._taken

    def urgent(self) -> bool:
        """Say whether the sensor waits for a commit."""
        return self._urgent

    def state(self) -> str:
        """Return how it is with this sensor."""
        since = self._busy_since_us
        if since is not None and self._clock.monotonic_us() - since > SENSOR_HUNG_SECONDS * 1e6:
            return _HUNG
        return self._state

    def dropped(self) -> dict[Drop, int]:
        return {reason: number for reason, number in self._dropped.items() if number}

    def stop(self) -> None:
        """Have it end."""
        self._stopping.set()
        self._room.set()

    def join(self, seconds: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        wait_s = self._retry_s
        while not self._stopping.is_set():
            opened_us = self._clock.monotonic_us()
            self._busy_since_us = opened_us
            try:
                self._promises.clear()
                with closing(self._open(self._committed_position)) as sensor:
                    self._follow(sensor, opened_us)
            except Exception as error:  # noqa: BLE001 - drivers and libraries fail in their own ways; the agent must not
                self._state = _in_a_line(error)
            self._busy_since_us = None
            if self._lasted_s(opened_us) > SENSOR_SETTLED_SECONDS:
                wait_s = self._retry_s
            self._stopping.wait(wait_s)
            wait_s = min(2 * wait_s, SENSOR_RETRY_MAXIMUM_SECONDS)

    def _follow(self, sensor: Sensor, opened_us: int) -> None:
        while not self._stopping.is_set():
            began_us = self._busy_since_us = self._clock.monotonic_us()
            while self._promises and self._promises[0][0] <= self._committed:
                self._promises.popleft()[1]()
            measured = sensor.read()
            self._busy_since_us = None
            for reason, number in measured.dropped.items():
                self._dropped[reason] += number
            refused = self._give(measured)
            if measured.committed:
                self._promises.append((self._queued, measured.committed))
                self._urgent = measured.urgent
            if failure := measured.failure or refused:
                self._state = _shortened(failure)
            elif measured.readings:
                self._state = UP
            elif self._lasted_s(opened_us) > SENSOR_SETTLED_SECONDS and self._state != UP:
                self._state = NO_READING_YET  # that it could be opened says nothing: up is what measures
            least_s = 0.0 if measured.readings else _IDLE_S
            self._stopping.wait(max(least_s, self._interval_s - self._lasted_s(began_us)))

    def _lasted_s(self, since_us: int) -> float:
        return (self._clock.monotonic_us() - since_us) / 1e6

    def _give(self, measured: Measurement) -> str:
        refused = ""
        together: list[Reading] = []
        for reading in measured.readings:
            try:
                named, replaced = stamped(self.name, reading, self._clock)
            except ReadingError as error:
                refused = str(error)
                self._dropped[Drop.NAME] += 1
                continue
            self._dropped[Drop.TIME] += replaced
            if measured.position is not None:
                together.append(named)
            elif not self._queue(named, 1):
                return refused
        if measured.position is not None:
            self._queue(_Stretch(together, measured.position), len(together) + 1)
        return refused

    def _queue(self, item: Reading | _Stretch, size: int) -> bool:
        while self._queued - self._taken >= SENSOR_QUEUE_READINGS:
            self._room.clear()
            if self._stopping.is_set():
                return False
            if self._queued - self._taken >= SENSOR_QUEUE_READINGS:
                self._room.wait()
        self._queued += size
        self._waiting.append(item)
        return True


def read_once(name: str, sensor: Sensor, clock: Clock) -> Measurement:
    """Read a sensor, and return what it says as it would be sent.

    Raises:
        SensorError: it does not measure.
        ReadingError: it measures what cannot be sent.
    """
    measured = sensor.read()
    found = [stamped(name, each, clock) for each in measured.readings]
    dropped = Counter(measured.dropped)
    dropped[Drop.TIME] += sum(replaced for _, replaced in found)
    return Measurement([each for each, _ in found], measured.failure, dropped=+dropped)


def stamped(sensor: str, reading: Reading, clock: Clock) -> tuple[Reading, bool]:
    """Return a reading under its whole name, and with a time; and whether that is not the one that it came with.

    Raises:
        ReadingError: its name cannot be one.
    """
    time_us, replaced = reading.time_us, False
    if time_us is not None and not is_believable(time_us, clock.wall_us(), clock.synchronised):
        time_us, replaced = None, True
    time_us = clock.monotonic_us() if time_us is None else time_us
    return replace(reading, name=below(sensor, reading.name), time_us=time_us), replaced


def _in_a_line(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return _shortened(text if hasattr(error, "hint") else f"{type(error).__name__}: {text}")


def _shortened(text: str) -> str:
    return printable(text, MAXIMUM_SENSOR_WHY_BYTES) or "fails"
