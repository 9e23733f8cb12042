"""The course of one device's series over a time, from the segments of a vault alone.

1. The time is divided into equal intervals. Of each interval a curve keeps the lowest, the highest and the last value,
   so that its size does not depend on the number of readings and a spike stays visible.
2. Only messages of the device are opened. A message that is in the vault twice changes nothing.
3. Of a summary each window gives its first, lowest, highest and last value, which draw the line of all its readings.
   What has come as it was besides changes nothing.
4. Segments that were closed before the time began are not read: no later reading can be in them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from covey.app.telemetry.newest_readings import messages_of, segments_backwards
from covey.core.telemetry.batch import Kind
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.telemetry.names import shown
from covey.core.telemetry.summaries import read_summary
from covey.core.wire.message import BATCHES, MessageType
from covey.errors import RemoteError
from covey.limits.vault import MAXIMUM_SHOWN_SERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from covey.core.ids import DeviceKey
    from covey.core.vault.reading import VaultReader
    from covey.core.wire.message import Message


class Interval(NamedTuple):
    """What a series was in one interval: its last value with its time (microseconds since 1970), and its bounds."""

    at_us: int
    last: float
    lowest: float
    highest: float
    thinned: bool = False
    """Whether a summary stands for some of its readings."""

    def including(self, at_us: int, value: float, *, thinned: bool) -> Interval:
        """Return the interval with one more reading, or one more value of a summary."""
        at, last = (at_us, value) if at_us >= self.at_us else (self.at_us, self.last)
        return Interval(at, last, min(self.lowest, value), max(self.highest, value), self.thinned or thinned)


@dataclass(frozen=True, slots=True)
class Window:
    """A time from `since_us` to `until_us`, in microseconds since 1970, divided into equal intervals."""

    since_us: int
    until_us: int
    intervals: int

    def interval(self, at_us: int) -> int | None:
        """Return the number of the interval of a time, from 0; None outside the window."""
        if not self.since_us <= at_us < self.until_us:
            return None
        return (at_us - self.since_us) * self.intervals // (self.until_us - self.since_us)


Curve = dict[int, Interval]
"""The intervals that have readings, by their number."""


def curves(
    reader: VaultReader,
    nodes: Iterable[str],
    author: DeviceKey,
    window: Window,
    *,
    replaced: Collection[DeviceKey] = (),
    series: str | None = None,
    most_bytes: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[int], None] = lambda _: None,
) -> dict[tuple[str, str], Curve]:
    """Return the curves of a device's series, by name and unit: numbers, and of switches 0 or 1.

    Args:
        reader: the vault.
        nodes: the nodes of the vault whose segments are read, in hex.
        author: the device.
        replaced: the devices that it has replaced, whose series it continues.
        window: the time that is wanted.
        series: the name that is wanted, as sent or as people read it; None for all, of which the first
            `MAXIMUM_SHOWN_SERIES` are kept.
        most_bytes: how much to read, from the newest segment backwards; None for all of the window.
        progress: called with the bytes read so far.
        stopped: called where `most_bytes` ends the reading, with the time (microseconds since 1970) from which on all
            was read.

    Raises:
        StorageError: the vault cannot be read.
    """
    found: dict[tuple[str, str], Curve] = {}
    known, read = KnownLayouts(), 0
    for node, entry in segments_backwards(reader, nodes):
        read += entry.size
        if entry.created_at_us < window.since_us:
            break
        if most_bytes is not None and read > most_bytes:
            stopped(entry.created_at_us)
            break
        messages = (messages_of(reader, node, entry, each, BATCHES) for each in (author, *replaced))
        for message in chain.from_iterable(messages):
            thinned = message.type is not MessageType.TELEMETRY
            with suppress(RemoteError):
                for name, unit, at_us, value in _values(message, known):
                    if series in {None, name, shown(name)}:
                        _take(found, (name, unit), window.interval(at_us), at_us, value, thinned=thinned)
        progress(read)
    return found


def _values(message: Message, known: KnownLayouts) -> Iterator[tuple[str, str, int, float]]:
    """Yield (name, unit, time, value): of a batch its numbers, of a summary what draws the same line (rule 3)."""
    if message.type is MessageType.TELEMETRY:
        for name, unit, at_us, value in read_telemetry(message.body, known)[1].readings():
            if isinstance(value, int | float):
                yield name, unit, at_us, float(value)
        return
    _, summary = read_summary(message.body)
    for each in summary.series:
        power = 10**each.scale
        for window in each.windows if each.kind <= Kind.FLOAT else ():
            first_us, last_us = summary.wall_us(window.first_us), summary.wall_us(window.last_us)
            for at_us, value in (
                (first_us, window.minimum),
                (first_us, window.maximum),
                (first_us, window.first),
                (last_us, window.last),
            ):
                yield each.name, each.unit, at_us, value / power


def _take(
    found: dict[tuple[str, str], Curve],
    name: tuple[str, str],
    interval: int | None,
    at_us: int,
    value: float,
    *,
    thinned: bool,
) -> None:
    if interval is None or (name not in found and len(found) >= MAXIMUM_SHOWN_SERIES):
        return
    curve = found.setdefault(name, {})
    before = curve.get(interval)
    curve[interval] = (
        Interval(at_us, value, value, value, thinned)
        if before is None
        else before.including(at_us, value, thinned=thinned)
    )
