"""`covey outbox ls`: the messages that wait, oldest first for each recipient."""

from __future__ import annotations

import argparse

from agent.cli.session import open_session, print_json, print_table
from agent.core.ids import device_name
from agent.core.records import MessageClass

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=["ls"])
    parser.add_argument(
        "--limit", type=int, default=_SHOWN, metavar="N", help=f"messages of each recipient (default: {_SHOWN})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Show what waits; what stands there is forgotten when its recipient has it."""
    with open_session(options) as session:
        now_us = session.clock.wall_us()
        messages, size = session.store.totals()
        rows = [
            {
                "recipient": device_name(recipient),
                "link_seq": link_seq,
                "class": MessageClass(kind).name.lower(),
                "bytes": length,
                "seconds": max(0, (now_us - queued_at_us) // 1_000_000),
            }
            for recipient in session.store.recipients_waiting()
            for link_seq, kind, length, queued_at_us in session.store.waiting(recipient, max(0, options.limit))
        ]
    if options.json:
        print_json({"messages": messages, "bytes": size, "shown": rows})
        return 0
    if rows:
        print_table(["recipient", "number", "class", "bytes", "seconds"], [list(row.values()) for row in rows])
    print(f"{messages} messages, {size} bytes" + (f"; {len(rows)} shown" if len(rows) < messages else ""))
    return 0
