"""`./dev demo`: send this machine's sensor readings through a fleet into tables, and prove that each is there once."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from covey.errors import CoveyError

_HERE = Path(__file__).resolve().parent.parent
_SECONDS, _LIGHT_SECONDS = 45.0, 10.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--light", action="store_true", help="use the local engine: no Spark, no Java")
    parser.add_argument("--agents", type=int, default=3, metavar="N", help="agents, 1 to 20 (default 3)")
    parser.add_argument("--seconds", type=float, metavar="S", help="sampling time (default 45; with --light 10)")
    parser.add_argument(
        "--chaos", action="store_true", help="kill the broker, an agent, the collector and Spark with SIGKILL"
    )
    parser.add_argument("--board", action="store_true", help="add an emulated microcontroller behind agent-1")
    parser.add_argument("--seed", type=int, default=1, help="seed for the kill times (default 1)")
    parser.add_argument("--keep", metavar="DIR", help="working folder (default: .cache/demo, emptied at each run)")
    return parser


def main() -> int:
    """Run the demo; exit 1 if a reading is missing or duplicated, or the tables lack an order that a stick carried."""
    options = _parser().parse_args()
    if options.seconds is None:
        options.seconds = _LIGHT_SECONDS if options.light else _SECONDS
    if not 1 <= options.agents <= 20 or not 5 <= options.seconds <= 86_400:
        print("error: 1 to 20 agents, 5 to 86400 seconds\nhint: ./dev demo --help", file=sys.stderr)
        return 2
    if options.light and options.board:
        print("error: the light demo has no board\nhint: ./dev demo --board", file=sys.stderr)
        return 2
    folder = Path(options.keep).absolute() if options.keep else _HERE / ".cache" / "demo"
    if folder.exists() and any(folder.iterdir()):
        if options.keep:
            print(f"error: {folder} is not empty\nhint: name a new folder", file=sys.stderr)
            return 2
        shutil.rmtree(folder)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    try:
        return _run(options, folder)
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace, folder: Path) -> int:
    if options.light:
        from demo.light import run
    else:
        from demo.whole import run
    return run(options, folder)


if __name__ == "__main__":
    sys.exit(main())
