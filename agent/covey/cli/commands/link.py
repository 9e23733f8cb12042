"""`covey link [show]|plan|open`: when this device connects to its relays, and what that costs."""

from __future__ import annotations

import argparse

from covey.app.checks.link_plan import link_plan
from covey.app.checks.status import link_status
from covey.app.documents import to_json
from covey.app.loop.link_windows import ask_for_window
from covey.app.wording import size_text
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.output.status_view import cost_line, link_line
from covey.cli.output.terminal import print_json, print_table
from covey.errors import LocalError, UsageError

_SERIES_MAX = 100_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions("show")
    json_option(actions.add("show", _show, "show when this device connects to its relays, and what that costs"))
    plan = actions.add("plan", _plan, "predict what the settings cost, and suggest changes")
    plan.add_argument("--series", type=int, metavar="N", help="number of series (default: those of this machine)")
    json_option(plan)
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


def _plan(options: argparse.Namespace) -> int:
    """Print the prediction.

    Raises:
        UsageError: the number of series is negative.
    """
    if options.series is not None and not 0 <= options.series <= _SERIES_MAX:
        raise UsageError(f"--series: {options.series} is out of bounds", hint=f"from 0 to {_SERIES_MAX}")
    with open_device(options) as device:
        plan = link_plan(device.config, options.series)
    if options.json:
        print_json(to_json(plan))
        return 0
    print_table(
        ("part", "bytes a day"),
        [(part, f"{size:,}") for part, size in plan.parts.items()] + [("total", f"{plan.bytes_a_day:,}")],
    )
    print(f"predicted for {plan.series} series: {size_text(plan.bytes_a_month)} a month")
    if plan.budget_bytes_a_day is not None:
        verb = "fits" if plan.bytes_a_day <= plan.budget_bytes_a_day else "exceeds"
        print(f"this {verb} the budget of {size_text(plan.budget_bytes_a_day)} a day")
    if plan.suggestions:
        print_table(("change", "bytes a day"), [(each.change, f"{each.bytes_a_day:,}") for each in plan.suggestions])
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
