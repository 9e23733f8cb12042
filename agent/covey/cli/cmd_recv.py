"""`covey recv`: take blobs out of the inbox."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from math import ceil

from covey.app.daemon import wait_until
from covey.app.device import Device
from covey.cli.device_options import answering_agent, open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json
from covey.client import Blob, Client
from covey.core.ids import device_name


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait for a blob if there is none")
    parser.add_argument("--all", action="store_true", help="take all that is there, one after the other")
    parser.add_argument(
        "--in-order", action="store_true", help="each sender's blobs in its order: one waits for those sent before it"
    )
    json_option(parser, "print a JSON line for each blob: author, times, body as base64")


def run(options: argparse.Namespace) -> int:
    """Print the oldest blob, or all; each is forgotten after it was printed."""
    agent = answering_agent(options)
    if agent is not None:
        taken = _take(options, _from_agent(agent, options.wait, options.in_order), agent.forget)
    else:
        with open_device(options) as device:

            def forget(identifier: int) -> None:
                with device.store.transaction():
                    device.store.inbox.consume(identifier)

            taken = _take(options, _from_state(device, options.wait, options.in_order), forget)
    if not taken:
        print("nothing has arrived", file=sys.stderr)
    return 0 if taken or options.all else 1


def _from_agent(agent: Client, seconds: float, in_order: bool) -> Iterator[Blob]:
    """Yield what has arrived, waiting for the first."""
    with closing(agent.inbox(follow_s=ceil(seconds), in_order=in_order)) as awaited:
        first = next(awaited, None)
    if first is not None:
        yield first
        yield from agent.inbox(in_order=True) if in_order else agent.inbox(after=first.id)


def _from_state(device: Device, seconds: float, in_order: bool) -> Iterator[Blob]:
    """Do the same from the state itself."""
    arrived = device.store.inbox.arrived_in_order if in_order else device.store.inbox.arrived
    if seconds and not arrived(1):
        wait_until(device, lambda: bool(arrived(1)), seconds)
    while rows := arrived(1):
        identifier, group_id, author, sent_at_us, received_at_us, body = rows[0]
        yield Blob(identifier, author.hex(), device_name(author), group_id.hex(), sent_at_us, received_at_us, body)


def _take(options: argparse.Namespace, blobs: Iterator[Blob], forget: Callable[[int], None]) -> int:
    taken = 0
    for blob in blobs:
        if options.json:
            found = {**asdict(blob), "body": base64.b64encode(blob.body).decode()}
            del found["id"]
            print_json(found)
            sys.stdout.flush()
        else:
            sys.stdout.buffer.write(blob.body)
            sys.stdout.buffer.flush()
        forget(blob.id)
        taken += 1
        if not options.all:
            break
    return taken
