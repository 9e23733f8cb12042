"""How many examples a property is tried with, where each of them costs much."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 100


def examples(number: int) -> settings:
    """Return settings for so many where others have a hundred: in the quick suite, and in a search, in proportion."""
    return settings(max_examples=max(1, number * settings().max_examples // _USUAL))
