"""`covey.adapters.sensors.worker`: one sensor, looked after beside the loop, whatever it does."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sensors.worker import SensorWorker
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.times import UNUSABLE_US
from covey.limits.sensors import SENSOR_QUEUE_READINGS
from covey.ports import Measurement
from tests.waiting import take, wait_until

Said = Measurement | Exception


class Scripted:
    """A sensor that says what the test puts into its queue."""

    def __init__(self, script: SimpleQueue[Said]) -> None:
        self.script = script
        self.opened = 0
        self.closed = 0
        self.positions: list[bytes] = []

    def open(self, position: bytes) -> Scripted:
        self.opened += 1
        self.positions.append(position)
        return self

    def read(self) -> Measurement:
        said = take(self.script)
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        self.closed += 1


def _measured(*names: str, failure: str = "") -> Measurement:
    return Measurement([Reading(name, "Cel", None, 21.5) for name in names], failure)


@pytest.fixture
def sensor() -> Scripted:
    return Scripted(SimpleQueue())


@pytest.fixture
def worker(sensor: Scripted) -> Iterator[SensorWorker]:
    made = SensorWorker("boiler", 0.0, sensor.open, SystemClock(), retry_s=0.01)
    made.start()
    yield made
    made.stop()
    sensor.script.put(_measured())
    made.join(5)


def _taken(worker: SensorWorker, most: int = 10) -> list[Reading]:
    found: list[Reading] = []
    wait_until(lambda: found.extend(worker.take(most)) or found, "something was measured")
    return found


def test_readings_carry_the_sensors_name_and_a_time(worker: SensorWorker, sensor: Scripted) -> None:
    before_us = SystemClock().monotonic_us()
    sensor.script.put(_measured("top", ""))
    found = _taken(worker)
    assert [each.name for each in found] == ["boiler/top", "boiler"]
    assert all(before_us <= (each.time_us or 0) <= SystemClock().monotonic_us() for each in found)
    wait_until(lambda: worker.state() == "up")


def test_a_time_that_cannot_be_becomes_that_of_the_arrival(worker: SensorWorker, sensor: Scripted) -> None:
    clock = SystemClock()
    before_us = clock.monotonic_us()
    times = (UNUSABLE_US, 1_795_882_000_123_000_000, 300_000_000_000_000, 1_631_186_545_500_000)
    sensor.script.put(Measurement([Reading(f"t{n}", "", time, 1.0) for n, time in enumerate(times)]))
    *found, good = _taken(worker)
    assert all(before_us <= (each.time_us or 0) <= clock.monotonic_us() for each in found)
    assert good.time_us == 1_631_186_545_500_000
    assert worker.dropped() == {Drop.TIME: 3}
    wait_until(lambda: worker.state() == "up")


def test_drops_are_counted_by_reason(worker: SensorWorker, sensor: Scripted) -> None:
    sensor.script.put(Measurement([Reading("not a name", "", None, 1.0)], dropped={Drop.RATE: 2}))
    sensor.script.put(Measurement([Reading("top", "", None, 1.0)], dropped={Drop.RATE: 1, Drop.VALUE: 1}))
    _taken(worker)
    assert worker.dropped() == {Drop.NAME: 1, Drop.RATE: 3, Drop.VALUE: 1}


def test_one_that_is_open_and_says_nothing_is_not_up(sensor: Scripted) -> None:
    class Later(SystemClock):
        ahead_us = 0

        def monotonic_us(self) -> int:
            return super().monotonic_us() + self.ahead_us

    clock = Later()
    worker = SensorWorker("boiler", 0.0, sensor.open, clock)
    worker.start()
    wait_until(lambda: sensor.opened)
    clock.ahead_us = 10_000_000
    sensor.script.put(_measured())
    wait_until(lambda: worker.state() == "no reading yet")
    sensor.script.put(_measured("top"))
    wait_until(lambda: worker.state() == "up")
    sensor.script.put(_measured())
    wait_until(sensor.script.empty)
    assert worker.state() == "up"
    worker.stop()
    sensor.script.put(_measured())
    worker.join(5)


def test_a_failing_sensor_is_reported_closed_and_reopened(worker: SensorWorker, sensor: Scripted) -> None:
    sensor.script.put(OSError("the bus is stuck"))
    wait_until(lambda: worker.state() == "OSError: the bus is stuck")
    sensor.script.put(_measured("top"))
    assert _taken(worker)[0].name == "boiler/top"
    assert (sensor.opened, sensor.closed) == (2, 1)
    wait_until(lambda: worker.state() == "up")


def test_a_sensors_missing_values_are_reported_and_the_rest_is_read(worker: SensorWorker, sensor: Scripted) -> None:
    sensor.script.put(_measured("top", "not a name", failure=""))
    assert [each.name for each in _taken(worker)] == ["boiler/top"]
    wait_until(lambda: "cannot be the name of a reading" in worker.state())
    sensor.script.put(_measured("top", failure="the lower one is gone"))
    wait_until(lambda: worker.state() == "the lower one is gone")


def test_waiting_readings_are_bounded(worker: SensorWorker, sensor: Scripted) -> None:
    names = [f"s{number}" for number in range(SENSOR_QUEUE_READINGS + 100)]
    sensor.script.put(_measured(*names))
    found: list[Reading] = []

    def all_of_it() -> bool:
        taken = worker.take(SENSOR_QUEUE_READINGS * 2)
        assert len(taken) <= SENSOR_QUEUE_READINGS
        found.extend(taken)
        return len(found) == len(names)

    wait_until(all_of_it)
    assert [each.name for each in found] == [f"boiler/{name}" for name in names]


def test_a_sensor_that_never_answers_is_reported(sensor: Scripted) -> None:
    class Later(SystemClock):
        ahead_us = 0

        def monotonic_us(self) -> int:
            return super().monotonic_us() + self.ahead_us

    clock = Later()
    worker = SensorWorker("boiler", 0.0, sensor.open, clock)
    worker.start()
    wait_until(lambda: sensor.opened)
    assert worker.state() == "starting"
    clock.ahead_us = 100_000_000
    assert worker.state() == "has not answered for 90 s"
    sensor.script.put(_measured("top"))
    wait_until(lambda: worker.state() == "up")
    worker.stop()
    sensor.script.put(_measured())
    worker.join(5)


def test_a_sensor_hears_that_what_it_said_is_committed(sensor: Scripted, worker: SensorWorker) -> None:
    seen: list[str] = []
    first = Measurement([Reading("a", "", None, 1.0)], committed=lambda: seen.append("first"), urgent=True)
    second = Measurement([Reading("b", "", None, 1.0)], committed=lambda: seen.append("second"))
    sensor.script.put(first)
    wait_until(worker.urgent)
    assert len(worker.take(10)) == 1
    sensor.script.put(second)
    wait_until(lambda: not worker.urgent())
    assert seen == []
    worker.commit()
    sensor.script.put(_measured())
    wait_until(lambda: seen == ["first"])
    wait_until(lambda: worker.take(10))
    worker.commit()
    sensor.script.put(_measured())
    wait_until(lambda: seen == ["first", "second"])


def test_a_position_comes_with_its_readings_and_opens_the_sensor_again(sensor: Scripted) -> None:
    worker = SensorWorker("boiler", 0.0, sensor.open, SystemClock(), retry_s=0.01, position=b"before")
    worker.start()
    readings = [Reading(f"r{number}", "", None, 1.0) for number in range(5)]
    sensor.script.put(Measurement(readings, position=b"first"))
    found: list[Reading] = []
    wait_until(lambda: found or found.extend(worker.take(1)))
    assert len(found) == 5
    assert worker.position == b"first"
    sensor.script.put(OSError("gone"))
    wait_until(lambda: sensor.opened == 2)
    worker.commit()
    sensor.script.put(Measurement([], position=b"second"))
    wait_until(lambda: worker.take(1) or worker.position == b"second")
    sensor.script.put(OSError("gone"))
    wait_until(lambda: sensor.opened == 3)
    assert sensor.positions == [b"before", b"before", b"first"]
    worker.stop()
    sensor.script.put(_measured())
    worker.join(5)


def test_a_position_without_readings_is_committed_before_the_sensor_hears_of_it(
    worker: SensorWorker, sensor: Scripted
) -> None:
    seen: list[str] = []
    sensor.script.put(Measurement([], committed=lambda: seen.append("told"), urgent=True, position=b"here"))
    wait_until(worker.urgent)
    worker.commit()  # of what was taken before it
    sensor.script.put(_measured())
    wait_until(sensor.script.empty)
    assert not seen
    wait_until(lambda: worker.take(1) or worker.position == b"here")
    worker.commit()
    sensor.script.put(_measured())
    wait_until(lambda: seen == ["told"])
