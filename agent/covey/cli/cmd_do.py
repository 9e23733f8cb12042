"""`covey do`: have devices do something that their owners have defined."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.app.orders.commands import give_command
from covey.cli.command_view import print_ordered, seconds_to_wait, wait_for_devices, wait_options
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option, selector_option
from covey.cli.quantities import date_text, read_us
from covey.cli.terminal import one_line_less, print_json, read_secret, read_text_file
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device

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
    parser.add_argument(
        "--secret",
        dest="secrets",
        action="append",
        default=[],
        metavar="NAME",
        help="an argument that only the devices that it is for now can read: asked for, or a line of stdin for each",
    )
    parser.add_argument(
        "--secret-from",
        dest="secret_files",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="the same, from a file: name=FILE",
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
    seconds_to_wait(wait=options.wait, timeout=options.timeout)  # a mistake is told before anything is ordered
    lifetime_us = read_us("--deadline", options.deadline, _LONGEST_US, _SHORTEST_US) if options.deadline else None
    manifest = device.pick_group(options.group)
    arguments = _arguments(options.arguments, "--arg", "--arg unit=pump --arg lines=50")
    hidden = _secrets(options.secrets, _arguments(options.secret_files, "--secret-from", "--secret-from key=wifi.txt"))
    given = give_command(device, manifest, options.action, arguments, options.selector, lifetime_us, hidden)
    if lifetime_us is not None and not device.clock.synchronised():
        until = date_text(device.now().wall_us + lifetime_us)
        print(f"warning: the deadline is {until}, by a clock here that is not synchronised", file=sys.stderr)
    if not options.json:
        print_ordered(given)
    elif not options.wait:
        print_json({**to_json(given.order), "devices": given.devices, "obeying": given.obeying})
    if not options.wait:
        return 0
    return wait_for_devices(
        device,
        manifest,
        given.order.id,
        seconds_to_wait(wait=options.wait, timeout=options.timeout),
        as_json=options.json,
    )


def _arguments(words: list[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            wrong = "stands there twice" if equals else "is no name=value"
            raise UsageError(f"{option}: '{name[:64]}' {wrong}", hint=example)
        found[name] = value
    return found


def _secrets(names: list[str], files: dict[str, str]) -> dict[str, str]:
    """Return secret arguments: for each name a line of stdin, or what a person types; further ones from files."""
    for name in names:
        if "=" in name:
            raise UsageError(
                "a secret on the command line stands in the list of processes and in the shell's history",
                hint=f"--secret {name.partition('=')[0][:64]}, to be asked for it; or --secret-from NAME=FILE",
            )
    if len({*names, *files}) < len(names) + len(files):
        raise UsageError("a secret is given twice", hint="--secret NAME or --secret-from NAME=FILE, once for each")
    found = {name: read_secret(file) for name, file in files.items()}
    if names and not sys.stdin.isatty():
        lines = one_line_less(read_text_file("-")).split("\n")
        if len(lines) != len(names):
            wrong = f"stdin has {len(lines)} lines for {len(names)} secrets"
            raise UsageError(wrong, hint="one line for each --secret")
        found.update((name, line.removesuffix("\r")) for name, line in zip(names, lines, strict=True))
    else:
        found.update((name, read_secret(None, name)) for name in names)
    for name, value in found.items():
        if not value:
            raise UsageError(f"{name}: an empty value is no secret")
    return found
