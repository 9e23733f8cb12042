"""Words for numbers, the same in every message."""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.ids import printable
from covey.core.telemetry.drops import MEANINGS, Drop
from covey.core.telemetry.names import shown


def count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with what it counts: `1 message`, `2 messages`."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def size_text(size: int) -> str:
    """Return bytes as people read them: `512 B`, `1.5 KiB`, `30.0 MiB`."""
    for unit, length in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size} B"


def budget_text(size: int, period: str) -> str:
    """Return the budget of a link as settings write it: `20 kB/day`, `3 MB/month`."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= length:
            return f"{size / length:.4g} {unit}/{period}"
    return f"{size} B/{period}"


def dropped_text(dropped: Mapping[Drop, int] | Mapping[str, int]) -> str:
    """Return how many readings were dropped, and why, behind something else; empty where none were."""
    why = [f"{count(number, 'reading')} {MEANINGS[Drop(reason)]}" for reason, number in dropped.items()]
    return f"; {', '.join(why)}" if why else ""


def reading_name(name: str) -> str:
    """Return a reading's name as people read it, what was escaped in it included; safe for a terminal."""
    return printable(shown(name))


def duration(seconds: int) -> str:
    """Return a time to its largest whole unit: `40 s`, `3 h`, `12 d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
