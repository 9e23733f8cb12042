"""`covey.adapters.sensors.program`: what a program prints is readings, and a program that misbehaves ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sensors.program import ProgramSensor
from covey.config.sensors import Exec
from covey.errors import SensorError
from covey.ports import Measurement
from tests.waiting import wait_until

pytestmark = pytest.mark.processes


@contextmanager
def _program(code: str, *, runs_on: bool = True, **options: float | str) -> Iterator[ProgramSensor]:
    command = (sys.executable, "-I", "-S", "-u", "-c", code)
    with closing(ProgramSensor(Exec(command=command, **options), SystemClock(), runs_on=runs_on)) as sensor:  # type: ignore[arg-type] # as its keys say
        yield sensor


def _until(sensor: ProgramSensor, done: Callable[[Measurement], object]) -> Measurement:
    found: list[Measurement] = []

    def said() -> bool:
        found.append(sensor.read())
        return bool(done(found[-1]))

    wait_until(said)
    return found[-1]


def test_one_that_runs_on_prints_senml() -> None:
    code = 'import os, time\nos.write(1, b\'{"n":"level","u":"m","v":2.5}\\n\\nnonsense\\n\')\ntime.sleep(600)'
    with _program(code) as sensor:
        measured = _until(sensor, lambda found: found.readings)
        assert [(each.name, each.unit, each.value) for each in measured.readings] == [("level", "m", 2.5)]
        assert "not SenML" in measured.failure
        assert sensor.read() == Measurement([])


def test_one_that_is_run_for_each_measurement_prints_line_protocol() -> None:
    code = "print('tide,port=Cuxhaven level=2.5,rising=true')"
    with _program(code, runs_on=False, format="line-protocol") as sensor:
        for _ in range(2):
            readings = sensor.read().readings
            assert [(each.name, each.value) for each in readings] == [
                ("tide/port:Cuxhaven/level", 2.5),
                ("tide/port:Cuxhaven/rising", True),
            ]


@pytest.mark.parametrize("runs_on", [True, False])
def test_the_error_says_why_the_program_ended(runs_on: bool) -> None:
    code = "import sys\nprint('first', file=sys.stderr)\nsys.exit('no such port')"
    with (
        _program(code, runs_on=runs_on) as sensor,
        pytest.raises(SensorError, match="exited with code 1: no such port"),
    ):
        _until(sensor, lambda _: False)


def test_one_that_takes_too_long_prints_too_much_or_is_silent_has_failed() -> None:
    sleeps = "import time\ntime.sleep(600)"
    with (
        _program(sleeps, runs_on=False, timeout_seconds=0.2) as sensor,
        pytest.raises(SensorError, match="did not end"),
    ):
        sensor.read()
    with (
        _program("while True: print('x' * 1000, end='')") as sensor,
        pytest.raises(SensorError, match="65536 bytes in"),
    ):
        _until(sensor, lambda _: False)
    with (
        _program("while True: print('x' * 10000)", runs_on=False) as sensor,
        pytest.raises(SensorError, match="bytes at once"),
    ):
        sensor.read()
    with _program(sleeps, silence_seconds=0.1) as sensor, pytest.raises(SensorError, match="printed nothing"):
        _until(sensor, lambda _: False)


def test_nothing_of_it_is_left_behind() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        'print(\'{"n":"child","v":%d}\' % child.pid, flush=True)\ntime.sleep(600)'
    )
    with _program(code) as sensor:
        (reading,) = _until(sensor, lambda found: found.readings).readings
        child = int(reading.value)
        assert psutil.pid_exists(child)
    wait_until(lambda: not psutil.pid_exists(child))


def test_a_command_that_is_no_program_is_refused(tmp_path: Path) -> None:
    for words in (("true",), (str(tmp_path / "none"),)):
        with pytest.raises(SensorError, match="is not an executable program"):
            ProgramSensor(Exec(command=words), SystemClock(), runs_on=True)
