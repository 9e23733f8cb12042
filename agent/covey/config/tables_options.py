"""The options of `covey tables`, without anything of what reads and writes tables.

They are here for completion and the manual, which belong to the agent and work where tables are not.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

from covey.errors import ConfigurationError

VERIFY = ("all", "none")
ENGINES = ("local", "spark")
DIALECTS = ("duckdb", "spark")
FORMS = ("table", "csv", "json")

_UNITS_US = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables run`."""
    parser.add_argument("vault", metavar="VAULT", nargs="+", help="vault: folder or s3://BUCKET/PREFIX")
    parser.add_argument("tables", metavar="TABLES", type=_tables, help="tables: folder or s3://BUCKET/PREFIX")
    parser.add_argument(
        "--key-file",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="key file of the vault (mode 0600); once per vault, in the same order",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, default="local", help="engine that fills the tables (default: local, without Java)"
    )
    parser.add_argument("--available-now", action="store_true", help="stop when all present readings are in the tables")
    parser.add_argument(
        "--trigger-seconds", type=_seconds, default=2.0, metavar="N", help="time between micro-batches (default: 2)"
    )
    parser.add_argument("--verify", choices=VERIFY, default="all", help="signatures to check (default: all)")
    parser.add_argument(
        "--max-segments-per-trigger",
        type=_count,
        default=256,
        metavar="N",
        help="segments in one micro-batch (default: 256)",
    )
    parser.add_argument(
        "--max-bytes-per-trigger", type=_count, metavar="N", help="bytes of segments in one micro-batch"
    )
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="worker processes of the local engine (default: one per core)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON line per micro-batch")
    parser.add_argument("--metrics-file", type=Path, metavar="FILE", help="file for node_exporter; must end in .prom")
    parser.add_argument(
        "--metrics-listen", type=_address, metavar="HOST:PORT", help="address that serves metrics to Prometheus"
    )


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables query`."""
    _add_tables(parser)
    parser.add_argument("sql", metavar="SQL", help='for example "SELECT * FROM latest"')
    parser.add_argument("--format", choices=FORMS, default="table", help="output format (default: table)")


def add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables shell`."""
    _add_tables(parser)


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables export`."""
    _add_tables(parser)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="new folder for the Parquet files")
    parser.add_argument("--table", default="readings", metavar="NAME", help="table to copy (default: readings)")


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables verify`."""
    _add_tables(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables report`."""
    _add_tables(parser)
    parser.add_argument(
        "--since",
        type=_window,
        default=_UNITS_US["d"],
        metavar="TIME",
        help="90m, 7d or all (default: 24h)",
    )
    parser.add_argument("--author", type=_author, default="", metavar="HEX", help="only this device: start of its key")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="output of 'covey fleet --json' (default: the labels known here)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained HTML file with plots")


def add_views_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables views`."""
    _add_tables(parser)
    parser.add_argument(
        "--for", dest="dialect", choices=DIALECTS, default="duckdb", help="SQL dialect (default: duckdb)"
    )


def add_delete_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables delete`."""
    _add_tables(parser)
    parser.add_argument(
        "--author",
        type=read_one_author,
        required=True,
        metavar="HEX",
        help="device: start of its key, unique among devices",
    )
    _add_deleting_arguments(parser)


def add_retain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add those of `covey tables retain`."""
    _add_tables(parser)
    parser.add_argument("--days", type=read_days, required=True, metavar="N", help="number of days to keep")
    _add_deleting_arguments(parser)


_ACTIONS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "run": (add_run_arguments, "keep the tables of a vault current, each reading once"),
    "query": (add_query_arguments, "run one SQL query on the tables"),
    "shell": (add_shell_arguments, "run SQL queries interactively"),
    "export": (add_export_arguments, "copy a table into plain Parquet files"),
    "verify": (add_verify_arguments, "find files that a disk has damaged"),
    "report": (add_report_arguments, "show silent devices, gaps, losses, latency and clocks"),
    "views": (add_views_arguments, "print SQL that creates views over the tables"),
    "delete": (add_delete_arguments, "permanently delete all readings of a device"),
    "retain": (add_retain_arguments, "delete readings older than some days"),
}
"""The actions of `covey tables`: their arguments, and what each does."""


def tables_parser(action: str) -> argparse.ArgumentParser:
    """Return the parser of one action."""
    add, summary = _ACTIONS[action]
    parser = argparse.ArgumentParser(prog=f"covey tables {action}", description=f"{summary[0].upper()}{summary[1:]}.")
    add(parser)
    return parser


def tables_actions() -> dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]]:
    """Return the actions: their arguments, and what each does."""
    return dict(_ACTIONS)


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", metavar="TABLES", type=_tables, help="folder or URL of the tables")


def _add_deleting_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="show how many rows would be deleted, and change nothing"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def read_labels(path: Path) -> dict[str, str]:
    """Return what devices are called, by their keys in hex, from what `covey fleet --json` has printed.

    Raises:
        ConfigurationError: it cannot be read, or is something else.
    """
    try:
        found = json.loads(path.read_bytes())
        return {str(each["key"]): str(each["label"]) for each in found["devices"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} does not list the devices' labels", hint="write it on a collector: covey fleet --json > FILE"
        ) from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError("give 0 to 86400 seconds")
    return seconds


def _place(text: str) -> str:
    if not re.fullmatch(r"(s3|gs|az|abfss)://[^/:@?#\s]+(@[^/:@?#\s]+)?(/[^?#\s]*)?", text) or "%" in text:
        raise argparse.ArgumentTypeError("write it like s3://BUCKET/PREFIX, with no credentials in it")
    return text.rstrip("/")


def _tables(text: str) -> str:
    return _place(text) if "://" in text else text


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,14}", text, re.ASCII):
        raise argparse.ArgumentTypeError("give a number from 1")
    return int(text)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise argparse.ArgumentTypeError("write it like 127.0.0.1:9410")
    return host.strip("[]"), int(port)


def _window(words: str) -> int | None:
    if words == "all":
        return None
    found = re.fullmatch(r"(\d{1,6})([mhd])", words, re.ASCII)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError("write it like 90m, 24h, 7d or all")
    return int(found[1]) * _UNITS_US[found[2]]


def read_days(words: str) -> int:
    """Return a number of days of a command line. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[1-9][0-9]{0,4}", words, re.ASCII):
        raise argparse.ArgumentTypeError("give a number of days from 1 to 99999")
    return int(words)


def read_one_author(words: str) -> str:
    """Return the beginning of a device's key, in hex, of a command line. Raises ArgumentTypeError."""
    if not words:
        raise argparse.ArgumentTypeError("give the beginning of a device's key in hex, at least one digit")
    return _author(words)


def _author(words: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{0,64}", words):
        raise argparse.ArgumentTypeError("give the beginning of a device's key, in hex")
    return words.lower()
