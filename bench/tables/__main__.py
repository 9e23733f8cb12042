"""`python -m bench.tables` runs `bench.tables.ingest`, which worker processes would load again if it were started."""

from __future__ import annotations

import argparse

from bench.tables import ingest

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.tables", description=ingest.__doc__)
    parser.add_argument("--readings", type=int, default=ingest.READINGS, help="in each vault, by the hundred thousand")
    parser.add_argument("--rounds", type=int, default=ingest.ROUNDS, help="that are counted")
    given = parser.parse_args()
    ingest.main(given.readings, given.rounds)
