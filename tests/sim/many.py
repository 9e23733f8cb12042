"""Many seeds over all cores."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from tests.sim.ledger import ViolationError
from tests.sim.metered import run_metered
from tests.sim.template import template
from tests.sim.world import run_seed

_TOGETHER = 2
"""Seeds that a process takes at a time: few, as one takes ten times as long as another, and the last ones end alone."""

_GARBAGE = 20_000
"""Objects between two collections: a world is small, and all of it goes at its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed: how much was accepted, or what does not hold."""

    seed: int
    accepted: int
    violation: str | None
    metered: bool = False

    def __str__(self) -> str:
        option = "--metered " if self.metered else ""
        return f"seed {self.seed}: {self.violation}\nreplay it: ./dev sim {option}{self.seed}"


def run_seeds(seeds: Iterable[int], jobs: int | None = None, *, metered: bool = False) -> Iterator[Outcome]:
    """Yield the outcome of each seed, in order; `jobs` processes share them, as many as there are cores."""
    jobs, outcome = jobs or os.cpu_count() or 1, partial(_outcome, metered=metered)
    if jobs == 1:
        yield from map(outcome, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=_prepare) as pool:
        yield from pool.map(outcome, seeds, chunksize=_TOGETHER)


def _prepare() -> None:
    """Make what all worlds of a process share, and have no collection look through it again."""
    template()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _outcome(seed: int, *, metered: bool) -> Outcome:
    try:
        return Outcome(seed, (run_metered if metered else run_seed)(seed).accepted, None, metered)
    except ViolationError as error:
        return Outcome(seed, 0, str(error), metered)
