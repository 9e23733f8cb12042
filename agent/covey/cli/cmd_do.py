"""`covey do`: have devices do something that their owners have defined."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.operations.commands import OrderedCommand, give_command
from covey.app.wording import count
from covey.cli.command_view import wait_for_devices, wait_options
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
        _print(given)
    elif not options.wait:
        print_json({**to_json(given.order), "devices": given.devices, "obeying": given.obeying})
    if not options.wait:
        return 0
    return wait_for_devices(device, manifest, given.order.id, options.timeout, as_json=options.json)


def _print(given: OrderedCommand) -> None:
    short, devices = given.order.id[:8], count(given.devices, "device")
    if given.obeying < given.devices:
        devices += f", of which {given.devices - given.obeying} obey no commands"
    missing = given.order.needed - len(given.order.signers)
    if missing > 0:
        print(f"ordered as {short} for {devices}, once {missing} more agree: 'covey orders approve {short}' there")
    else:
        print(f"ordered as {short} for {devices}; 'covey orders {short}' shows what becomes of it", flush=True)


def _arguments(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            wrong = "stands there twice" if equals else "is no name=value"
            raise UsageError(f"--arg: '{name[:64]}' {wrong}", hint="--arg unit=pump --arg lines=50")
        found[name] = value
    return found
