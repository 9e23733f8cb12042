"""`covey publish`: queue readings from a file or stdin."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from covey.app.telemetry.publishing import Queued, queue_readings, readings_of
from covey.app.wording import count
from covey.cli.device_options import device_api
from covey.cli.grammar import Parser, json_option, key_option, seconds_option
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import TIME_UP, print_json
from covey.errors import UsageError
from covey.limits.telemetry import MAXIMUM_PUBLISH_BYTES

_MEDIA_TYPES = {
    "ndjson": "application/x-ndjson",
    "senml": "application/senml+json",
    "senml-cbor": "application/senml+cbor",
}


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to read (default: stdin)")
    parser.add_argument(
        "--format",
        choices=["ndjson", "senml", "senml-cbor"],
        default="ndjson",
        help="format of the file (default: ndjson: one SenML record or pack per line)",
    )
    parser.add_argument(
        "--batch", type=int, metavar="N", help="readings per message (default: telemetry.batch_readings)"
    )
    key_option(parser)
    seconds_option(parser, "--wait", f"wait until the collector has stored all of it; exit code {TIME_UP} if not")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Queue every reading durably, or name the wrong line and the number of readings queued before it."""
    with ExitStack() as open_now:
        device = open_now.enter_context(device_api(options))
        source = open_now.enter_context(_source(options.file))
        if options.key is None:
            readings = readings_of(source, options.format)
            with ProgressLine() as line:
                queued = queue_readings(
                    device.outlet(options.batch), readings, lambda done: line.show(f"{count(done, 'reading')} queued")
                )
        else:
            whole = _whole(source)
            queued = Queued(device.publish(whole, _MEDIA_TYPES[options.format], options.batch, options.key))
        if options.json:
            print_json({"queued_readings": queued.readings})
        else:
            print(f"queued {count(queued.readings, 'reading')}", flush=True)
        if queued.untimed:
            print(
                f"warning: no usable time, so the time of arrival: {count(queued.untimed, 'reading')}", file=sys.stderr
            )
            print("hint: give the time (t) in Unix seconds", file=sys.stderr)
        waiting = 0 if options.wait is None else device.waiting_after(options.wait)
    if waiting:
        print(f"error: not acknowledged yet: {count(waiting, 'message')}", file=sys.stderr)
        print("hint: they stay queued; 'covey run' delivers them", file=sys.stderr)
        return TIME_UP
    if options.wait is not None:
        print("stored by the collector", file=sys.stderr)
    return 0


def _source(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error


def _whole(source: BinaryIO) -> bytes:
    content = source.read(MAXIMUM_PUBLISH_BYTES + 1)
    if len(content) > MAXIMUM_PUBLISH_BYTES:
        raise UsageError("input with --key must not exceed 2 MiB", hint="publish it in parts, each with its own key")
    return content
