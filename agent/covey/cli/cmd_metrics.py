"""`covey metrics`: the device's numbers as OpenMetrics, for any collector that reads text."""

from __future__ import annotations

import argparse
from pathlib import Path

from covey.cli.device_options import reach_device
from covey.cli.grammar import Parser
from covey.errors import UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--textfile", metavar="PATH", help="replace this file, for node_exporter's textfile collector; ends in .prom"
    )


def run(options: argparse.Namespace) -> int:
    """Print OpenMetrics, or write the older format that node_exporter reads."""
    if options.textfile and not options.textfile.endswith(".prom"):
        raise UsageError("--textfile must end in .prom", hint="node_exporter reads no other name")
    with reach_device(options) as device:
        text = device.metrics("prometheus" if options.textfile else "openmetrics")
    if options.textfile:
        from covey.adapters.files import replace_durably

        replace_durably(Path(options.textfile).absolute(), text.encode(), mode=0o644)
    else:
        print(text, end="")
    return 0
