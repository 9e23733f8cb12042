"""`./dev sim SEED`: replay a seed and tell what happens. `--count N`: run N seeds from there.

`./dev sim --draw N`: run N seeds from one that is drawn anew each time, and told, so that they replay.

`--metered`: worlds of days whose devices have budgets, or windows to connect in (`metered.py`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.sim.ledger import ViolationError
from tests.sim.many import run_seeds
from tests.sim.metered import run_metered
from tests.sim.open_seeds import OPEN_METERED_SEEDS, OPEN_SEEDS
from tests.sim.world import run_seed

_DRAWN = range(10**7, 10**12)
"""First seeds that are drawn: none that anybody has run by its number, short enough to be typed again."""


def main() -> int:
    """Run what the command line says; 1 when an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="./dev sim", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the seed, or the first one")
    parser.add_argument("--count", type=int, default=1, help="seeds to run; one alone is traced")
    parser.add_argument("--draw", type=int, metavar="N", help="run N seeds from a first one that is drawn")
    parser.add_argument("--metered", action="store_true", help="worlds with budgets and windows")
    parser.add_argument("--jobs", type=int, default=None, help="processes that share them; default: one for each core")
    options = parser.parse_args()
    if (options.seed is None) == (options.draw is None):
        parser.error("one of SEED and --draw is needed")
    if options.draw is not None:
        first = random.SystemRandom().choice(_DRAWN)
        option = "--metered " if options.metered else ""
        print(f"drawn: ./dev sim {option}{first} --count {options.draw}", flush=True)
        return _run(first, options.draw, options.jobs, metered=options.metered)
    if options.count == 1:
        return _replay(options.seed, metered=options.metered)
    return _run(options.seed, options.count, options.jobs, metered=options.metered)


def _replay(seed: int, *, metered: bool) -> int:
    try:
        print((run_metered if metered else run_seed)(seed, print))
    except ViolationError as error:
        print(f"seed {seed}: {error}")
        return 1
    return 0


def _run(first: int, count: int, jobs: int | None, *, metered: bool) -> int:
    started = time.perf_counter()
    accepted = failed = 0
    for outcome in run_seeds(range(first, first + count), jobs, metered=metered):
        accepted += outcome.accepted
        expected = (OPEN_METERED_SEEDS if metered else OPEN_SEEDS).get(outcome.seed)
        if expected is not None and outcome.violation == expected:
            print(f"known, and open: {outcome}", flush=True)
        elif expected is not None and outcome.violation is None:
            failed += 1
            print(f"seed {outcome.seed} fails no more: take it off tests/sim/open_seeds.py", flush=True)
        elif outcome.violation is not None:
            failed += 1
            print(outcome, flush=True)
    rate = count / (time.perf_counter() - started)
    print(f"{count} seeds, {accepted} submissions accepted, {failed} failed, {rate:.0f} seeds/s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
