"""`covey status`: this device's state, its queued messages, and when it last heard other devices."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.cli.device_options import device_api
from covey.cli.grammar import Parser, json_option
from covey.cli.output.status_view import BOARDS_HEAD, DEVICES_HEAD, SENSORS_HEAD, boards, devices, overview, sensors
from covey.cli.output.terminal import print_json, print_table

if TYPE_CHECKING:
    from covey.app.checks.documents import Status

_SHOWN = 20


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    with device_api(options) as device:
        status = device.status()
    if options.json:
        print_json(to_json(status))
    else:
        _show(status)
    return 0


def _show(status: Status) -> None:
    for line in overview(status):
        print(line)
    rows = list(devices(status))
    if rows:
        print_table(DEVICES_HEAD, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        print(f"and {len(rows) - _SHOWN} more: --json shows all")
    if status.boards:
        print_table(BOARDS_HEAD, list(boards(status)))
    if status.sensors:
        print_table(SENSORS_HEAD, list(sensors(status)))
    if status.counters:
        print_table(["counter", "value"], list(status.counters.items()))
