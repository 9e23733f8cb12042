"""`covey ingest [run]|report|views`: hand over to the ingest, a program of its own: no part of Spark enters this one.

The words are checked here, so that mistakes are told where Spark is not installed; `report` and `views` need none.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.util import find_spec

from covey.app.operations.known_labels import known_labels
from covey.cli.grammar import Parser
from covey.config.ingest_options import add_ingest_arguments, add_report_arguments, add_views_arguments
from covey.errors import ConfigurationError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="run")
    add_ingest_arguments(
        actions.add(
            "run",
            _run,
            "turn a vault's telemetry into tables, each reading once",
            examples=("covey ingest /srv/vault /srv/tables --key-file vault.key --available-now",),
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
    if any(find_spec(package) is None for package in ("covey_ingest", *packages)):
        raise ConfigurationError(
            "the ingest is not installed here",
            hint="in a virtual environment, from Covey's sources: python -m pip install '.[spark]'",
        )
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "covey_ingest", *words])  # noqa: S606 - our own program, no shell
