"""`python -m spark_ingest`: the ingest as a program, with the exit codes of all of Covey: 0, 1, 2 (usage), 78."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import CoveyError
from spark_ingest.rows import Verify

if TYPE_CHECKING:
    from spark_ingest.job import Progress


def main(arguments: list[str] | None = None) -> int:
    """Run the ingest until it is done or told to stop (SIGINT, SIGTERM)."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        from spark_ingest.job import run

        run(
            options.vault,
            options.key_file,
            options.tables,
            options.checkpoint or options.tables / ".checkpoint",
            available_now=options.available_now,
            trigger_seconds=options.trigger_seconds,
            on_progress=_print_json if options.json else _print_line,
            verify=Verify(options.verify),
            segments_per_trigger=options.max_segments_per_trigger,
            stop=stop,
        )
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="covey ingest", description="Turn a vault's telemetry into tables, each reading once."
    )
    parser.add_argument("vault", help="the vault: a directory, or s3://BUCKET/PREFIX")
    parser.add_argument("tables", type=Path, help="where the tables go")
    parser.add_argument("--key-file", type=Path, required=True, help="the vault key file (mode 0600)")
    parser.add_argument("--checkpoint", type=Path, help="Spark's checkpoint (default: TABLES/.checkpoint)")
    parser.add_argument("--available-now", action="store_true", help="stop when all that is there now is in the tables")
    parser.add_argument("--trigger-seconds", type=_seconds, default=2.0, help="time between micro-batches (default 2)")
    parser.add_argument("--verify", choices=[each.value for each in Verify], default=Verify.ALL.value)
    parser.add_argument("--max-segments-per-trigger", type=int, default=256, metavar="N")
    parser.add_argument("--json", action="store_true", help="one JSON object for each micro-batch")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError("not between 0 and a day")
    return seconds


def _print_line(progress: Progress) -> None:
    told = f"batch {progress.batch_id}: {progress.readings} readings in {progress.messages} messages"
    if progress.losses:
        told += f", {progress.losses} losses"
    if progress.repeats:
        told += f", {progress.repeats} messages once more"
    if progress.quarantined:
        told += f", {progress.quarantined} quarantined"
    print(f"{told}, {progress.seconds:.1f} s", flush=True)


def _print_json(progress: Progress) -> None:
    print(json.dumps(asdict(progress)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
