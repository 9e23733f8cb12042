"""`./dev year`: let a fleet live through a year in ten minutes; print what was lost, repeated, changed and disobeyed.

Exit codes: 0, everything was read once and the newest order is obeyed; 1, not; 2, usage; 78, something is missing here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from bench.clock import compiles
from bench.versus.disk import lacking
from bench.year.plan import DAYS, make_plan
from bench.year.report import Report
from bench.year.world import World
from broker_conf.mosquitto.broker import environment_with_mosquitto
from covey.errors import ConfigurationError, CoveyError

_NO_CONFIGURATION = 78
_MINUTES = 8.0
_EVERY_HOURS = 3
"""Before each reading all clocks jump, after which all programs work. One an hour takes 17 minutes of computing."""


def main() -> int:
    """Run what the command line says; return the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    if not compiles():
        print("error: no C compiler here\nhint: sudo apt-get install gcc libc6-dev", file=sys.stderr)
        return _NO_CONFIGURATION
    if lack := lacking():
        print(f"without {lack}: no disk is full, and a power cut only kills", file=sys.stderr)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="year-") as temporary:  # on a disk: /tmp may be memory
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        world = World(folder, make_plan(options.days), _stay_silent if options.json else _say)
        try:
            os.environ.update(environment_with_mosquitto())
            world.set_up()
            world.live_through(60 * options.minutes, options.every)
            world.settle()
            report = Report.of(world, time.monotonic() - began)
        except ConfigurationError as error:
            print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
            return _NO_CONFIGURATION
        except CoveyError as error:
            print(f"error: {error}\nhint: {error.hint or 'keep the logs with --folder'}", file=sys.stderr)
            return 1
        finally:
            world.close()
    if options.json:
        print(json.dumps(report.document(), indent=1))
    else:
        for line in report.lines():
            print(line)
    return int(not report.is_right)


def _say(at: datetime, what: str) -> None:
    print(f"{at:%Y-%m-%d}  {what}", flush=True)


def _stay_silent(_at: datetime, _what: str) -> None:
    """Leave the output to JSON."""


def _end(*_arguments: object) -> None:
    """End by unmounting disks and ending programs, which a second signal must not interrupt."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev year",
        description="Let a hub, its relay and four devices live through a year, with faults, in ten minutes.",
        epilog="exit codes:\n  0 every reading was read once, and every device obeys the newest order\n"
        "  1 not so\n  2 usage\n  78 something is missing here",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--days", type=_days, default=DAYS, metavar="N", help=f"so many days (default: {DAYS})")
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, metavar="N", help=f"real time for them (default: {_MINUTES:g})"
    )
    parser.add_argument(
        "--every",
        type=int,
        choices=(1, 2, 3, 4, 6),
        default=_EVERY_HOURS,
        metavar="HOURS",
        help=f"between readings (default: {_EVERY_HOURS})",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep logs and tables there")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


def _days(text: str) -> int:
    with suppress(ValueError):
        if 4 <= int(text) <= DAYS:
            return int(text)
    raise argparse.ArgumentTypeError(f"must be a number from 4 to {DAYS}")


if __name__ == "__main__":
    sys.exit(main())
