"""`covey ingest [run]|report|views|delete|retain`: hand over to the ingest, a program of its own.

No part of Spark enters this one. The words are checked here, so that mistakes are told where Spark is not installed:
`run` alone needs it.
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
from covey.cli.deletion_notes import add_note_options, note_intent, note_result, unnoted
from covey.cli.grammar import Parser
from covey.cli.terminal import print_json
from covey.config.ingest_options import (
    add_delete_arguments,
    add_ingest_arguments,
    add_report_arguments,
    add_retain_arguments,
    add_views_arguments,
)
from covey.errors import ConfigurationError, LocalError, StorageError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="run")
    add_ingest_arguments(
        actions.add(
            "run",
            _run,
            "turn a vault's telemetry into tables, each reading once",
            examples=(
                "covey ingest /srv/vault /srv/tables --key-file vault.key --available-now",
                "covey ingest /srv/north /srv/south /srv/tables --key-file north.key --key-file south.key",
            ),
        )
    )
    add_report_arguments(
        actions.add("report", _report, "say how fleet and telemetry are: who is silent, gaps, losses, latency, clocks")
    )
    add_views_arguments(
        actions.add(
            "views",
            _views,
            "print SQL for views over the tables: newest values, minutes, hours and days, a column for each series",
            examples=("covey ingest views /srv/tables | duckdb -init /dev/stdin",),
        )
    )
    for name, add_options, summary, example in _DELETING:
        parser = actions.add(name, _delete, summary, examples=(example,))
        add_options(parser)
        add_note_options(parser)


_DELETING = (
    (
        "delete",
        add_delete_arguments,
        "delete all that a device has sent from tables, for good",
        "covey ingest delete /srv/tables --author 5f1c2a --dry-run",
    ),
    (
        "retain",
        add_retain_arguments,
        "delete readings from tables that are older than some days",
        "covey ingest retain /srv/tables --days 400 --group 3f2a",
    ),
)


def _delete(options: argparse.Namespace) -> None:
    """Note in a group's history what is to go, delete it, and note what went (`deletion_notes`).

    Raises:
        CoveyError: there is no device here to sign a note, and nothing was deleted; or the note cannot be written.
    """
    _check_installed("pyarrow")
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
    """Have the ingest's package delete, or say what would go; where it fails it has said so, and this ends, too."""
    words = [options.action, str(options.tables), "--json"] + (["--dry-run"] if dry_run else [])
    words += ["--author", options.author] if options.action == "delete" else ["--days", str(options.days)]
    program = [sys.executable, "-P", "-m", "covey_ingest", *words]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode != 0:
        sys.exit(done.returncode)
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


def _run(options: argparse.Namespace) -> None:
    _hand_over(options.words[1:] if options.words[0] == "run" else options.words, "pyspark")


def _views(options: argparse.Namespace) -> None:
    _hand_over(options.words)


def _report(options: argparse.Namespace) -> None:
    if options.labels is not None or not (labels := known_labels()):
        _hand_over(options.words)
        return
    handle = os.memfd_create("labels", 0)  # it stays open in the program that this one becomes, and nowhere else
    with open(handle, "wb", closefd=False) as file:
        file.write(json.dumps(labels).encode())
    _hand_over([*options.words, "--labels", f"/proc/self/fd/{handle}"])


def _hand_over(words: list[str], *packages: str) -> None:
    """Become the ingest.

    Raises:
        ConfigurationError: it is not installed here.
    """
    _check_installed(*packages)
    sys.stdout.flush()
    # -P: the working directory is not on the path, where anybody's `duckdb.py` may lie
    os.execv(sys.executable, [sys.executable, "-P", "-m", "covey_ingest", *words])  # noqa: S606 - our own program


def _check_installed(*packages: str) -> None:
    """Refuse where the ingest, or a package that it needs, is not installed here."""
    if any(find_spec(package) is None for package in ("covey_ingest", *packages)):
        raise ConfigurationError(
            "the ingest is not installed here",
            hint="in a virtual environment, from Covey's sources: python -m pip install '.[spark]'",
        )
