"""`covey metrics`: the device's metrics in the text format of OpenMetrics."""

from __future__ import annotations

import argparse
from pathlib import Path

from covey.app.checks.metrics import write_metrics
from covey.cli.device_options import device_api
from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--textfile", metavar="PATH", help="write to this file for node_exporter; must end in .prom")


def run(options: argparse.Namespace) -> int:
    """Print OpenMetrics, or write the older format of node_exporter."""
    with device_api(options) as device:
        if options.textfile is not None:
            write_metrics(device.metrics("prometheus"), Path(options.textfile).absolute())
        else:
            print(device.metrics("openmetrics"), end="")
    return 0
