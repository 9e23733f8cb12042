"""`covey ingest report`: the fleet's health and its telemetry's, from the tables, without Spark."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from importlib.util import find_spec

from covey.config.ingest_options import read_labels, report_parser
from covey.errors import MissingPackageError, StorageError


def main(words: list[str]) -> int:
    """Print the report, or write it.

    Raises:
        CoveyError: there is none to give.
    """
    options = report_parser().parse_args(words)
    if find_spec("duckdb") is None:
        raise MissingPackageError("the report", "duckdb", in_debian=False)
    from covey_ingest.report import make_report
    from covey_ingest.report_text import text

    labels = {} if options.labels is None else read_labels(options.labels)
    report = make_report(options.tables, time.time_ns() // 1000, options.since, options.author, labels)
    if options.html:
        from covey_ingest.report_html import html

        try:
            options.html.write_text(html(report), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{options.html} cannot be written: {error.strerror}") from error
    if options.json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    elif not options.html:
        print(text(report), end="")
    return 0
