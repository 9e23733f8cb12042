"""`covey orders`: what operators have ordered, who has signed it, and whether it counts."""

from __future__ import annotations

import argparse

from covey.app.device import Device
from covey.app.documents import to_json
from covey.app.operations import operators
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.quantities import date_text
from covey.cli.terminal import print_json, print_table
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list what operators have ordered, the oldest first", also=["ls"])
    approve = actions.add("approve", on_device(_approve), "agree with an order, where more than one operator has to")
    approve.add_argument("id", metavar="ID", help="the beginning of its id")
    for action in dict.fromkeys(parser.actions.values()):
        group_option(action)
        json_option(action)


def _list(device: Device, options: argparse.Namespace) -> None:
    found = operators.orders(device, device.pick_group(options.group))
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print("no operator has ordered anything")
    else:
        rows = [
            (
                each.id[:8],
                date_text(each.made_at_us),
                f"{each.author[:8]} {printable(each.label, 24)}".rstrip(),
                _standing(each),
                printable(each.text, 80),
            )
            for each in found
        ]
        print_table(["order", "given", "by", "signed", "what"], rows)


def _standing(entry: operators.OrderEntry) -> str:
    return f"{len(entry.signers)} of {entry.needed}" + ("" if entry.counts else ", counts for nothing here")


def _approve(device: Device, options: argparse.Namespace) -> None:
    entry = operators.approve(device, device.pick_group(options.group), options.id)
    if options.json:
        print_json(to_json(entry))
    else:
        counts = "it counts" if entry.counts else f"{len(entry.signers)} of {entry.needed} have signed it"
        print(f"agreed with {entry.id[:8]}, {printable(entry.text, 80)}: {counts}")
