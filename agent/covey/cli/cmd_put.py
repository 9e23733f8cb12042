"""`covey put FILE`: offer a file to the members of a group."""

from __future__ import annotations

import argparse
from pathlib import Path

from covey.app.device import Device
from covey.app.documents import to_json
from covey.app.operations.content import described, put_file
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.progress_line import ProgressLine
from covey.cli.quantities import size_text
from covey.cli.terminal import print_json


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", metavar="FILE", help="the file, of at most 100 MiB")
    parser.add_argument("--name", metavar="NAME", help="what it is called (default: as the file)")
    group_option(parser)
    json_option(parser)
    parser.set_defaults(act=on_device(_put))


def _put(device: Device, options: argparse.Namespace) -> None:
    manifest, path = device.pick_group(options.group), Path(options.file)
    with ProgressLine() as line:
        offer = put_file(device, manifest, path, options.name, lambda done: line.show(f"sealed {size_text(done)}"))
    entry = described(device, manifest, offer)
    if options.json:
        print_json(to_json(entry))
    else:
        print(f"'{entry.name}', {size_text(entry.size)}, is offered as {entry.id[:8]}: 'covey get {entry.id[:8]}'")
