"""`./dev sim SEED`: replay a seed and tell what happens. `--count N`: run N seeds from there.

`./dev sim --draw N`: run N seeds from one that is drawn anew each time, and told, so that they replay.

`--metered`: worlds of days whose devices have budgets, or windows to connect in (`metered.py`). `--planned`: worlds of
several groups in which operators give plans and move devices (`planned.py`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.sim.ledger import ViolationError
from tests.sim.many import RUNS, option_of, run_seeds
from tests.sim.open_seeds import OPEN_SEEDS

_DRAWN = range(10**7, 10**12)
"""First seeds that are drawn: none that anybody has run by its number, short enough to be typed again."""


def main() -> int:
    """Run what the command line says; 1 when an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="./dev sim", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the seed, or the first one")
    parser.add_argument("--count", type=int, default=1, help="seeds to run; one alone is traced")
    parser.add_argument("--draw", type=int, metavar="N", help="run N seeds from a first one that is drawn")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--metered", dest="kind", action="store_const", const="metered", help="with budgets and windows")
    kinds.add_argument("--planned", dest="kind", action="store_const", const="planned", help="with plans and moves")
    parser.set_defaults(kind="")
    parser.add_argument("--jobs", type=int, default=None, help="processes that share them; default: one for each core")
    options = parser.parse_args()
    if (options.seed is None) == (options.draw is None):
        parser.error("one of SEED and --draw is needed")
    if options.draw is not None:
        first = random.SystemRandom().choice(_DRAWN)
        print(f"drawn: ./dev sim {option_of(options.kind)}{first} --count {options.draw}", flush=True)
        return _run(first, options.draw, options.jobs, options.kind)
    if options.count == 1:
        return _replay(options.seed, options.kind)
    return _run(options.seed, options.count, options.jobs, options.kind)


def _replay(seed: int, kind: str) -> int:
    try:
        print(RUNS[kind](seed, print))
    except ViolationError as error:
        print(f"seed {seed}: {error}")
        return 1
    return 0


def _run(first: int, count: int, jobs: int | None, kind: str) -> int:
    started = time.perf_counter()
    accepted = failed = 0
    for outcome in run_seeds(range(first, first + count), jobs, kind):
        accepted += outcome.accepted
        expected = OPEN_SEEDS[kind].get(outcome.seed)
        if expected is not None and (outcome.violation or "").startswith(expected):
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
