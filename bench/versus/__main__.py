"""`./dev versus`: run each system under each fault; print what was lost, repeated and changed.

Exit codes: 0, Covey lost, repeated and changed nothing except by damage to its files; 1, it did; 2, usage; 78, nothing
to compare with is installed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import clock
from bench.smoke import share_commands
from bench.versus import disk
from bench.versus.faults import FAULTS, Fault
from bench.versus.ledger import Balance
from bench.versus.rig import FULL, SHORT, Pace, Rig
from bench.versus.system import LackingError, System
from bench.versus.systems import SYSTEMS
from bench.versus.systems.covey import Covey

_HEAD = ("fault", "system", "acknowledged", "not delivered", "lost", "duplicates", "changed", "recovery")
_SHORT = ("edge-killed", "edge-cut-queue", "flipped-bit")
_NO_CONFIGURATION = 78


@dataclass(frozen=True, slots=True)
class Row:
    """One system under one fault; `skipped` says why it was not measured."""

    fault: str
    system: str
    balances: tuple[Balance, ...] = ()
    skipped: str = ""

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, repeated or changed, and every run recovered."""
        return not any(
            each.undelivered or each.duplicates or each.changed or each.recovery_s is None for each in self.balances
        )

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "fault": self.fault,
            "system": self.system,
            "runs": [asdict(each) for each in self.balances],
            "skipped": self.skipped,
        }

    def cells(self) -> tuple[str, ...]:
        """Return it as a line of the table: sums, and the longest recovery."""
        if self.skipped:
            return (self.fault, self.system, *"-----", self.skipped)
        sums = [
            sum(getattr(each, name) for each in self.balances)
            for name in ("acknowledged", "undelivered", "lost", "duplicates", "changed")
        ]
        recoveries = [each.recovery_s for each in self.balances]
        failed = recoveries.count(None)
        longest = max((each for each in recoveries if each is not None), default=0.0)
        of = f" in {failed} of {len(recoveries)}" if len(recoveries) > 1 else ""
        recovery = f"never{of}" if failed else f"{longest:.1f} s"
        return (self.fault, self.system, *(f"{each:,}" for each in sums), recovery)


def main() -> int:
    """Run what the command line says; return the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    share_commands()
    versions, lacking = _versions(options.systems or SYSTEMS)
    for name, error in lacking.items():
        print(f"{name}: not compared: {error.args[0]} ({error.args[1]})", file=sys.stderr)
    if not versions:
        print("error: none of these systems is installed\nhint: run ./dev versus, which installs them", file=sys.stderr)
        return _NO_CONFIGURATION
    names = options.faults or (_SHORT if options.short else FAULTS)
    rows: list[Row] = []
    for row in _rows([FAULTS[name] for name in names], versions, SHORT if options.short else FULL, options):
        rows.append(row)
        if not options.json:
            _print(row.cells(), options.markdown, first=len(rows) == 1)
    if options.json:
        document = {
            "date": datetime.now(UTC).date().isoformat(),
            "versions": versions,
            "promises": {name: SYSTEMS[name].promise for name in versions},
            "rows": [row.document() for row in rows],
        }
        print(json.dumps(document, indent=1))
    else:
        print()
        for name, version in versions.items():
            print(f"{name}: {version}; {SYSTEMS[name].promise}")
    return int(any(row.system == Covey.name and not row.clean and not FAULTS[row.fault].damages for row in rows))


def _end(*_arguments: object) -> None:
    """End by unmounting disks and ending programs, which a second signal must not interrupt."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def _options() -> argparse.Namespace:
    faults = "\n".join(f"  {each.name:<18} {each.what}" for each in FAULTS.values())
    systems = "\n".join(f"  {each.name:<18} {each.promise}" for each in SYSTEMS.values())
    parser = argparse.ArgumentParser(
        prog="./dev versus",
        description="Put Covey and others through the same faults, and count acknowledged messages that were lost.",
        epilog=f"systems:\n{systems}\n\nfaults:\n{faults}\n\n"
        "exit codes:\n  0 Covey lost, repeated and changed nothing (with damaged files it may lose, and says so)\n"
        "  1 it did\n  2 usage\n  78 none of the systems is installed",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, metavar="NAME", help="only these")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, metavar="NAME", help="only these")
    parser.add_argument("--short", action="store_true", help=f"a minute, small sizes: {', '.join(_SHORT)}")
    parser.add_argument("--at-once", type=int, metavar="N", help="runs at the same time (default: 1; with --short all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="draw other places and pauses (default: 1)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep logs and configurations of each run there")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, with each run")
    form.add_argument("--markdown", action="store_true", help="print the table of the documentation")
    return parser.parse_args()


def _versions(names: Iterable[str]) -> tuple[dict[str, str], dict[str, LackingError]]:
    versions, lacking = {}, {}
    for name in names:
        try:
            versions[name] = SYSTEMS[name].version()
        except LackingError as error:
            lacking[name] = error
    return versions, lacking


def _rows(faults: list[Fault], names: Iterable[str], pace: Pace, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows in order; runs may be many at once."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="versus-") as temporary:  # on a disk: /tmp may be memory
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(options.at_once or (len(faults) * len(SYSTEMS) if options.short else 1)) as pool:
            rigs: list[Rig] = []
            planned: list[tuple[Fault, type[System], str, list[Future[Balance]]]] = []
            for fault in faults:
                for name in names:
                    system = SYSTEMS[name]
                    skipped = _skipped(fault, system)
                    rounds = 0 if skipped else pace.rounds if fault.damages else 1
                    runs = [
                        pool.submit(
                            _run,
                            system,
                            fault,
                            folder / f"{fault.name}-{name}-{number}",
                            pace,
                            options.seed + number,
                            rigs,
                        )
                        for number in range(rounds)
                    ]
                    planned.append((fault, system, skipped, runs))
            try:
                for fault, system, skipped, runs in planned:
                    yield Row(fault.name, system.name, tuple(run.result() for run in runs), skipped)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for rig in rigs:
                    rig.abort()
                raise


def _run(system: type[System], fault: Fault, folder: Path, pace: Pace, seed: int, rigs: list[Rig]) -> Balance:
    rig = Rig(system, folder, pace, seed)
    rigs.append(rig)
    return rig.run(fault.strike, sets_clock=fault.sets_clock)


def _skipped(fault: Fault, system: type[System]) -> str:
    if fault.needs_relay and system is not Covey:
        return "has no relay: its hub is the broker"
    if fault.needs_disk and (lacking := disk.lacking()):
        return f"needs {lacking}"
    if fault.needs_clock and not system.reads_c_clock:
        return "does not ask the C library for the time"
    if fault.needs_clock and not clock.compiles():
        return "needs a C compiler"
    return ""


def _print(cells: tuple[str, ...], markdown: bool, first: bool) -> None:
    if markdown:
        if first:
            print("| " + " | ".join(_HEAD) + " |\n|---|---|--:|--:|--:|--:|--:|--:|")
        print("| " + " | ".join(cells) + " |", flush=True)
        return
    widths = (17, 17, 12, 13, 6, 10, 8, 0)
    for line in [_HEAD, cells] if first else [cells]:
        print(
            "  ".join(
                f"{cell:<{width}}" if place < 2 else f"{cell:>{width}}"
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ),
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
