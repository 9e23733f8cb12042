"""`covey publish`: readings from a file or stdin into the outbox."""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from covey.app.answering_agent import waiting_after, waiting_at
from covey.app.device import Device
from covey.cli.device_options import answering_agent, open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import count, print_json
from covey.client import Client
from covey.config.settings import TelemetryConfig
from covey.core.telemetry.senml import Reading, readings_from_cbor, readings_from_json, readings_from_line
from covey.errors import ReadingError, UsageError
from covey.limits import MAXIMUM_MESSAGE_BYTES, MIB

_MAXIMUM_PACK_BYTES = 64 * 1024 * 1024
_PROGRESS_S = 0.2
_QUIET_S = 0.5
_CHUNK_BYTES = 256 * 1024
_REQUEST_BYTES = MIB
"""Of one request to the agent, about: it holds the readings in memory."""
_RECORD_BYTES = 200
"""A record's name, unit, time and number, about."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to read; - or nothing is stdin")
    parser.add_argument(
        "--format",
        choices=["ndjson", "senml", "senml-cbor"],
        default="ndjson",
        help="a SenML record or pack in each line (ndjson, the default), one SenML JSON pack, or one SenML CBOR pack",
    )
    parser.add_argument(
        "--batch", type=int, metavar="N", help="readings in one message (default: telemetry.batch_readings)"
    )
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="wait until the collector has landed all of it")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Queue every reading durably, or say which line is wrong and what was queued before it."""
    agent = answering_agent(options)
    with ExitStack() as open_now:
        outlet: _Outlet
        if agent is not None:
            outlet = _ThroughAgent(agent, options.batch)
        else:
            outlet = _IntoState(open_now.enter_context(open_device(options)), options.batch)
        source = open_now.enter_context(_source(options.file))
        progress = _Progress()
        try:
            for reading in _readings(source, options.format):
                if reading is None or not outlet.add(reading):
                    progress.queued += outlet.flush_if_due()
                else:
                    progress.queued += outlet.flush()
                progress.show()
            progress.queued += outlet.flush()
        except ReadingError as error:
            progress.queued += outlet.flush()
            progress.finish()
            told = f"{count(progress.queued, 'reading')} before it {'is' if progress.queued == 1 else 'are'} queued"
            raise ReadingError(f"{error}; {told}", hint=error.hint) from error
        progress.finish()
        return _conclude(outlet, options, progress.queued)


def _conclude(outlet: _Outlet, options: argparse.Namespace, queued: int) -> int:
    if options.json:
        print_json({"queued_readings": queued})
    else:
        print(f"queued {count(queued, 'reading')}", flush=True)
    if options.wait is None:
        return 0
    if waiting := outlet.waiting_after(options.wait):
        print(f"error: not acknowledged yet: {count(waiting, 'message')}", file=sys.stderr)
        print("hint: they stay queued; 'covey run' delivers them", file=sys.stderr)
        return 1
    print("landed by the collector", file=sys.stderr)
    return 0


class _Outlet(Protocol):
    """Where readings go. A reading counts once `flush` has returned it."""

    def add(self, reading: Reading) -> bool:
        """Take a reading; return whether so many wait that they should be flushed."""

    def flush(self) -> int:
        """Queue what waits, durably; return how many that were."""

    def flush_if_due(self) -> int:
        """Queue what waits where it has waited long enough."""

    def waiting_after(self, seconds: float) -> int:
        """Give what is queued so long to be delivered; return how many messages still wait."""


class _IntoState:
    """The device's own state."""

    def __init__(self, device: Device, batch: int | None) -> None:
        self._session = device
        self._publisher = device.publisher(batch)

    def add(self, reading: Reading) -> bool:
        return self._publisher.add(reading.name, reading.unit, reading.time_us, reading.value)

    def flush(self) -> int:
        return self._publisher.flush(self._session.node)

    def flush_if_due(self) -> int:
        due = self._publisher.due()
        return self.flush() if due is not None and self._session.clock.monotonic_us() >= due else 0

    def waiting_after(self, seconds: float) -> int:
        return waiting_after(self._session, seconds)


class _ThroughAgent:
    """The agent. A reading without a time is sent with its age, so that the agent's clock tells when it was."""

    def __init__(self, agent: Client, batch: int | None) -> None:
        self._agent = agent
        self._batch = batch
        self._waiting: list[tuple[float, Reading]] = []
        self._bytes = 0

    def add(self, reading: Reading) -> bool:
        self._waiting.append((time.monotonic(), reading))
        self._bytes += _RECORD_BYTES + (len(reading.value) if isinstance(reading.value, str | bytes) else 0)
        return self._bytes >= _REQUEST_BYTES

    def flush(self) -> int:
        if not self._waiting:
            return 0
        now = time.monotonic()
        records = [_record(reading, now - taken_at) for taken_at, reading in self._waiting]
        queued = self._agent.publish(records, self._batch)
        self._waiting, self._bytes = [], 0
        return queued

    def flush_if_due(self) -> int:
        due = self._waiting and time.monotonic() >= self._waiting[0][0] + TelemetryConfig().batch_seconds
        return self.flush() if due else 0

    def waiting_after(self, seconds: float) -> int:
        return waiting_at(self._agent, seconds)


def _record(reading: Reading, age_s: float) -> dict[str, Any]:
    """Return a reading as a SenML record that stands alone."""
    record: dict[str, Any] = {"n": reading.name, "t": -age_s if reading.time_us is None else reading.time_us / 1e6}
    if reading.unit:
        record["u"] = reading.unit
    match reading.value:
        case bool(value):
            record["vb"] = value
        case str(value):
            record["vs"] = value
        case bytes(value):
            record["vd"] = urlsafe_b64encode(value).decode().rstrip("=")
        case value:
            record["v"] = value
    return record


def _source(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error


def _readings(source: BinaryIO, kind: str) -> Iterator[Reading | None]:
    """Yield readings; None now and then while a slow source gives nothing."""
    if kind == "ndjson":
        yield from readings_of_lines(_lines(source))
        return
    content = source.read(_MAXIMUM_PACK_BYTES + 1)
    if len(content) > _MAXIMUM_PACK_BYTES:
        raise ReadingError("a SenML pack has at most 64 MiB", hint="use one record a line: --format ndjson")
    yield from readings_from_json(content, None) if kind == "senml" else readings_from_cbor(content, None)


def readings_of_lines(lines: Iterable[bytes | None], now_us: int | None = None) -> Iterator[Reading | None]:
    """Yield the readings of NDJSON, None for each None; relative times count from `now_us`.

    Raises:
        ReadingError: a line is none; says which.
    """
    number = 0
    for line in lines:
        if line is None:
            yield None
            continue
        number += 1
        if not line.strip():
            continue
        try:
            yield from readings_from_line(line, now_us)
        except ReadingError as error:
            raise ReadingError(f"line {number}: {error}", hint=error.hint) from error


def _lines(source: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines as they come; None where a pipe has been quiet for a while, so that a batch does not wait for it."""
    rest = b""
    while True:
        while not select.select([source], [], [], _QUIET_S)[0]:
            yield None
        chunk = os.read(source.fileno(), _CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAXIMUM_MESSAGE_BYTES:
            raise ReadingError("a line longer than 1 MB", hint="one SenML record or pack in each line")
        yield from lines
    if rest:
        yield rest


class _Progress:
    """One line on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self.queued = 0
        self._shown_at = 0.0
        self._terminal = sys.stderr.isatty()

    def show(self) -> None:
        """Redraw at most five times a second."""
        if self._terminal and time.monotonic() - self._shown_at > _PROGRESS_S:
            self._shown_at = time.monotonic()
            print(f"\r{count(self.queued, 'reading')} queued", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Leave the line."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
