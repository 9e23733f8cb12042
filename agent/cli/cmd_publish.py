"""`covey publish`: readings from a file or stdin into the outbox."""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from agent.cli.session import Session, open_session, print_json, wait_until
from agent.core.limits import MAXIMUM_MESSAGE_BYTES
from agent.core.senml import Reading, readings_from_cbor, readings_from_json, readings_from_line
from agent.errors import ReadingError, UsageError

_MAXIMUM_PACK_BYTES = 64 * 1024 * 1024
_PROGRESS_S = 0.2
_QUIET_S = 0.5
_CHUNK_BYTES = 256 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("file", nargs="?", default="-", help="file to read; - or nothing is stdin")
    parser.add_argument(
        "--format",
        choices=["ndjson", "senml", "senml-cbor"],
        default="ndjson",
        help="a SenML record or pack in each line (default), one SenML JSON pack, or one SenML CBOR pack",
    )
    parser.add_argument(
        "--batch", type=int, metavar="N", help="readings in one message (default: telemetry.batch_readings)"
    )
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="wait until the collector has landed all of it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Queue every reading durably, or say which line is wrong and what was queued before it."""
    with open_session(options) as session, _source(options.file) as source:
        publisher = session.publisher(options.batch)
        progress = _Progress()
        try:
            for reading in _readings(source, options.format):
                if reading is not None and publisher.add(reading.name, reading.unit, reading.time_us, reading.value):
                    progress.queued += publisher.flush(session.node)
                due = publisher.due()
                if due is not None and session.clock.monotonic_us() >= due:
                    progress.queued += publisher.flush(session.node)
                progress.show()
            progress.queued += publisher.flush(session.node)
        except ReadingError as error:
            progress.queued += publisher.flush(session.node)
            progress.finish()
            raise ReadingError(f"{error}; {progress.queued} readings before it are queued", hint=error.hint) from error
        progress.finish()
        return _conclude(session, options, progress.queued)


def _conclude(session: Session, options: argparse.Namespace, queued: int) -> int:
    if options.json:
        print_json({"queued_readings": queued})
    else:
        print(f"queued {queued} readings")
    if options.wait is None:
        return 0
    if wait_until(session, lambda: session.store.totals()[0] == 0, options.wait):
        print("landed by the collector", file=sys.stderr)
        return 0
    print(f"error: {session.store.totals()[0]} messages are not acknowledged yet", file=sys.stderr)
    print("hint: they stay queued; 'covey run' delivers them", file=sys.stderr)
    return 1


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


def readings_of_lines(lines: Iterable[bytes | None]) -> Iterator[Reading | None]:
    """Yield the readings of NDJSON, None for each None.

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
            yield from readings_from_line(line, None)
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
            print(f"\r{self.queued} readings queued", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Leave the line."""
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
