"""`python -m covey_ingest ACTION …`: what `covey tables` hands over to, with the exit codes 0, 1, 2 (usage) and 78."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

from covey.config.tables_options import read_labels, tables_actions, tables_parser
from covey.errors import (
    CoveyError,
    MissingPackageError,
    RollbackError,
    StorageError,
    UnknownVaultKeyError,
    UsageError,
)
from covey_ingest.progress import Lag, NodeTrouble, Progress, Watcher

if TYPE_CHECKING:
    from covey_ingest.committer.copies import TableFile
    from covey_ingest.committer.deletions import Deletions
    from covey_ingest.metrics import IngestMetrics

_NEEDED = ("pyarrow", "duckdb", "deltalake", "numpy")
_DAY_US = 86_400_000_000


def main(arguments: list[str] | None = None) -> int:
    """Do one action."""
    words = sys.argv[1:] if arguments is None else arguments
    action, *rest = words if words[:1] and words[0] in tables_actions() else ["run", *words]
    try:
        options = tables_parser(action).parse_args(rest)
        for package in _NEEDED:
            if find_spec(package) is None:
                raise MissingPackageError("covey tables", package, in_debian=False)
        _ACTIONS[action](options)
    except CoveyError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    if len(options.key_file) != len(options.vault):
        raise UsageError(
            f"{len(options.vault)} vaults but {len(options.key_file)} key files are given",
            hint="give one --key-file per vault, in the order of the vaults",
        )
    if options.engine == "spark" and find_spec("pyspark") is None:
        raise MissingPackageError("the Spark engine", "pyspark", in_debian=False)
    console, stop = _Console(options), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if options.engine == "local":
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy multiplies no matrices here, and starts none then
        import_module("covey_ingest.task.without_pandas")
    from covey_ingest.options import SourceOptions
    from covey_ingest.task.rows import Verify
    from covey_ingest.vault.vaults import VaultPlace

    source = SourceOptions(
        options.vault[0],
        options.key_file[0],
        Verify(options.verify),
        options.max_segments_per_trigger,
        bytes_per_trigger=options.max_bytes_per_trigger,
        others=tuple(map(VaultPlace, options.vault[1:], options.key_file[1:])),
    )
    trigger_seconds = None if options.available_now else options.trigger_seconds
    try:
        if options.engine == "spark":
            from covey_ingest.spark.spark_engine import run_on_spark

            run_on_spark(source, options.tables, trigger_seconds=trigger_seconds, watcher=console, stop=stop)
        else:
            from covey_ingest.local_engine import run_here

            run_here(
                source,
                options.tables,
                trigger_seconds=trigger_seconds,
                watcher=console,
                stop=stop,
                workers=options.workers,
            )
    finally:
        if sys.stdout.isatty():
            print()


def _query(options: argparse.Namespace) -> None:
    from covey_ingest.queries.querying import query

    query(options.tables, options.sql, options.format)


def _shell(options: argparse.Namespace) -> None:
    from covey_ingest.queries.querying import shell

    shell(options.tables)


def _export(options: argparse.Namespace) -> None:
    from covey_ingest.queries.querying import export

    rows = export(options.tables, options.table, options.folder)
    print(f"{rows} rows of {options.table} are in {options.folder}")


def _verify(options: argparse.Namespace) -> None:
    from covey_ingest.committer.copies import RESTORE_HINT
    from covey_ingest.committer.delta_log import REBUILD_HINT
    from covey_ingest.committer.table_files import tables_at
    from covey_ingest.committer.tables import ALL_TABLES
    from covey_ingest.committer.verifying import verified

    files = [*verified(tables_at(options.tables), ALL_TABLES)]
    damaged = [each for each in files if each.problem]
    if options.json:
        said = {"files": len(files), "bytes": sum(each.size for each in files)}
        said["without_digest"] = sum(not each.has_digest for each in files)
        print(json.dumps(said | {"damaged": [asdict(each) for each in damaged]}))
    elif not damaged:
        print(f"{len(files)} files, {sum(each.size for each in files) / 2**20:.1f} MiB: none is damaged")
    for each in damaged if not options.json else ():
        print(f"{each.key}: {each.problem}")
    if damaged:
        hint = RESTORE_HINT if all(each.has_copy for each in damaged) else REBUILD_HINT
        raise StorageError(f"{len(damaged)} of {len(files)} files are damaged", hint=hint)


def _views(options: argparse.Namespace) -> None:
    from covey_ingest.queries.views import Engine, script

    print(script(options.tables, Engine(options.dialect)), end="")


def _report(options: argparse.Namespace) -> None:
    from covey_ingest.queries.report import make_report
    from covey_ingest.queries.report_text import text

    labels = {} if options.labels is None else read_labels(options.labels)
    report = make_report(options.tables, time.time_ns() // 1000, options.since, options.author, labels)
    if options.html:
        from covey_ingest.queries.report_html import html

        try:
            options.html.write_text(html(report), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{options.html} cannot be written: {error.strerror}") from error
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    elif options.html:
        print(f"the report is in {options.html.absolute()}")
    else:
        print(text(report), end="")


def _delete(options: argparse.Namespace) -> None:
    from covey_ingest.committer.deleting import authors, of_author, whole_key
    from covey_ingest.committer.table_files import tables_at

    until_us = time.time_ns() // 1000
    author = whole_key(options.author, lambda: authors(tables_at(options.tables)))
    _take_out(
        options, f"all readings of {author}", of_author(author), lambda before: before.with_author(author, until_us)
    )


def _retain(options: argparse.Namespace) -> None:
    from covey_ingest.committer.deleting import of_before

    bound_us = time.time_ns() // 1000 - options.days * _DAY_US
    what = f"readings older than {options.days} days"
    _take_out(options, what, of_before(bound_us), lambda before: before.with_bound(bound_us))


def _take_out(options: argparse.Namespace, what: str, due: object, noted: Callable[[Deletions], Deletions]) -> None:
    """Delete rows, or count them, and report how many went from each table."""
    from covey_ingest.committer.deleting import Due, counted, delete
    from covey_ingest.committer.table_files import tables_at

    assert isinstance(due, Due)
    location = tables_at(options.tables)
    rows = counted(location, due) if options.dry_run else delete(location, due, noted)
    if options.json:
        print(json.dumps({"deleted": not options.dry_run, "what": what, "rows": rows}))
        return
    went = ", ".join(f"{count} of {table}" for table, count in rows.items()) or "no rows"
    print(f"{'would delete' if options.dry_run else 'deleted'} {what}: {went}")


_ACTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "run": _run,
    "query": _query,
    "shell": _shell,
    "export": _export,
    "verify": _verify,
    "views": _views,
    "report": _report,
    "delete": _delete,
    "retain": _retain,
}


class _Console(Watcher):
    """Tells of each micro-batch: on the terminal, and to Prometheus where that is wanted."""

    def __init__(self, options: argparse.Namespace) -> None:
        if options.metrics_file and options.metrics_file.suffix != ".prom":
            raise UsageError("--metrics-file must end in .prom", hint="node_exporter reads only such files")
        self._show = _print_json if options.json else _print_line
        self._lag: Lag | None = None
        self._damaged: set[TableFile] = set()
        self._restored = 0
        self._metrics: IngestMetrics | None = None
        if options.metrics_file or options.metrics_listen:
            if find_spec("prometheus_client") is None:
                raise MissingPackageError("metrics", "prometheus-client", in_debian=False)
            from covey_ingest.metrics import IngestMetrics

            self._metrics = IngestMetrics(options.metrics_file, options.metrics_listen)

    def written(self, progress: Progress) -> None:
        if self._metrics:
            self._metrics.note(progress)
        self._show(progress, self._lag)

    def lags(self, lag: Lag) -> None:
        self._lag = lag
        if self._metrics:
            self._metrics.note_lag(lag)

    def troubled(self, trouble: NodeTrouble) -> None:
        what, hint = _TROUBLES.get(trouble.code, _TROUBLE)
        node = trouble.node.rpartition("/")[2][:8]
        print(f"warning: collector {node} is not followed any further: {what}", file=sys.stderr)
        print(f"hint: {hint}", file=sys.stderr)

    def damaged(self, file: TableFile) -> None:
        if file.restored:
            self._restored += 1
            print(f"warning: {file.key}: {file.problem}; it is restored", file=sys.stderr)
        elif file not in self._damaged:
            self._damaged.add(file)
            print(f"warning: {file.key}: {file.problem}", file=sys.stderr)
            print("hint: list all damaged files: covey tables verify TABLES", file=sys.stderr)
        if self._metrics:
            self._metrics.note_damaged(len(self._damaged), self._restored)


_TROUBLES = {
    UnknownVaultKeyError.code: (
        "the key file lacks its newest vault key",
        "copy the collector's vault.key again, or make a reader of this machine: covey vault new-reader FILE",
    ),
    "missing": ("its manifest is not there", "check that the vault's disk is mounted; covey vault verify"),
    RollbackError.code: ("the vault has an older manifest than before", "check the vault: covey vault verify"),
}
_TROUBLE = ("its manifest is damaged", "check the vault: covey vault verify")


def _print_line(progress: Progress, lag: Lag | None) -> None:
    line = f"batch {progress.batch_id}: {progress.readings} readings in {progress.messages} messages"
    if progress.orders:
        line += f", {progress.orders} orders and reports"
    if progress.losses:
        line += f", {progress.losses} losses"
    if progress.repeats:
        line += f", {progress.repeats} duplicate messages"
    if progress.quarantined:
        line += f", {progress.quarantined} quarantined"
    if progress.repaired:
        line += f", {progress.repaired} segments repaired"
    line += f", {progress.seconds:.1f} s, {progress.readings / max(progress.seconds, 0.001):.0f}/s"
    if lag and lag.segments:
        line += f", {lag.segments} segments behind ({lag.seconds:.0f} s)"
    if sys.stdout.isatty():
        print(f"\r\x1b[K{line}", end="", flush=True)
    else:
        print(line, flush=True)


def _print_json(progress: Progress, lag: Lag | None) -> None:
    behind = {"lag_segments": lag.segments, "lag_seconds": lag.seconds} if lag else {}
    print(json.dumps(asdict(progress) | behind), flush=True)


def _run_as_program() -> NoReturn:
    """Do one action and end the process, without the destructors of the libraries in C++.

    pyarrow, duckdb and deltalake keep threads of their own. On a busy machine, such a thread is now and then still
    there when the destructors run, and the process is aborted (SIGABRT) although its work was committed. What Python
    itself does at its end (threads, pools, temporary files) is done before: handlers run in reverse order.
    """
    code = 1
    atexit.register(lambda: os._exit(code))
    try:
        code = main()
    except SystemExit as ended:  # argparse: --help, or a usage error
        code = ended.code if isinstance(ended.code, int) else 0
    sys.stdout.flush()
    sys.exit(code)


if __name__ == "__main__":
    _run_as_program()
