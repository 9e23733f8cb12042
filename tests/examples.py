"""How many examples a property, or a world, is tried with, where each of them costs much.

Of many cases that show the same (seeds, moments at which the power goes) `./dev test` tries some, and `./dev prove` all
others: `parameters` and `shares`, with `plain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import settings

_USUAL = 100
_MORE = pytest.mark.proof(more=True)

T = TypeVar("T")


def examples(number: int) -> settings:
    """Return settings for so many where others have a hundred: in the quick suite, and in a search, in proportion."""
    return settings(max_examples=max(1, number * settings().max_examples // _USUAL))


def beginning_with(first: int | None, seeds: Iterable[int]) -> list[int]:
    """Return seeds in their order, but the one first that is known to notice a mistake, if one is."""
    return list(dict.fromkeys([*([] if first is None else [first]), *seeds]))


def parameters(numbers: Iterable[object], quick: int = 1, *, plain: int | None = None) -> list[Any]:
    """Return numbers to draw from, as a test's parameters.

    The quick suite takes so many of them, the first, and `./dev test` so many, all where `plain` does not say.
    """
    assert plain is None or plain > 0, "`./dev test` needs an example"

    def marks(place: int) -> Sequence[pytest.MarkDecorator]:
        if plain is not None and place >= plain:
            return (_MORE,)
        return (pytest.mark.slow,) if place >= quick else ()

    return [pytest.param(each, marks=marks(place)) for place, each in enumerate(numbers)]


@dataclass(frozen=True)
class Share:
    """One of equal shares of many cases; they lie evenly among the others."""

    number: int
    count: int

    def of(self, cases: Iterable[T]) -> list[T]:
        """Return the cases of this share."""
        return list(cases)[self.number :: self.count]


def shares(count: int, *, plain: int) -> list[Any]:
    """Return equal shares as a test's parameters; `./dev test` tries so many of them, and the quick suite none."""
    return parameters((Share(number, count) for number in range(count)), quick=0, plain=plain)
