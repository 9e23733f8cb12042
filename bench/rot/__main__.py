"""`./dev rot`: damage files as disks do, start what uses them, and judge: nothing wrong, nothing lost in secret.

Exit codes: 0, no case was wrong; 1, some were; 2, usage.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from bench.rot.kinds import KINDS

_SHOWN = 20


def main() -> int:
    """Run what the command line says; return the exit code."""
    options = _options()
    outcomes, wrong = Counter[tuple[str, str]](), list[tuple[int, str]]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="rot-") as temporary:
        folder = Path(temporary)
        kinds = {}
        for name, (_, kind) in KINDS.items():
            (folder / name).mkdir()
            kinds[name] = kind(folder / name)
        weights = [share for share, _ in KINDS.values()]
        for seed in range(options.seed, options.seed + options.count):
            chance = random.Random(seed)
            name = options.kind or chance.choices([*KINDS], weights)[0]
            case = folder / "case"
            case.mkdir()
            said = io.StringIO()
            try:
                with contextlib.redirect_stderr(said):
                    label, outcome = kinds[name].case(case, chance)
                outcomes[label, outcome] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                outcomes[name, "WRONG"] += 1
                wrong.append((seed, f"{name}: {type(error).__name__}: {error}"))
                if options.verbose:
                    traceback.print_exc()
            shutil.rmtree(case, ignore_errors=True)
            if options.progress and (seed - options.seed) % options.progress == options.progress - 1:
                print(f"{seed - options.seed + 1:,} cases, {len(wrong)} wrong", file=sys.stderr, flush=True)
    _print(outcomes, wrong, time.monotonic() - began, as_json=options.json)
    return 1 if wrong else 0


def _print(outcomes: Counter[tuple[str, str]], wrong: list[tuple[int, str]], seconds: float, *, as_json: bool) -> None:
    kinds = sorted({label for label, _ in outcomes})
    columns = ("restored", "reported", "unread", "WRONG")
    if as_json:
        rows = {kind: {each: outcomes[kind, each] for each in columns} for kind in kinds}
        print(
            json.dumps({"cases": outcomes.total(), "wrong": wrong, "kinds": rows, "seconds": round(seconds)}, indent=1)
        )
        return
    print("| damaged | restored | reported | unread | wrong |\n|---|---|---|---|---|")
    for kind in kinds:
        print(f"| {kind} | " + " | ".join(f"{outcomes[kind, each]:,}" for each in columns) + " |")
    total = [sum(outcomes[kind, each] for kind in kinds) for each in columns]
    print("| all | " + " | ".join(f"{each:,}" for each in total) + " |")
    print(f"\n{outcomes.total():,} damages in {seconds:.0f} s, {len(wrong)} wrong")
    for seed, what in wrong[:_SHOWN]:
        print(f"wrong: --seed {seed} --count 1: {what}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev rot", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000, metavar="N", help="how many damages (default: 1,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first case")
    parser.add_argument("--kind", choices=[*KINDS], metavar="KIND", help=f"only one kind: {', '.join(KINDS)}")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where files lie (default: a temporary folder)")
    parser.add_argument("--progress", type=int, default=0, metavar="N", help="say after each N cases how it stands")
    parser.add_argument("--verbose", action="store_true", help="print where each wrong case failed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
