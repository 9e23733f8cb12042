"""`covey link [show]|open`: when this device connects to its relays, and what that costs."""

from __future__ import annotations

import argparse

from covey.app.checks.status import link_status
from covey.app.documents import to_json
from covey.app.loop.link_windows import ask_for_window
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.output.status_view import cost_line, link_line
from covey.cli.output.terminal import print_json, print_table
from covey.errors import LocalError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions("show")
    json_option(actions.add("show", _show, "show when this device connects to its relays, and what that costs"))
    actions.add("open", _open, "connect now; the agent disconnects again when all is sent")


def _show(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        found = link_status(device, device.clock.wall_us())
    if options.json:
        print_json(to_json(found))
    else:
        print(link_line(found))
        if found.month:
            print(cost_line(found))
            print_table(
                ("bytes", "today", "this month"),
                [(kind, f"{found.today.get(kind, 0):,}", f"{size:,}") for kind, size in found.month.items()],
            )
    return 0


def _open(options: argparse.Namespace) -> int:
    """Ask the agent for a window.

    Raises:
        LocalError: no agent runs.
    """
    with open_device(options) as device:
        if not device.folder.locks.agent_runs():
            raise LocalError("the agent is not running", hint="it connects when it starts: covey run")
        with device.store.transaction():
            ask_for_window(device.store, device.now())
    return 0
