"""`covey note`: say something to a group, for good."""

from __future__ import annotations

import argparse
import sys

from covey.app.device.device import Device
from covey.app.history.writing import write_note
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.terminal import print_json
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("text", nargs="?", default="-", metavar="TEXT", help="what to say; - or nothing is stdin")
    parser.add_argument("--mime", default="text/plain", metavar="TYPE", help="what stdin holds (default: text/plain)")
    parser.add_argument("--react", metavar="ID", help="comment an operation: the beginning of its id")
    parser.add_argument("--edit", metavar="ID", help="take the place of a note of this device")
    group_option(parser)
    json_option(parser)
    parser.set_defaults(act=on_device(_note))


def _note(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    content = _stdin() if options.text == "-" else options.text.encode(errors="replace")
    written = write_note(
        device, manifest, content, options.mime, options.react, options.edit, typed=options.text != "-"
    )
    if options.json:
        print_json({"id": written.id.hex(), "height": written.height})
    else:
        print(f"noted as {written.id.hex()[:8]}")


def _stdin() -> bytes:
    return sys.stdin.buffer.read(MAXIMUM_OPERATION_BODY_BYTES + 1)
