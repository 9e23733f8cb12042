"""`covey conformance`: test another implementation against the protocol."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from covey.app.conformance.checks import ROLES
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.output.terminal import print_json, print_table
from covey.core.ids import printable

if TYPE_CHECKING:
    from covey.app.conformance.testing import ConformanceReport


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument("--role", choices=tuple(ROLES), default="sensor", help="role of the device (default: sensor)")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="address of the relay (default: 127.0.0.1, any port)",
    )
    seconds_option(parser, "--timeout", "longest time to wait in one step (default: 60)", 60.0)
    parser.add_argument("--list", action="store_true", help="list the checks of the role, and test nothing")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CHECK",
        help="test only this check, and what it needs; can be given repeatedly",
    )
    parser.add_argument(
        "--line",
        default="",
        metavar="PORT",
        help="serial port to the device (default: a new terminal, {line})",
    )
    json_option(parser)
    parser.add_argument(
        "program",
        nargs="*",
        metavar="COMMAND",
        help="after --: program; replaced: {invite}, {code}, {relay}, {state}, {line}",
    )


def run(options: argparse.Namespace) -> int:
    """Test a device and print each tested check; return 0 if it passed all mandatory ones of them."""
    if options.list:
        return _list(options)
    from covey.app.conformance.testing import check_device  # a light command loads no relay

    report = partial(print, file=sys.stderr, flush=True)
    tested = check_device(
        *(options.role, options.listen, options.program, options.timeout, report),
        line=options.line,
        only=options.only,
    )
    if options.json:
        print_json(tested.document())
    else:
        _print(tested)
    return 0 if tested.passed else 1


def _list(options: argparse.Namespace) -> int:
    checks = ROLES[options.role]
    if options.json:
        print_json([each.document() for each in checks])
    else:
        rows = [(each.name, "must" if each.mandatory else "may", each.section, each.rule) for each in checks]
        print_table(["check", "", "section", "the device has to"], rows)
    return 0


def _print(tested: ConformanceReport) -> None:
    for each in tested.findings:
        check = each.check
        optional = "" if check.mandatory else " (optional)"
        print(f"{each.verdict.value:<9}{check.name:<18}{check.rule}{optional}")
        if each.sentence and not each.sound:
            print(f"{'':<27}{printable(each.sentence, 400)} [section {check.section}]")
    wrong = [each for each in tested.findings if not each.sound]
    if wrong:
        print(f"not conformant as {tested.role}: {len(wrong)} of {len(tested.findings)} checks did not pass")
    elif not tested.is_whole:
        print(f"passed as {tested.role}, as far as these checks go; without --only, all are tested")
    else:
        print(f"conformant as {tested.role}: every mandatory check passed")
