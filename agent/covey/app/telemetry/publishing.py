"""Readings from a file or a stream into the outbox, in batches."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from covey.app.wording import count
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.senml import readings_from_cbor, readings_from_json, readings_from_line
from covey.core.telemetry.times import UNUSABLE_US
from covey.errors import ReadingError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES

_MAXIMUM_PACK_BYTES = 64 * 1024 * 1024
_QUIET_S = 0.5
_CHUNK_BYTES = 256 * 1024


class Outlet(Protocol):
    """Where readings go. A reading counts once `flush` has returned it."""

    def add(self, reading: Reading) -> bool:
        """Take a reading; return whether so many wait that they should be flushed."""

    def flush(self) -> int:
        """Queue what waits, durably; return how many that were."""

    def flush_if_due(self) -> int:
        """Queue what waits where it has waited long enough."""


@dataclass(frozen=True, slots=True)
class Queued:
    """How many readings were queued, and how many of these without the time that their source gave."""

    readings: int
    untimed: int = 0


def queue_readings(outlet: Outlet, readings: Iterable[Reading | None], progress: Callable[[int], None]) -> Queued:
    """Queue readings as they come, and return how many; `progress` is told how many are queued so far.

    Raises:
        ReadingError: one is wrong; says how many before it are queued.
    """
    queued = untimed = 0
    try:
        for reading in readings:
            untimed += reading is not None and reading.time_us == UNUSABLE_US
            if reading is None or not outlet.add(reading):
                queued += outlet.flush_if_due()
            else:
                queued += outlet.flush()
            progress(queued)
        return Queued(queued + outlet.flush(), untimed)
    except ReadingError as error:
        queued += outlet.flush()
        before = f"{count(queued, 'reading')} before it {'is' if queued == 1 else 'are'} queued"
        raise ReadingError(f"{error}; {before}", hint=error.hint) from error


def readings_of(source: BinaryIO, form: str) -> Iterator[Reading | None]:
    """Yield the readings of `ndjson`, `senml` or `senml-cbor`; None now and then while a slow source gives nothing.

    Raises:
        ReadingError: what is there is none of these.
    """
    if form == "ndjson":
        yield from readings_of_lines(_lines(source))
        return
    content = source.read(_MAXIMUM_PACK_BYTES + 1)
    if len(content) > _MAXIMUM_PACK_BYTES:
        raise ReadingError("a SenML pack must have at most 64 MiB", hint="write one record per line: --format ndjson")
    yield from readings_from_json(content, None) if form == "senml" else readings_from_cbor(content, None)


def readings_of_request(content: bytes, content_type: str, now_us: int) -> list[Reading]:
    """Return the readings of one request, of a media type; a relative time counts from now on the monotonic clock.

    Raises:
        ReadingError: what is there is none of these.
    """
    match content_type:
        case "application/senml+json":
            return readings_from_json(content, now_us)
        case "application/senml+cbor":
            return readings_from_cbor(content, now_us)
        case _:
            return [each for each in readings_of_lines(content.split(b"\n"), now_us) if each is not None]


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
    """Yield lines; None when a pipe has been quiet for a while, so that a batch does not wait for it."""
    rest = b""
    while True:
        while not select.select([source], [], [], _QUIET_S)[0]:
            yield None
        chunk = os.read(source.fileno(), _CHUNK_BYTES)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAXIMUM_MESSAGE_BYTES:
            raise ReadingError("the line is longer than 1 MB", hint="write one SenML record or pack per line")
        yield from lines
    if rest:
        yield rest
