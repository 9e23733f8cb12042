"""The lines that report dropped envelopes: one for each author and minute, whatever comes; counters count each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from covey.core.events import EnvelopeDropped
from covey.core.ids import DeviceKey
from covey.limits.rate import DROPPED_LINE_US, DROPPED_LINES


@dataclass(slots=True)
class _LastLine:
    at_us: int
    unreported: int = 0


class DroppedLines:
    """When each author last had a line, and how many envelopes had none since; of many authors, the rest share one."""

    def __init__(self, named: Callable[[DeviceKey], str]) -> None:
        """Begin without any; `named` returns a device's name and label, and is asked for lines alone."""
        self._named = named
        self._lines: dict[DeviceKey | None, _LastLine] = {}

    def dropped(self, event: EnvelopeDropped, now_us: int) -> str | None:
        """Return the line of an envelope; None where its author had a line a short time ago."""
        author = event.author
        if author not in self._lines and len(self._lines) >= DROPPED_LINES:
            author = None
        line = self._lines.get(author)
        if line is not None:
            line.unreported += 1
            return None
        self._lines[author] = _LastLine(now_us)
        return f"dropped an envelope{self._whose(author)}: {event.code}: {event.reason}"

    def due(self, now_us: int) -> Iterator[str]:
        """Yield the lines that count what had none of its own, a minute after the last line about the same author."""
        for author, line in list(self._lines.items()):
            if now_us < line.at_us + DROPPED_LINE_US:
                continue
            del self._lines[author]
            if line.unreported:
                self._lines[author] = _LastLine(now_us)
                yield f"dropped {line.unreported} more envelopes{self._whose(author)}; 'covey status' counts why"

    def _whose(self, author: DeviceKey | None) -> str:
        return f" from {self._named(author)}" if author else ""
