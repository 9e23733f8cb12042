"""`covey support-bundle FILE`: collect information for the person who helps, without secrets."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from covey.app.checks.support_bundle import support_bundle, write_support_bundle
from covey.app.wording import count
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", metavar="FILE", help="file to write, ending in .tar.gz; - is stdout")
    parser.add_argument("--offline", action="store_true", help="do not connect to the relay")


def run(options: argparse.Namespace) -> int:
    """Write the bundle; for a part that cannot be read it contains the error's code."""
    if options.file == "-":
        sys.stdout.buffer.write(support_bundle(state_folder(options), offline=options.offline))
        return 0
    path = Path(options.file).absolute()
    size = write_support_bundle(state_folder(options), path, offline=options.offline)
    print(f"wrote {path}: {count(size, 'byte')}, only numbers and setting names; no keys, messages, labels, addresses")
    return 0
