"""`covey door`: forward readings from the collector's vault to other systems."""

from __future__ import annotations

import argparse

from covey.app.documents import to_json
from covey.app.telemetry import doors
from covey.app.wording import count, dropped_text
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.kinds_view import print_kinds
from covey.cli.output.terminal import print_json, print_table
from covey.cli.quantities import date_text
from covey.core.ids import labelled_name, printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    listing = actions.add("list", _list, "list configured doors", also=["ls"])
    status = actions.add("status", _status, "show what each door sent and skipped, and why")
    trial = actions.add("test", _test, "send a test reading to each door, or to one", examples=("covey door test",))
    trial.add_argument("name", nargs="?", metavar="NAME", help="name of the door")
    kinds = actions.add("kinds", _kinds, "list the kinds of doors and their settings")
    actions.add("run", _run, "forward stored readings (Ctrl-C to stop)")
    for action in (listing, status, trial, kinds):
        json_option(action)


def _list(options: argparse.Namespace) -> None:
    found = doors.listed_doors(state_folder(options))
    if options.json:
        print_json([to_json(each) for each in found])
    elif found:
        print_table(("door", "kind", "to"), [(each.name, each.kind, printable(each.to)) for each in found])
    else:
        print("no doors are configured")


def _status(options: argparse.Namespace) -> None:
    found = doors.door_statuses(state_folder(options))
    if options.json:
        print_json([to_json(each) for each in found])
        return
    if not found:
        print("no doors are configured")
        return
    rows = [
        (
            each.name,
            f"{each.messages} ({count(each.readings, 'reading')})",
            date_text(each.taken_at_us) if each.taken_at_us else "never",
            each.behind,
            each.gaps,
            _state(each),
        )
        for each in found
    ]
    print_table(("door", "messages sent", "last sent", "segments behind", "skipped", "state"), rows)
    for each in found:
        if each.history is not None:
            print(f"{each.name}: {_history(each.history)}")
        for gap in each.passed:
            where = f"segments {gap.first}-{gap.last}" if gap.first != gap.last else f"segment {gap.first}"
            when = date_text(gap.noted_at_us)
            whose = f" ({labelled_name(gap.device, gap.label)})" if gap.device else ""
            print(f"{each.name}: skipped {where} of node {gap.node[:8]}{whose}, {printable(gap.reason)}, {when}")


def _state(door: doors.DoorStatus) -> str:
    if not door.runs:
        return "not running: covey door run"
    if door.attempts:
        since = f" since {date_text(door.failing_since_us)}" if door.failing_since_us else ""
        return f"{printable(door.error)}, {count(door.attempts, 'try', 'tries')}{since}"
    if not door.begun_at_us:
        return "not started"
    return ("open" if door.messages else "open, nothing sent yet") + dropped_text(door.dropped)


def _history(history: doors.LateReadingsStatus) -> str:
    """Return what a door did with late readings."""
    if not history.hours and not history.waiting:
        return "late readings: none yet"
    last = f", last {date_text(history.imported_at_us)}" if history.imported_at_us else ""
    line = f"late readings: {count(history.hours, 'hour')} imported{last}; {history.waiting} waiting"
    if not history.attempts:
        return line
    since = f" since {date_text(history.failing_since_us)}" if history.failing_since_us else ""
    return f"{line}; {printable(history.error)}, {count(history.attempts, 'try', 'tries')}{since}"


def _kinds(options: argparse.Namespace) -> None:
    print_kinds(doors.door_kinds(), as_json=options.json)


def _test(options: argparse.Namespace) -> int:
    found = doors.try_doors(state_folder(options), options.name)
    if options.json:
        print_json([to_json(each) for each in found])
    else:
        for each in found:
            print(f"{each.door}: {printable(each.error) or 'accepted'}")
    return 1 if any(each.error for each in found) else 0


def _run(options: argparse.Namespace) -> None:
    doors.run_doors(state_folder(options), lambda line: print(line, flush=True))
