"""`python -m tests.sim SEED`: replay a seed and tell what happens. `--count N`: run N seeds from there."""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.ledger import ViolationError
from tests.sim.world import run_seed


def main() -> int:
    """Run what the command line says; 1 when an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="seeds to run; one alone is traced")
    options = parser.parse_args()
    started = time.perf_counter()
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            summary = run_seed(seed, print if options.count == 1 else None)
        except ViolationError as error:
            failed += 1
            print(f"seed {seed}: {error}", flush=True)
        else:
            if options.count == 1:
                print(summary)
    if options.count > 1:
        rate = options.count / (time.perf_counter() - started)
        print(f"{options.count} seeds, {failed} failed, {rate:.0f} seeds/s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
