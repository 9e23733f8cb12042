"""`covey ingest`: hand over to the Spark job, a program of its own, so that no part of Spark enters this process.

`covey ingest report` goes there too; it needs no Spark, and says itself what it misses.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec

from covey.config.ingest_options import add_ingest_arguments, ingest_parser
from covey.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, for completion and the manual: the program parses them itself."""
    add_ingest_arguments(parser)


def hand_over(words: list[str]) -> int:
    """Become the ingest.

    Raises:
        ConfigurationError: it is not installed here.
    """
    report = words[:1] == ["report"]
    if not report and not {"-h", "--help"}.isdisjoint(words):
        ingest_parser().parse_args(["--help"])  # which ends here, with or without Spark
    if any(find_spec(package) is None for package in ("covey_ingest", *(() if report else ("pyspark",)))):
        raise ConfigurationError("the ingest is not installed here", hint="pip install 'covey[spark]'")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "covey_ingest", *words])  # noqa: S606 - our own program, no shell
