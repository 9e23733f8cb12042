"""The lines that tell of dropped envelopes: one for each author and minute, whatever comes; counters tell of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from covey.core.events import EnvelopeDropped
from covey.core.ids import device_name
from covey.limits.rate import DROPPED_LINE_US, DROPPED_LINES


@dataclass(slots=True)
class _Told:
    at_us: int
    untold: int = 0


class DroppedLines:
    """What was told of whom, and how often it was not. Authors beyond a number are told of together with strangers."""

    def __init__(self) -> None:
        self._told: dict[bytes | None, _Told] = {}

    def dropped(self, event: EnvelopeDropped, now_us: int) -> str | None:
        """Return the line of an envelope; None where a line told of its author a short time ago."""
        author = event.author
        if author not in self._told and len(self._told) >= DROPPED_LINES:
            author = None
        told = self._told.get(author)
        if told is not None:
            told.untold += 1
            return None
        self._told[author] = _Told(now_us)
        return f"dropped an envelope{_whose(author)}: {event.code}: {event.reason}"

    def due(self, now_us: int) -> Iterator[str]:
        """Yield the lines of what was not told one by one, a minute after the last line about the same author."""
        for author, told in list(self._told.items()):
            if now_us < told.at_us + DROPPED_LINE_US:
                continue
            del self._told[author]
            if told.untold:
                self._told[author] = _Told(now_us)
                yield f"dropped {told.untold} more envelopes{_whose(author)}; 'covey status' counts why"


def _whose(author: bytes | None) -> str:
    return f" from {device_name(author)}" if author else ""
