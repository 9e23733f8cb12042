"""`covey recv`: take blobs out of the inbox."""

from __future__ import annotations

import argparse
import base64
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from covey.cli.device_options import device_api
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.terminal import TIME_UP, print_json

if TYPE_CHECKING:
    from covey.client import Blob


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    seconds_option(parser, "--wait", f"wait for a blob if there is none; exit code {TIME_UP} if none comes", 0.0)
    parser.add_argument("--all", action="store_true", help="take all that is there, one after the other")
    parser.add_argument(
        "--in-order", action="store_true", help="each sender's blobs in its order: one waits for those sent before it"
    )
    json_option(parser, "print a JSON line for each blob: author, times, body as base64")


def run(options: argparse.Namespace) -> int:
    """Print the oldest blob, or all; each is forgotten after it was printed."""
    taken = 0
    with device_api(options) as device:
        for blob in device.receive(options.wait, in_order=options.in_order):
            _print(blob, as_json=options.json)
            device.forget(blob.id)
            taken += 1
            if not options.all:
                break
    if not taken:
        print("nothing has arrived", file=sys.stderr)
    return 0 if taken or options.all else TIME_UP if options.wait else 1


def _print(blob: Blob, *, as_json: bool) -> None:
    if as_json:
        shown = {**asdict(blob), "body": base64.b64encode(blob.body).decode()}
        del shown["id"]
        print_json(shown)
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(blob.body)
        sys.stdout.buffer.flush()
