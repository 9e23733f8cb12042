"""`covey orders`: what operators have ordered, who has signed it, whether it counts, and what has become of it."""

from __future__ import annotations

import argparse
from base64 import b64encode
from collections import Counter

from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.orders import attempts, command_reports, operators
from covey.app.orders.command_reports import OUTCOMES, CommandReport
from covey.cli.command_view import (
    print_output,
    seconds_to_wait,
    show_command,
    show_order,
    wait_for_devices,
    wait_options,
    whom_results_go_to,
)
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, group_option, json_option
from covey.cli.quantities import date_text
from covey.cli.terminal import print_json, print_table, visible_lines
from covey.core.ids import labelled_name, printable
from covey.errors import LocalError, UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="show")
    actions.add("list", on_device(_list), "list what operators have ordered, the oldest first", also=["ls"])
    show = actions.add(
        "show", on_device(_show), "show what has become of a command on each device; without ORDER: list"
    )
    show.add_argument("id", nargs="?", metavar="ORDER", help="the beginning of its id")
    show.add_argument("--output", metavar="DEVICE", help="print what its program wrote there")
    wait_options(show)
    actions.add("refused", on_device(_refused), "list who ordered something without a say here, and how often")
    approve = actions.add("approve", on_device(_approve), "agree with an order, where more than one operator has to")
    approve.add_argument("id", metavar="ORDER", help="the beginning of its id")
    every_action(parser, group_option, json_option)


def _list(device: Device, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    found, tallies = operators.orders(device, manifest), command_reports.tallies(device, manifest)
    if options.json:
        print_json([{**to_json(each), "outcomes": dict(tallies.get(each.id, {}))} for each in found])
    elif not found:
        print("no operator has ordered anything")
    else:
        rows = [
            (
                each.id[:8],
                date_text(each.made_at_us),
                labelled_name(each.author[:8], each.label),
                _standing(each),
                _tally(tallies.get(each.id, Counter())),
                printable(each.text, 80),
            )
            for each in found
        ]
        print_table(["order", "given", "by", "signed", "came to", "what"], rows)


def _refused(device: Device, options: argparse.Namespace) -> None:
    found = attempts.attempts(device, device.pick_group(options.group)).entries
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print("nobody has ordered anything without a say here")
    else:
        rows = [
            (
                labelled_name(each.name, each.label),
                str(each.count),
                date_text(each.first_us),
                date_text(each.last_us),
                each.last[:8],
                each.why,
            )
            for each in found
        ]
        print_table(["by", "orders", "first", "last", "its id", "why nobody obeys"], rows)


def _standing(entry: operators.OrderEntry) -> str:
    return f"{len(entry.signers)} of {entry.needed}" + ("" if entry.counts else ", counts for nothing here")


def _tally(outcomes: Counter[command_reports.Outcome]) -> str:
    return ", ".join(f"{outcomes[each]} {each}" for each in OUTCOMES if outcomes[each]) or "-"


def _show(device: Device, options: argparse.Namespace) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)
    if options.id is None:
        if options.wait or options.output is not None:
            raise UsageError("of which order?", hint="covey orders ID; 'covey orders list' shows them")
        _list(device, options)
        return 0
    manifest = device.pick_group(options.group)
    found = command_reports.command_report(device, manifest, options.id)
    if not isinstance(found, CommandReport):
        if options.wait or options.output is not None:
            raise UsageError(f"{found.id[:8]} is no command", hint="'covey setting diff' shows what became of settings")
        if options.json:
            print_json(to_json(found))
        else:
            show_order(found)
        return 0
    if found.outcomes["elsewhere"] and options.wait:
        raise LocalError(f"nothing comes to this device: {whom_results_go_to(found)}")
    if options.wait:
        return wait_for_devices(
            device,
            manifest,
            found.order.id,
            seconds_to_wait(wait=options.wait, timeout=options.timeout),
            as_json=options.json,
        )
    if options.output is not None:
        _output(device, found, options)
    else:
        show_command(found, device.clock.wall_us(), as_json=options.json)
    return 0


def _output(device: Device, report: CommandReport, options: argparse.Namespace) -> None:
    manifest = device.pick_group(options.group)
    shown, output = command_reports.output_of(device, manifest, report, options.output)
    if options.json:
        print_json({**to_json(shown), "output": b64encode(output).decode()})
    else:
        print_output(visible_lines(output) if output else iter(()), shown)


def _approve(device: Device, options: argparse.Namespace) -> None:
    entry = operators.approve(device, device.pick_group(options.group), options.id)
    if options.json:
        print_json(to_json(entry))
    else:
        counts = "it counts" if entry.counts else f"{len(entry.signers)} of {entry.needed} have signed it"
        print(f"agreed with {entry.id[:8]}, {printable(entry.text, 80)}: {counts}")
