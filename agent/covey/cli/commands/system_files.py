"""`covey system-files`: print the broker configurations, systemd units and udev rules that come with Covey."""

from __future__ import annotations

import argparse

from covey.app import shipped_files
from covey.cli.grammar import Parser, json_option
from covey.cli.output.terminal import print_json


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this file; without a name, list all of them")
    json_option(parser, "print the list as JSON")


def run(options: argparse.Namespace) -> int:
    if options.name is not None:
        print(shipped_files.read(options.name), end="")
    elif options.json:
        print_json(shipped_files.names())
    else:
        print(*shipped_files.names(), sep="\n")
    return 0
