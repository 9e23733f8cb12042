"""Words for numbers, the same in every message."""

from __future__ import annotations


def count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with what it counts: `1 message`, `2 messages`."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def duration(seconds: int) -> str:
    """Return a time to its largest whole unit: `40 s`, `3 h`, `12 d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
