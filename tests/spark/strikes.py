"""What decides when something fails, and for how long; and what a strike is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

Strike = Callable[[], int]
"""Lets something fail; returns how much of it has: 0 where it cannot yet, and then it is tried again."""


class Dice:
    """What a seed decides. `longest_pause`: seconds between two strikes, at most."""

    def __init__(self, seed: int, longest_pause: float) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._longest_pause = longest_pause

    def another(self) -> Dice:
        """Return dice for what happens so often that nobody else's draws should depend on it."""
        return Dice(self._seed, self._longest_pause)

    def pause_seconds(self) -> float:
        """Draw how long nothing new fails."""
        return self._random.uniform(0.2, self._longest_pause)

    def outage_seconds(self) -> float:
        """Draw how long a store fails: other things fail meanwhile."""
        return self._longest_pause * self._random.uniform(2 / 3, 4 / 3)

    def restart_seconds(self) -> float:
        """Draw how long it takes until what was killed is started again."""
        return self._random.uniform(0, 1)

    def one_of(self, items: Sequence[Item]) -> Item:
        """Draw one."""
        return self._random.choice(items)

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """Draw an order."""
        return self._random.sample(items, len(items))
