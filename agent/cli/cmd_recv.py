"""`covey recv`: take blobs out of the inbox."""

from __future__ import annotations

import argparse
import base64
import sys

from agent.cli.session import Session, open_session, print_json, wait_until
from agent.core.ids import device_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait for a blob if there is none")
    parser.add_argument("--all", action="store_true", help="take all that is there, one after the other")
    parser.add_argument("--json", action="store_true", help="a JSON line for each blob: author, times, body as base64")


def run(options: argparse.Namespace) -> int:
    """Print the oldest blob, or all; each is forgotten after it was printed."""
    with open_session(options) as session:
        if options.wait and not session.store.arrived(1):
            wait_until(session, lambda: bool(session.store.arrived(1)), options.wait)
        taken = 0
        while _take_one(session, as_json=options.json):
            taken += 1
            if not options.all:
                break
    if not taken:
        print("nothing has arrived", file=sys.stderr)
    return 0 if taken or options.all else 1


def _take_one(session: Session, *, as_json: bool) -> bool:
    rows = session.store.arrived(1)
    if not rows:
        return False
    identifier, group_id, author, sent_at_us, received_at_us, body = rows[0]
    if as_json:
        print_json(
            {
                "author": author.hex(),
                "name": device_name(author),
                "group_id": group_id.hex(),
                "sent_at_us": sent_at_us,
                "received_at_us": received_at_us,
                "body": base64.b64encode(body).decode(),
            }
        )
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
    with session.store.transaction():
        session.store.consume(identifier)
    return True
