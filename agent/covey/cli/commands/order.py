"""`covey order`: run an action on devices, and show the orders of operators and their results."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from typing import TYPE_CHECKING

from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.orders import attempts, command_reports, operators, plans
from covey.app.orders.command_reports import CommandReport
from covey.app.orders.commands import give_command
from covey.app.orders.continuing import continue_plan
from covey.app.wording import count
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, group_option, json_option, selector_option
from covey.cli.output.command_view import (
    Awaited,
    print_ordered,
    print_output,
    seconds_to_wait,
    show_command,
    show_order,
    standing,
    wait_for_devices,
    wait_options,
    whom_results_go_to,
)
from covey.cli.output.terminal import one_line_less, print_json, print_table, read_secret, read_text_file, visible_lines
from covey.cli.quantities import date_text, read_us
from covey.cli.scope import pick_scope, read_scope, scope_options
from covey.core.ids import PlanId, labelled_name, printable
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation

_SHORTEST_US = 1_000_000
_LONGEST_US = 366 * 86_400_000_000


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list the orders of operators, oldest first", also=["ls"])
    _run_options(actions.add("run", on_device(_run), "run an action on devices", examples=_RUN_EXAMPLES))
    show = actions.add("show", on_device(_show), "show an order and its result on each device")
    show.add_argument("id", metavar="ORDER", help="start of the order's or plan's id")
    show.add_argument("--output", metavar="DEVICE", help="print what the program wrote on this device")
    wait_options(show)
    approve = actions.add("approve", on_device(_approve), "approve an order that needs several operators")
    approve.add_argument("id", metavar="ORDER", help="start of the order's or plan's id")
    continued = actions.add("continue", on_device(_continue), "give a plan's order in the groups that lack it")
    continued.add_argument("id", metavar="PLAN", help="start of the plan's id")
    refused = actions.add("refused", on_device(_refused), "list senders whose orders this device refused")
    every_action(parser, json_option)
    for action in dict.fromkeys(parser.actions.values()):
        (group_option if action is refused else scope_options)(action)


_RUN_EXAMPLES = (
    "covey order run restart-agent --for label:greenhouse --wait",
    "covey order run journal --arg unit=pump.service --arg lines=50 --for shed",
)


def _run_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="ACTION", help="name of the action, as the devices define it")
    parser.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="argument of the action: name=value",
    )
    parser.add_argument(
        "--secret",
        dest="secrets",
        action="append",
        default=[],
        metavar="NAME",
        help="secret argument, readable only by the target devices; - asks",
    )
    parser.add_argument(
        "--secret-from",
        dest="secret_files",
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="secret argument from a file: name=FILE",
    )
    selector_option(parser)
    parser.add_argument("--deadline", metavar="TIME", help="do not start after this long, e.g. 30m (default: no limit)")
    wait_options(parser)


def _run(device: Device, options: argparse.Namespace) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)  # a mistake is told before anything is ordered
    lifetime_us = read_us("--deadline", options.deadline, _LONGEST_US, _SHORTEST_US) if options.deadline else None
    scope = pick_scope(device, options.group, fleet=options.fleet)
    arguments = _arguments(options.arguments, "--arg", "--arg unit=pump --arg lines=50")
    hidden = _secrets(options.secrets, _arguments(options.secret_files, "--secret-from", "--secret-from key=wifi.txt"))
    given = give_command(device, scope, options.name, arguments, options.selector, lifetime_us, hidden)
    if lifetime_us is not None and not device.clock.synchronised():
        until = date_text(device.now().wall_us + lifetime_us)
        print(f"warning: the deadline is {until}, but this device's clock is not synchronised", file=sys.stderr)
    if not options.json:
        print_ordered(given)
    elif not options.wait:
        groups = {"groups": [group.group_id.hex() for group, _ in given.given.orders]} if given.given.plan else {}
        print_json({**to_json(given.order), **groups, "devices": given.devices, "obeying": given.obeying})
    return wait_for_devices(device, _whole(device, given.given.orders, given.order.id, plan=scope.fleet), options)


def _whole(device: Device, orders: Sequence[tuple[GroupManifest, Operation]], order: str, *, plan: bool) -> Awaited:
    """Return what is waited for: one order, or all orders of a plan."""
    if plan:
        return Awaited.plan(device, plans.KnownPlan(PlanId(bytes.fromhex(order)), tuple(orders)))
    return Awaited.order(device, orders[0][0], order)


def _arguments(words: list[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name in found:
            wrong = "is given twice" if equals else "is not name=value"
            raise UsageError(f"{option}: '{name[:64]}' {wrong}", hint=example)
        found[name] = value
    return found


def _secrets(names: list[str], files: dict[str, str]) -> dict[str, str]:
    """Return secret arguments: one line of stdin, or one answer, for each name; further ones from files."""
    for name in names:
        if "=" in name:
            raise UsageError(
                "a secret on the command line is visible in the process list and in the shell's history",
                hint=f"--secret {name.partition('=')[0][:64]} asks for it; --secret-from NAME=FILE reads it from "
                "a file",
            )
    if len({*names, *files}) < len(names) + len(files):
        raise UsageError(
            "a secret is given twice", hint="give each secret once, with --secret NAME or --secret-from NAME=FILE"
        )
    found = {name: read_secret(file) for name, file in files.items()}
    if names and not sys.stdin.isatty():
        lines = one_line_less(read_text_file("-")).split("\n")
        if len(lines) != len(names):
            wrong = f"stdin has {len(lines)} lines for {len(names)} secrets"
            raise UsageError(wrong, hint="give one line for each --secret")
        found.update((name, line.removesuffix("\r")) for name, line in zip(names, lines, strict=True))
    else:
        found.update((name, read_secret(None, name)) for name in names)
    for name, value in found.items():
        if not value:
            raise UsageError(f"{name}: a secret must not be empty")
    return found


def _list(device: Device, options: argparse.Namespace) -> None:
    found = plans.listed(device, read_scope(device, options.group, fleet=options.fleet).groups)
    if options.json:
        print_json([{**to_json(each.entry), "groups": list(each.groups), "outcomes": each.outcomes} for each in found])
    elif not found:
        print("no orders")
    else:
        rows = [
            (
                each.entry.id[:8],
                date_text(each.entry.made_at_us),
                labelled_name(each.entry.author[:8], each.entry.label),
                standing(counts=each.entry.counts, signed=len(each.entry.signers), needed=each.entry.needed),
                ", ".join(f"{number} {word}" for word, number in each.outcomes.items()) or "-",
                printable(each.entry.text, 80) + _places(each),
            )
            for each in found
        ]
        print_table(["order", "given", "by", "state", "results", "what"], rows)


def _refused(device: Device, options: argparse.Namespace) -> None:
    found = attempts.attempts(device, device.pick_group(options.group)).entries
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print("no refused orders")
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
        print_table(["by", "orders", "first", "last", "last order", "why refused"], rows)


def _places(each: plans.ListedOrder) -> str:
    return f" (in {len(each.groups)} groups)" if len(each.groups) > 1 else ""


def _show(device: Device, options: argparse.Namespace) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)
    scope = read_scope(device, options.group, fleet=options.fleet)
    plan = plans.find_plan(device, scope.groups, options.id)
    if plan is None:
        manifest = plans.group_of_order(device, scope.groups, options.id)
        found = command_reports.command_report(device, manifest, options.id)
    else:
        found = plans.plan_report(device, plan)
    if not isinstance(found, CommandReport):
        if options.wait or options.output is not None:
            raise UsageError(
                f"{found.id[:8]} is not a command", hint="'covey setting diff' shows the results of settings"
            )
        if options.json:
            print_json({**to_json(found), **_plan_fields(plan)})
        else:
            show_order(found)
            _show_places(plan)
        return 0
    if found.outcomes["elsewhere"] and options.wait:
        raise LocalError(f"devices do not report to this device: {whom_results_go_to(found)}")
    if options.wait:
        whole = Awaited.order(device, manifest, found.order.id) if plan is None else Awaited.plan(device, plan)
        return wait_for_devices(device, whole, options)
    if options.output is not None:
        if plan is not None:
            raise UsageError(
                "--output needs one group", hint="give --group, and the id that 'covey order --group' shows"
            )
        _output(device, manifest, found, options)
    elif options.json:
        print_json({**to_json(found), "outcomes": dict(found.outcomes), **_plan_fields(plan)})
    else:
        show_command(found, device.clock.wall_us(), as_json=False)
        _show_places(plan)
    return 0


def _plan_fields(plan: plans.KnownPlan | None) -> dict[str, object]:
    if plan is None:
        return {}
    return {"groups": [each.hex() for each in plan.groups], "missing": [each.hex() for each in plan.missing]}


def _show_places(plan: plans.KnownPlan | None) -> None:
    if plan is not None:
        names = ", ".join(each.hex()[:8] for each in plan.groups)
        print(f"\nplan for {count(len(plan.groups), 'group')}: {names}")
        if plan.deleted:
            print(f"this device deleted its order in: {', '.join(each.hex()[:8] for each in plan.deleted)}")
        if plan.missing:
            missing = ", ".join(each.hex()[:8] for each in plan.missing)
            print(f"no valid order has arrived here from: {missing}")
            verb = "covey order continue" if plan.once is None else "covey release resume"
            print(f"if the device that gave them is lost: {verb} {plan.name[:8]}")


def _continue(device: Device, options: argparse.Namespace) -> None:
    plan = plans.find_plan(device, read_scope(device, options.group, fleet=options.fleet).groups, options.id)
    if plan is None:
        raise LocalError(f"no plan's id begins with '{options.id[:64]}'", hint="'covey order list' shows them")
    found = continue_plan(device, plan)
    if options.json:
        print_json(to_json(found))
        return
    short = plan.name[:8]
    for groups, what in (
        (found.given, f"plan {short} given in"),
        (found.later, "not given, because a later setting is there:"),
        (found.absent, "not given, because this device is not an operator there, or they are not of your fleet:"),
    ):
        if groups:
            print(f"{what} {count(len(groups), 'group')}: {', '.join(each[:8] for each in groups)}")
    if not (found.given or found.later or found.absent):
        print(f"no group lacks the order of plan {short}")


def _output(device: Device, manifest: GroupManifest, report: CommandReport, options: argparse.Namespace) -> None:
    shown, output = command_reports.output_of(device, manifest, report, options.output)
    if options.json:
        print_json({**to_json(shown), "output": b64encode(output).decode()})
    else:
        print_output(visible_lines(output) if output else iter(()), shown)


def _approve(device: Device, options: argparse.Namespace) -> None:
    scope = read_scope(device, options.group, fleet=options.fleet)
    plan = plans.find_plan(device, scope.groups, options.id)
    if plan is None:
        entry = operators.approve(device, plans.group_of_order(device, scope.groups, options.id), options.id)
    else:
        entry = plans.approve_plan(device, plan)
    if options.json:
        print_json({**to_json(entry), **_plan_fields(plan)})
    else:
        state = standing(counts=entry.counts, signed=len(entry.signers), needed=entry.needed)
        print(f"approved {entry.id[:8]}, {printable(entry.text, 80)}: {state}")
        _show_places(plan)
