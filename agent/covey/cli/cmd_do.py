"""`covey do`: have devices do something that their owners have defined."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.operations.commands import give_command
from covey.cli.command_view import print_ordered, wait_for_devices, wait_options
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option, selector_option
from covey.cli.quantities import read_us
from covey.cli.terminal import print_json
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.device import Device

_SHORTEST_US = 1_000_000
_LONGEST_US = 366 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("action", metavar="ACTION", help="what to do, by the name that it has on the devices")
    parser.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="an argument of the action: name=value",
    )
    selector_option(parser)
    parser.add_argument(
        "--deadline", metavar="TIME", help="after 30m, 12h or 7d nobody begins with it any more (default: whenever)"
    )
    wait_options(parser)
    group_option(parser)
    json_option(parser)
    parser.set_defaults(act=on_device(_do))


def _do(device: Device, options: argparse.Namespace) -> int:
    lifetime_us = read_us("--deadline", options.deadline, _LONGEST_US, _SHORTEST_US) if options.deadline else None
    manifest = device.pick_group(options.group)
    arguments = _arguments(options.arguments)
    given = give_command(device, manifest, options.action, arguments, options.selector, lifetime_us)
    if not options.json:
        print_ordered(given)
    elif not options.wait:
        print_json({**to_json(given.order), "devices": given.devices, "obeying": given.obeying})
    if not options.wait:
        return 0
    return wait_for_devices(device, manifest, given.order.id, options.timeout, as_json=options.json)


def _arguments(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            wrong = "stands there twice" if equals else "is no name=value"
            raise UsageError(f"--arg: '{name[:64]}' {wrong}", hint="--arg unit=pump --arg lines=50")
        found[name] = value
    return found
