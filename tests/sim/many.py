"""Many seeds over all cores."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.sim.ledger import ViolationError
from tests.sim.metered import run_metered
from tests.sim.planned import run_planned
from tests.sim.template import template
from tests.sim.world import run_seed

_TOGETHER = 2
"""Seeds that a process takes at a time: few, as one takes ten times as long as another, and the last ones end alone."""

_GARBAGE = 20_000
"""Objects between two collections: a world is small, and all of it goes at its end."""


RUNS: dict[str, Callable[..., Any]] = {"": run_seed, "metered": run_metered, "planned": run_planned}
"""Runs a seed, by the kind of its world: the option of `./dev sim` that asks for it, without dashes."""


def option_of(kind: str) -> str:
    """Return what asks for a kind of world on the command line."""
    return f"--{kind} " if kind else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed: how much was accepted, or what does not hold."""

    seed: int
    accepted: int
    violation: str | None
    kind: str = ""

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.violation}\nreplay it: ./dev sim {option_of(self.kind)}{self.seed}"


def run_seeds(seeds: Iterable[int], jobs: int | None = None, kind: str = "") -> Iterator[Outcome]:
    """Yield the outcome of each seed, in order; `jobs` processes share them, as many as there are cores."""
    jobs, outcome = jobs or os.cpu_count() or 1, partial(_outcome, kind=kind)
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


def _outcome(seed: int, kind: str) -> Outcome:
    try:
        return Outcome(seed, RUNS[kind](seed).accepted, None, kind)
    except ViolationError as error:
        return Outcome(seed, 0, str(error), kind)
