"""`covey operator`: who may give orders to devices."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from covey.app.device.device import Device
from covey.app.device.known_labels import namer
from covey.app.documents import to_json
from covey.app.orders import operators
from covey.cli.command_view import lacking
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, group_option, json_option
from covey.cli.quantities import date_text
from covey.cli.terminal import print_json, print_table
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list whose orders this device obeys", also=["ls"])
    add = actions.add("add", on_device(_add), "make a member an operator, for all who obey this device")
    add.add_argument("--label", metavar="TEXT", help="what it is called (default: the member's label)")
    remove = actions.add("remove", on_device(_remove), "have nobody obey an operator any more", also=["rm"])
    for action in (add, remove):
        action.add_argument("name", metavar="DEVICE", help="its label, or the beginning of its key")
    every_action(parser, group_option, json_option)


def _list(device: Device, options: argparse.Namespace) -> None:
    found = operators.operators(device, device.pick_group(options.group))
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print("this device obeys nobody: 'covey config set operations.operators KEY' pins an operator")
    else:
        named = namer(device)
        rows = [
            (
                each.name,
                printable(each.label, 32),
                _origin(each, named),
                "" if each.member else "no member: obeyed by nobody here",
            )
            for each in found
        ]
        print_table(["operator", "label", "why", ""], rows)


def _origin(entry: operators.OperatorEntry, named: Callable[[str], str]) -> str:
    if entry.origin == "configuration" or entry.since_us is None:
        return "pinned by the owner"
    said = "by the invite of" if entry.origin == "invite" else "added by"
    return f"{said} {named(entry.by)}, {date_text(entry.since_us)}"


def _add(device: Device, options: argparse.Namespace) -> None:
    _print_change(
        operators.add_operator(device, device.pick_group(options.group), options.name, options.label), options
    )


def _remove(device: Device, options: argparse.Namespace) -> None:
    _print_change(operators.remove_operator(device, device.pick_group(options.group), options.name), options)


def _print_change(entry: operators.OrderEntry, options: argparse.Namespace) -> None:
    if options.json:
        print_json(to_json(entry))
    elif entry.counts:
        print(f"{printable(entry.text, 80)}, for all who obey this device")
    else:
        print(f"{printable(entry.text, 80)} {lacking(entry)}")
