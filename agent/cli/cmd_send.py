"""`covey send`: one blob to every member."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent.cli.session import open_session, print_json, wait_until
from agent.core.limits import MAXIMUM_BLOB_BYTES
from agent.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("file", nargs="?", default="-", help="file to send; - or nothing is stdin")
    parser.add_argument("--text", help="send this text instead of a file")
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument("--wait", type=float, metavar="SECONDS", help="wait until every member has acknowledged")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Queue durably; with --wait, also deliver."""
    content = options.text.encode() if options.text is not None else _read(options.file)
    with open_session(options) as session:
        group_id = session.pick_group(options.group).group_id
        with session.store.transaction():
            recipients = session.node.send_blob(group_id, content, session.now())
        if options.json:
            print_json({"bytes": len(content), "recipients": recipients})
        else:
            print(f"queued {len(content)} bytes for {recipients} member{'s' * (recipients != 1)}")
        if options.wait is None:
            return 0
        if not wait_until(session, lambda: session.store.totals()[0] == 0, options.wait):
            waiting, _ = session.store.totals()
            print(f"error: {waiting} messages are not acknowledged yet", file=sys.stderr)
            print("hint: they stay queued; 'covey run' delivers them, 'covey status' shows for whom", file=sys.stderr)
            return 1
        print("acknowledged by every member", file=sys.stderr)
    return 0


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAXIMUM_BLOB_BYTES + 1)
        with Path(name).open("rb") as source:
            return source.read(MAXIMUM_BLOB_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
