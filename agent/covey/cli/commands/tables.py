"""`covey tables run|query|shell|export|verify|report|views|delete|retain`: start the program that works with tables.

The packages that read and write tables (pyarrow, DuckDB, Spark) never enter this process. The arguments are checked
here, so that mistakes are reported even where these packages are not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from covey.app.device.device import Device, find_state, open_device
from covey.app.device.known_labels import known_labels
from covey.cli.grammar import Parser
from covey.cli.output.deletion_notes import add_note_options, note_intent, note_result, unnoted
from covey.cli.output.terminal import print_json
from covey.config.tables_options import tables_actions
from covey.errors import ConfigurationError, LocalError, StorageError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    for name, (add_options, summary) in tables_actions().items():
        act = _delete if name in _DELETING else _report if name == "report" else _hand_over
        action = actions.add(name, act, summary, examples=_EXAMPLES[name])
        add_options(action)
        if name in _DELETING:
            add_note_options(action)


_DELETING = ("delete", "retain")
_EXAMPLES = {
    "run": (
        "covey tables run /srv/vault /srv/tables --key-file vault.key",
        "covey tables run /srv/north /srv/south /srv/tables --key-file north.key --key-file south.key --available-now",
    ),
    "query": ('covey tables query /srv/tables "SELECT device, name, value, age FROM latest"',),
    "shell": ("covey tables shell /srv/tables",),
    "export": ("covey tables export /srv/tables readings-2026",),
    "verify": ("covey tables verify /srv/tables",),
    "report": ("covey tables report /srv/tables --since 7d --html report.html",),
    "views": ("covey tables views /srv/tables | duckdb -init /dev/stdin",),
    "delete": ("covey tables delete /srv/tables --author 5f1c2a --dry-run",),
    "retain": ("covey tables retain /srv/tables --days 400 --group 3f2a",),
}


def _delete(options: argparse.Namespace) -> None:
    """Record in a group's history what will be deleted, delete it, and record the result (`deletion_notes`).

    Raises:
        CoveyError: no device here can sign the record, and nothing was deleted; or it cannot be written.
    """
    _check_installed()
    noted = not (options.dry_run or options.no_note)
    intent = None
    if noted:
        with _noting_device() as device:
            device.pick_group(options.group)
        would = _deletion(options, dry_run=True)
        with _noting_device() as device:
            intent = note_intent(device, options.group, f"{would['what']} from tables: {_rows(would)}")
    said = _deletion(options, dry_run=options.dry_run)
    line = f"{said['what']} from tables: {_rows(said)}"
    if intent is not None:
        with _noting_device() as device:
            note_result(device, options.group, intent, line)
    if options.json:
        print_json(said | {"noted": noted})
    else:
        print(f"{'deleted' if said['deleted'] else 'would delete'} {line}")


def _deletion(options: argparse.Namespace, *, dry_run: bool) -> dict[str, Any]:
    """Delete rows, or count them; if the program fails, exit with its code, as it has printed the reason."""
    words = [options.action, str(options.tables), "--json"] + (["--dry-run"] if dry_run else [])
    words += ["--author", options.author] if options.action == "delete" else ["--days", str(options.days)]
    program = [sys.executable, "-P", "-m", "covey_ingest", *words]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode != 0:
        sys.exit(done.returncode if done.returncode > 0 else 128 - done.returncode)  # as a shell does for a signal
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _rows(said: dict[str, Any]) -> str:
    return ", ".join(f"{rows} of {table}" for table, rows in said["rows"].items()) or "no rows"


@contextmanager
def _noting_device() -> Iterator[Device]:
    try:
        with open_device(find_state()) as device:
            yield device
    except (LocalError, StorageError) as error:
        raise unnoted(error) from error


def _report(options: argparse.Namespace) -> None:
    if options.labels is not None or not (labels := known_labels()):
        _hand_over(options)
        return
    handle = os.memfd_create("labels", 0)  # it stays open in the program that this one becomes, and nowhere else
    with open(handle, "wb", closefd=False) as file:
        file.write(json.dumps(labels).encode())
    _become([*options.words, "--labels", f"/proc/self/fd/{handle}"])


def _hand_over(options: argparse.Namespace) -> None:
    _become(options.words)


def _become(words: list[str]) -> None:
    """Replace this process by the program that works with tables.

    Raises:
        ConfigurationError: it is not installed here.
    """
    _check_installed()
    sys.stdout.flush()
    # -P: the working directory is not on the path, where anybody's `duckdb.py` may lie
    os.execv(sys.executable, [sys.executable, "-P", "-m", "covey_ingest", *words])  # noqa: S606 - our own program


def _check_installed() -> None:
    if any(find_spec(package) is None for package in ("covey_ingest", "pyarrow")):
        raise ConfigurationError(
            "the packages that read and write tables are not installed",
            hint="in a virtual environment, in the folder of Covey's sources: python -m pip install '.[tables]'",
        )
