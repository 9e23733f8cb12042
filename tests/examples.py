"""How many examples a property, or a world, is tried with, where each of them costs much."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings

_USUAL = 100


def examples(number: int) -> settings:
    """Return settings for so many where others have a hundred: in the quick suite, and in a search, in proportion."""
    return settings(max_examples=max(1, number * settings().max_examples // _USUAL))


def beginning_with(first: int | None, seeds: Iterable[int]) -> list[int]:
    """Return seeds in their order, but the one first that is known to notice a mistake, if one is."""
    return list(dict.fromkeys([*([] if first is None else [first]), *seeds]))


def parameters(numbers: Iterable[int], quick: int = 1) -> list[object]:
    """Return numbers to draw from, as a test's parameters; the quick suite takes so many of them, the first."""
    return [pytest.param(each, marks=pytest.mark.slow if place >= quick else ()) for place, each in enumerate(numbers)]
