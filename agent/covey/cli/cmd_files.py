"""`covey files`: print what Covey brings beside its program: broker configurations, systemd units, udev rules."""

from __future__ import annotations

import argparse
import json

from covey.app import shipped_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", nargs="?", help="print this file; without a name, list all of them")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the list of names, or one file."""
    if options.name is not None:
        print(shipped_files.read(options.name), end="")
    elif options.json:
        print(json.dumps(shipped_files.names()))
    else:
        print(*shipped_files.names(), sep="\n")
    return 0
