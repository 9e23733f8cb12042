"""`python -m covey_ingest`: the ingest as a program, with the exit codes of all of Covey: 0, 1, 2 (usage), 78."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

from covey.config.ingest_options import ingest_parser
from covey.errors import CoveyError, UsageError
from covey_ingest.progress import Lag, Progress, Published, Watcher

if TYPE_CHECKING:
    from covey_ingest.metrics import IngestMetrics


def main(arguments: list[str] | None = None) -> int:
    """Run the ingest until it is done or asked to stop (SIGINT, SIGTERM)."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["report"]:
            from covey_ingest import report_command

            return report_command.main(words[1:])
        if words[:1] == ["views"]:
            from covey_ingest import views_command

            return views_command.main(words[1:])
        if words[:1] in (["delete"], ["retain"]):
            from covey_ingest import delete_command

            return delete_command.main(words)
        try:
            _ingest(ingest_parser().parse_args(words))
        finally:
            if sys.stdout.isatty():
                print()
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _ingest(options: argparse.Namespace) -> None:
    into_store = isinstance(options.tables, str)
    if into_store:
        _check_for_store(options)
    if options.publish and options.sink != "delta":
        raise UsageError("what is published are Delta tables", hint="add --sink delta")
    if options.merge_files and options.sink == "delta":
        raise UsageError("Delta tables merge small files by themselves", hint="leave out --merge-files")
    if len(options.key_file) != len(options.vault):
        raise UsageError(
            f"{len(options.vault)} vaults and {len(options.key_file)} key files",
            hint="--key-file for each vault, in the order of the vaults",
        )
    console, stop = _Console(options), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    from covey_ingest.job import TableFolder, run
    from covey_ingest.rows import Verify
    from covey_ingest.source import SourceOptions
    from covey_ingest.store_job import run_into_store
    from covey_ingest.tables import Sink
    from covey_ingest.vaults import VaultPlace

    source = SourceOptions(
        options.vault[0],
        options.key_file[0],
        Verify(options.verify),
        options.max_segments_per_trigger,
        bytes_per_trigger=options.max_bytes_per_trigger,
        others=tuple(map(VaultPlace, options.vault[1:], options.key_file[1:])),
    )
    trigger_seconds = None if options.available_now else options.trigger_seconds
    if into_store:
        run_into_store(source, options.tables, trigger_seconds=trigger_seconds, watcher=console, stop=stop)
        return
    checkpoint, sink = options.checkpoint or options.tables / ".checkpoint", Sink(options.sink or "parquet")
    folder = TableFolder(options.tables, checkpoint, sink, options.merge_files, options.publish)
    run(source, folder, trigger_seconds=trigger_seconds, watcher=console, stop=stop)


def _check_for_store(options: argparse.Namespace) -> None:
    """Refuse what has no meaning where tables lie in an object store and nowhere else. Raises UsageError."""
    if options.sink == "parquet":
        raise UsageError("tables in an object store are Delta tables", hint="leave out --sink")
    for name, hint in (
        ("checkpoint", "the log of the tables says how far they have come"),
        ("publish", "they lie in the store already"),
        ("merge_files", "they merge small files by themselves"),
    ):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} is for tables in a folder", hint=f"leave it out: {hint}")


class _Console(Watcher):
    """Tells of each micro-batch: on the terminal, and to Prometheus where that is wanted."""

    def __init__(self, options: argparse.Namespace) -> None:
        if options.metrics_file and options.metrics_file.suffix != ".prom":
            raise UsageError("--metrics-file must end in .prom", hint="node_exporter reads no other name")
        self._show = _print_json if options.json else _print_line
        self._lag: Lag | None = None
        self._published: Published | None = None
        self._metrics: IngestMetrics | None = None
        if options.metrics_file or options.metrics_listen:
            from covey_ingest.metrics import IngestMetrics

            self._metrics = IngestMetrics(options.metrics_file, options.metrics_listen)

    def written(self, progress: Progress) -> None:
        if self._metrics:
            self._metrics.note(progress)
        self._show(progress, self._lag, self._published)

    def lags(self, lag: Lag) -> None:
        self._lag = lag
        if self._metrics:
            self._metrics.note_lag(lag)

    def published(self, published: Published) -> None:
        before = self._published.error if self._published else ""
        self._published = published
        if self._metrics:
            self._metrics.note_published(published)
        if published.error and not before:
            print(f"warning: not published, and tried again: {published.error}", file=sys.stderr, flush=True)
        elif before and not published.error:
            print(f"published again, {published.batches} micro-batches to go", file=sys.stderr, flush=True)


def _print_line(progress: Progress, lag: Lag | None, published: Published | None) -> None:
    line = f"batch {progress.batch_id}: {progress.readings} readings in {progress.messages} messages"
    if progress.orders:
        line += f", {progress.orders} orders and reports"
    if progress.losses:
        line += f", {progress.losses} losses"
    if progress.repeats:
        line += f", {progress.repeats} messages once more"
    if progress.quarantined:
        line += f", {progress.quarantined} quarantined"
    if progress.repaired:
        line += f", {progress.repaired} segments repaired"
    line += f", {progress.seconds:.1f} s, {progress.readings / max(progress.seconds, 0.001):.0f}/s"
    if lag and lag.segments:
        line += f", {lag.segments} segments behind ({lag.seconds:.0f} s)"
    if published and published.batches > 1:
        line += f", {published.batches} micro-batches not published ({published.seconds:.0f} s)"
    if sys.stdout.isatty():
        print(f"\r\x1b[K{line}", end="", flush=True)
    else:
        print(line, flush=True)


def _print_json(progress: Progress, lag: Lag | None, published: Published | None) -> None:
    behind = {"lag_segments": lag.segments, "lag_seconds": lag.seconds} if lag else {}
    if published:
        behind |= {"unpublished_batches": published.batches, "unpublished_seconds": published.seconds}
    print(json.dumps(asdict(progress) | behind), flush=True)


if __name__ == "__main__":
    sys.exit(main())
