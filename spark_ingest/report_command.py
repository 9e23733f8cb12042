"""`covey ingest report`: the fleet's health and its telemetry's, from the tables, without Spark."""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from agent.errors import ConfigurationError, StorageError

_UNITS_US = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    found = argparse.ArgumentParser(
        prog="covey ingest report",
        description="Say how fleet and telemetry are: silent devices, gaps, losses, latency, clocks, quarantine.",
    )
    found.add_argument("tables", help="the folder that covey ingest writes to")
    found.add_argument("--since", type=_window, default=_UNITS_US["d"], metavar="TIME", help="24h (default), 7d, all")
    found.add_argument("--author", type=_author, default="", metavar="HEX", help="only devices whose key begins so")
    found.add_argument("--json", action="store_true", help="print one JSON document")
    found.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with plots; it needs no network")
    return found


def main(words: list[str]) -> int:
    """Print the report, or write it.

    Raises:
        CoveyError: there is none to give.
    """
    options = parser().parse_args(words)
    for package in ("duckdb", "pygal") if options.html else ("duckdb",):
        if find_spec(package) is None:
            raise ConfigurationError("the report is not installed here", hint="pip install 'covey[report]'")
    from spark_ingest.report import make_report
    from spark_ingest.report_text import text

    report = make_report(options.tables, time.time_ns() // 1000, options.since, options.author)
    if options.html:
        from spark_ingest.report_html import html

        try:
            options.html.write_text(html(report), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{options.html} cannot be written: {error.strerror}") from error
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    elif not options.html:
        print(text(report), end="")
    return 0


def _window(words: str) -> int | None:
    if words == "all":
        return None
    found = re.fullmatch(r"(\d{1,6})([mhd])", words, re.ASCII)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError("write it like 90m, 24h, 7d or all")
    return int(found[1]) * _UNITS_US[found[2]]


def _author(words: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{0,64}", words):
        raise argparse.ArgumentTypeError("the beginning of a device's key, in hex")
    return words.lower()
