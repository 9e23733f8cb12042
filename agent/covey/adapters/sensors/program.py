"""Run the owner's program as a sensor: it prints readings as SenML JSON lines or line protocol.

1. It runs below a guard (`program_guard.py`): no shell, no standard input, none of the agent's variables, bounded
   memory; neither it nor what it starts outlives the sensor or the agent.
2. With an interval it is run for each measurement, to its end; without one it runs on, and prints when it measures.
3. A line that is none is left out and reported; what is longer than a line may be ends it.
4. A program that ends while it should run on, ends with another code than 0, takes too long or is silent for too long,
   has failed: its last words on standard error say why.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from covey.adapters import program_guard
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.line_protocol import read_lines
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.senml import readings_from_line
from covey.errors import ReadingError, SensorError
from covey.limits.sensors import MAXIMUM_SENSOR_LINE_BYTES, MAXIMUM_SENSOR_OUTPUT_BYTES, SENSOR_READ_SECONDS
from covey.limits.units import MIB
from covey.ports import Clock, Measurement

if TYPE_CHECKING:
    from covey.config.sensors import Exec
    from covey.ports import SensorOpening

_UNLIMITED = "-1"
_PIECE = 65_536
_LAST_WORDS = 1_024
_GRACE_S = 2.0
_SENML = "senml"


def from_entry(opening: SensorOpening) -> ProgramSensor:
    """Open the sensor of an entry."""
    return ProgramSensor(opening.options, opening.clock, runs_on=not opening.interval_seconds)


class ProgramSensor:
    """Implements `ports.Sensor`; `runs_on`: the program prints by itself, else it is run at each read."""

    def __init__(self, options: Exec, clock: Clock, *, runs_on: bool) -> None:
        """Prepare; the program is started when it is read.

        Raises:
            SensorError: it is not there.
        """
        program = options.command[0]
        if not (program.startswith("/") and os.access(program, os.X_OK)):
            raise SensorError(f"{program} is not an executable program with an absolute path")
        self._options = options
        self._clock = clock
        self._runs_on = runs_on
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._last_words = b""
        self._received_at = 0.0
        self._pipes = selectors.DefaultSelector()

    def read(self) -> Measurement:
        """Return what the program has printed in the last second; or run it, and return all that it prints."""
        process = self._process or self._start()
        if self._runs_on:
            lines = self._printed(process, time.monotonic() + SENSOR_READ_SECONDS, whole=False)
            silence_s = self._options.silence_seconds
            if lines:
                self._received_at = time.monotonic()
            elif silence_s and time.monotonic() - self._received_at > silence_s:
                raise SensorError(f"the program printed nothing for {silence_s:g} s")
        else:
            lines = self._printed(process, time.monotonic() + self._options.timeout_seconds, whole=True)
            self._end()
        return self._parsed(lines)

    def close(self) -> None:
        """End the program, and all that it has started."""
        self._end()
        self._pipes.close()

    def _start(self) -> subprocess.Popen[bytes]:
        limits = (str(os.getpid()), str(self._options.memory_mib * MIB), *[_UNLIMITED] * 3)
        self._process = subprocess.Popen(  # noqa: S603 - the owner's own program, no shell
            [*program_guard.command(), *limits, *self._options.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=program_guard.ENVIRONMENT,
            cwd="/",
            umask=0o077,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pipes.register(self._process.stdout, selectors.EVENT_READ, True)
        self._pipes.register(self._process.stderr, selectors.EVENT_READ, False)
        self._received_at = time.monotonic()
        self._rest = self._last_words = b""
        return self._process

    def _printed(self, process: subprocess.Popen[bytes], until: float, *, whole: bool) -> bytes:
        most = MAXIMUM_SENSOR_OUTPUT_BYTES if whole else MAXIMUM_SENSOR_LINE_BYTES
        while self._pipes.get_map():
            left_s = until - time.monotonic()
            if left_s <= 0:
                if whole:
                    raise SensorError(f"the program did not end within {self._options.timeout_seconds:g} s")
                return b""
            for key, _ in self._pipes.select(left_s):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    self._pipes.unregister(key.fileobj)
                elif key.data:
                    self._rest += piece
                else:
                    self._last_words = (self._last_words + piece)[-_LAST_WORDS:]
            if not whole and b"\n" in self._rest:
                lines, _, self._rest = self._rest.rpartition(b"\n")
                return lines
            if len(self._rest) > most:
                raise SensorError(f"the program printed more than {most} bytes {'at once' if whole else 'in a line'}")
        code = process.wait()  # its guard, which had the pipes open, has ended
        if not whole or code:
            words = self._last_words.decode(errors="replace").strip().rpartition("\n")[2]
            raise SensorError(f"the program exited with code {code}{': ' if words else ''}{words}")
        printed, self._rest = self._rest, b""
        return printed

    def _parsed(self, printed: bytes) -> Measurement:
        if self._options.format != _SENML:
            lines = read_lines(printed, "ns", below=True)
            failure = lines.reasons[0] if lines.reasons else ""
            return Measurement(lines.readings, failure, dropped=_unreadable(lines.refused))
        readings: list[Reading] = []
        failure, unreadable = "", 0
        for line in filter(bytes.strip, printed.split(b"\n")):
            try:
                readings += readings_from_line(line, self._clock.monotonic_us())
            except ReadingError as error:
                failure = f"its output is not SenML: {error}"
                unreadable += 1
        return Measurement(readings, failure, dropped=_unreadable(unreadable))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            self._close(pipe)

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            with suppress(KeyError):
                self._pipes.unregister(pipe)
            pipe.close()


def _unreadable(lines: int) -> dict[Drop, int]:
    return {Drop.FORMAT: lines} if lines else {}
