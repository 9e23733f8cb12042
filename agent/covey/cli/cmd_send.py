"""`covey send`: one blob to every member, or to one; or a word that nobody keeps."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from covey.app.wording import count
from covey.cli.device_options import device_api
from covey.cli.grammar import Parser, group_option, json_option, key_option, seconds_option
from covey.cli.handing_over import WAIT_S, hand_over, report_handed_over
from covey.cli.quantities import read_us
from covey.cli.terminal import TIME_UP, print_json
from covey.errors import UsageError
from covey.limits.message import MAXIMUM_BLOB_BYTES

_LONGEST_US = 3_650 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to send; - or nothing is stdin")
    parser.add_argument("--text", help="send this text instead of a file")
    group_option(parser)
    parser.add_argument(
        "--to", metavar="MEMBER", help="one member alone, a board too: its label, or the beginning of its key"
    )
    parser.add_argument(
        "--expires", metavar="TIME", help="drop it if it has not come after so much running time of the agent: 36h, 2d"
    )
    parser.add_argument(
        "--ephemeral", action="store_true", help="to who is there now alone; nobody keeps it, and it may be lost"
    )
    key_option(parser)
    parser.add_argument(
        "--hand-over",
        action="store_true",
        help="wait until a mailbox has all that waits: this device goes away",
    )
    seconds_option(parser, "--wait", f"wait until all have acknowledged, or for mailboxes; exit code {TIME_UP} if not")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Queue durably; with --wait, also deliver."""
    lifetime_us = None if options.expires is None else read_us("--expires", options.expires, _LONGEST_US, 1_000_000)
    expires_s = None if lifetime_us is None else lifetime_us // 1_000_000
    content = options.text.encode() if options.text is not None else _read(options.file)
    if options.ephemeral:
        return _say(content, options)
    with device_api(options) as device:
        recipients = device.send(content, options.group, options.to or None, expires_s, options.key)
        if options.json and not options.hand_over:
            print_json({"bytes": len(content), "recipients": recipients})
        elif not options.json:
            print(f"queued {count(len(content), 'byte')} for {count(recipients, 'member')}", flush=True)
        if options.hand_over:
            found = hand_over(device, options.to or None, WAIT_S if options.wait is None else options.wait)
            sent = {"bytes": len(content), "recipients": recipients}
            return report_handed_over(device, found, as_json=options.json, sent=sent)
        waiting = 0 if options.wait is None else device.waiting_after(options.wait)
    if waiting:
        print(f"error: not acknowledged yet: {count(waiting, 'message')}", file=sys.stderr)
        print("hint: they stay queued; 'covey run' delivers them, 'covey status' shows for whom", file=sys.stderr)
        return TIME_UP
    if options.wait is not None:
        print("acknowledged by every member", file=sys.stderr)
    return 0


def _say(content: bytes, options: argparse.Namespace) -> int:
    if options.to or options.expires or options.key or options.hand_over or options.wait is not None:
        raise UsageError(
            "--ephemeral goes to all who are there, once",
            hint="without --to, --expires, --key, --hand-over and --wait",
        )
    with device_api(options) as device:
        recipients = device.send_ephemeral(content, options.group)
    if options.json:
        print_json({"bytes": len(content), "recipients": recipients})
    else:
        print(f"said {count(len(content), 'byte')} to {count(recipients, 'member')}, as far as they are there")
    return 0


def _read(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAXIMUM_BLOB_BYTES + 1)
        with Path(name).open("rb") as source:
            return source.read(MAXIMUM_BLOB_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
