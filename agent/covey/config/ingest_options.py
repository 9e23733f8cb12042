"""The options of `covey ingest`, `covey ingest report` and `covey ingest views`, without anything of Spark.

They stand here for completion and the manual, which belong to the agent and are there where the ingest is not.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from covey.errors import ConfigurationError

VERIFY = ("all", "sample", "none")
SINKS = ("parquet", "delta")
ENGINES = ("duckdb", "spark")

_UNITS_US = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def ingest_parser() -> argparse.ArgumentParser:
    """Return the options of `covey ingest`."""
    parser = argparse.ArgumentParser(
        prog="covey ingest",
        description="Turn a vault's telemetry into tables, each reading once.",
        epilog="covey ingest report TABLES says how the fleet and its telemetry are: covey ingest report --help.",
    )
    add_ingest_arguments(parser)
    return parser


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument("vault", metavar="VAULT", nargs="+", help="a vault: a directory or s3://BUCKET/PREFIX")
    parser.add_argument(
        "tables", metavar="TABLES", type=_tables, help="where the tables go: a directory or s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="the vault key file (mode 0600); of several vaults once for each, in their order",
    )
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="Spark's checkpoint (default: TABLES/.checkpoint)"
    )
    parser.add_argument("--available-now", action="store_true", help="stop when all that is there now is in the tables")
    parser.add_argument(
        "--trigger-seconds", type=_seconds, default=2.0, metavar="N", help="time between micro-batches (default: 2)"
    )
    parser.add_argument("--verify", choices=VERIFY, default="all", help="whose signatures are checked (default: all)")
    parser.add_argument(
        "--max-segments-per-trigger",
        type=int,
        default=256,
        metavar="N",
        help="segments in one micro-batch (default: 256)",
    )
    parser.add_argument("--max-bytes-per-trigger", type=int, metavar="N", help="bytes of segments in one micro-batch")
    parser.add_argument(
        "--sink", choices=SINKS, help="what the tables are (default: parquet; in an object store always delta)"
    )
    parser.add_argument(
        "--merge-files",
        action="store_true",
        help="with --sink parquet: small files become large ones; only where no stream reads the tables",
    )
    parser.add_argument(
        "--publish",
        type=_place,
        metavar="URL",
        help="with --sink delta: the Delta tables lie there, at s3://BUCKET/PREFIX, and follow those in TABLES",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each micro-batch")
    parser.add_argument("--metrics-file", type=Path, metavar="FILE", help="file for node_exporter; ends in .prom")
    parser.add_argument(
        "--metrics-listen", type=_address, metavar="HOST:PORT", help="serve metrics to Prometheus there"
    )


def report_parser() -> argparse.ArgumentParser:
    """Return the options of `covey ingest report`."""
    parser = argparse.ArgumentParser(
        prog="covey ingest report",
        description="Say how fleet and telemetry are: silent devices, gaps, losses, latency, clocks, quarantine.",
    )
    add_report_arguments(parser)
    return parser


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument("tables", metavar="TABLES", help="the folder of tables, or their URL in an object store")
    parser.add_argument(
        "--since",
        type=_window,
        default=_UNITS_US["d"],
        metavar="TIME",
        help="90m, 7d or all (default: 24h)",
    )
    parser.add_argument("--author", type=_author, default="", metavar="HEX", help="only devices whose key begins so")
    parser.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="what devices are called, as 'covey fleet --json' prints it (default: what the device here knows)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with plots; it needs no network")


def views_parser() -> argparse.ArgumentParser:
    """Return the options of `covey ingest views`."""
    parser = argparse.ArgumentParser(
        prog="covey ingest views",
        description="Print SQL that makes views over the tables: readings, latest, by_minute, by_hour, by_day, wide.",
    )
    add_views_arguments(parser)
    return parser


def add_views_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument("tables", metavar="TABLES", help="the folder of tables, or their URL in an object store")
    parser.add_argument(
        "--for", dest="engine", choices=ENGINES, default="duckdb", help="whose SQL it is to be (default: duckdb)"
    )


def delete_parser() -> argparse.ArgumentParser:
    """Return the options of `covey ingest delete`."""
    parser = argparse.ArgumentParser(
        prog="covey ingest delete", description="Delete all that a device has sent from tables, for good."
    )
    add_delete_arguments(parser)
    return parser


def add_delete_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument(
        "tables", metavar="TABLES", type=_tables, help="the folder of tables, or their URL in an object store"
    )
    parser.add_argument(
        "--author",
        type=read_one_author,
        required=True,
        metavar="HEX",
        help="the device whose key begins so, and no other does",
    )
    _add_deleting_arguments(parser)


def retain_parser() -> argparse.ArgumentParser:
    """Return the options of `covey ingest retain`."""
    parser = argparse.ArgumentParser(
        prog="covey ingest retain", description="Delete readings from tables that are older than some days, for good."
    )
    add_retain_arguments(parser)
    return parser


def add_retain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument(
        "tables", metavar="TABLES", type=_tables, help="the folder of tables, or their URL in an object store"
    )
    parser.add_argument("--days", type=read_days, required=True, metavar="N", help="how long readings are kept")
    _add_deleting_arguments(parser)


def _add_deleting_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say how many rows would go, and change nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


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
            f"{path} does not say what devices are called", hint="covey fleet --json > FILE, on a collector"
        ) from error


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError("not between 0 and a day")
    return seconds


def _place(text: str) -> str:
    if not re.fullmatch(r"(s3|gs|az|abfss)://[^/:@?#\s]+(@[^/:@?#\s]+)?(/[^?#\s]*)?", text) or "%" in text:
        raise argparse.ArgumentTypeError("write it like s3://BUCKET/PREFIX, with no credentials in it")
    return text.rstrip("/")


def _tables(text: str) -> Path | str:
    """Return the folder, or the URL, that tables go to."""
    return _place(text) if "://" in text else Path(text)


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
        raise argparse.ArgumentTypeError("a number of days, from 1 to 99999")
    return int(words)


def read_one_author(words: str) -> str:
    """Return the beginning of a device's key, in hex, of a command line. Raises ArgumentTypeError."""
    if not words:
        raise argparse.ArgumentTypeError("the beginning of a device's key, in hex; not of everybody's")
    return _author(words)


def _author(words: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{0,64}", words):
        raise argparse.ArgumentTypeError("the beginning of a device's key, in hex")
    return words.lower()
