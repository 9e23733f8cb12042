"""Words for numbers, the same in every message."""

from __future__ import annotations


def count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with what it counts: `1 message`, `2 messages`."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"
