"""`covey sensor list|try`: the configured sensors."""

from __future__ import annotations

import argparse
import sys

from covey.app.documents import to_json
from covey.app.telemetry.sensors import as_senml, entry_named, listed_sensors, sensor_kinds, tried
from covey.app.wording import dropped_text, duration, reading_name
from covey.cli.device_options import device_api, state_folder
from covey.cli.grammar import Parser, every_action, json_option, seconds_option
from covey.cli.output.kinds_view import print_kinds
from covey.cli.output.terminal import print_json, print_table
from covey.core.ids import printable

_SECONDS = 30.0
_VALUES = ("v", "vs", "vb", "vd")


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", _list, "list configured sensors and their state", also=["ls"])
    try_ = actions.add(
        "try",
        _try,
        "read a sensor once and print the readings, without sending",
        examples=("covey sensor try boiler",),
    )
    try_.add_argument("name", metavar="NAME", help="name of the sensor")
    seconds_option(try_, "--seconds", "time to wait for a sensor that reports when it wants", _SECONDS)
    actions.add("kinds", _kinds, "list the kinds of sensors and their settings")
    every_action(parser, json_option)


def _list(options: argparse.Namespace) -> None:
    with device_api(options) as device:
        status = device.status()
    known = {each.name: each for each in status.sensors} if status.running else {}
    found = listed_sensors(state_folder(options), known)
    if options.json:
        print_json([to_json(each) for each in found])
    elif found:
        rows = [
            (
                each.name,
                each.kind,
                f"{each.interval_seconds:g} s" if each.interval_seconds else "when it reports",
                None if each.seconds is None else duration(each.seconds),
                None if each.last_reading_seconds is None else f"{duration(each.last_reading_seconds)} ago",
                printable(each.state) + dropped_text(each.dropped),
            )
            for each in found
        ]
        print_table(("sensor", "kind", "read every", "since", "last reading", "state"), rows)
    else:
        print("no sensors are configured")


def _kinds(options: argparse.Namespace) -> None:
    print_kinds(sensor_kinds(), as_json=options.json)


def _try(options: argparse.Namespace) -> int:
    found = tried(entry_named(state_folder(options), options.name), options.seconds)
    records = [as_senml(each) for each in found.readings]
    if options.json:
        print_json(records)
    elif records:
        print_table(("reading", "value", "unit"), [_row(each) for each in records])
    if found.dropped and not options.json:
        print(dropped_text(found.dropped).removeprefix("; "))
    if found.failure:
        print(f"error: {printable(found.failure)}", file=sys.stderr)
        return 1
    return 0


def _row(record: dict[str, object]) -> tuple[object, ...]:
    value = next(record[label] for label in _VALUES if label in record)
    return reading_name(str(record["n"])), printable(str(value)), printable(str(record.get("u", "-")))
