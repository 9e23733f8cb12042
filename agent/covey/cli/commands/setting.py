"""`covey setting`: change a setting of many devices at once, and show the results."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from covey.app.device.device import Device
from covey.app.device.known_labels import named_selector, namer
from covey.app.loop.relay_loop import wait_until
from covey.app.orders import setting_orders
from covey.app.orders.operators import OrderEntry
from covey.app.orders.plans import merged
from covey.app.orders.program_settings import ordered_settings
from covey.app.wording import count
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option, selector_option
from covey.cli.output.command_view import in_groups, lacking, seconds_to_wait, wait_options
from covey.cli.output.progress_line import ProgressLine
from covey.cli.output.terminal import (
    TIME_UP,
    explained_interruption,
    one_line_less,
    print_json,
    print_table,
    read_secret,
    read_text_file,
)
from covey.cli.quantities import date_text
from covey.cli.scope import pick_scope, read_scope, scope_options
from covey.config.ordered import APPLICATION_PREFIX
from covey.config.settings import nearest, settings, toml_value
from covey.core.ids import labelled_name, printable
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.orders.fleet import Together

_ACTIONS = ("set", "unset", "get", "diff", "history")
_SHOWN = 40
"""Characters of a value in a table."""


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="get")
    set_ = actions.add(
        "set",
        on_device(_set),
        "set a value on devices of the group",
        examples=(
            "covey setting set telemetry.batch_seconds 10 --for label:greenhouse",
            "covey setting set app.mode eco",
            "covey setting set app.token --secret --from token.txt --for label:greenhouse",
        ),
    )
    unset = actions.add("unset", on_device(_unset), "return devices to their own value")
    get = actions.add("get", on_device(_get), "show the values that operators set on this device", also=["list", "ls"])
    diff = actions.add("diff", on_device(_diff), "compare ordered values with the values in use")
    history = actions.add("history", on_device(_history), "show who set a setting on which devices, and when")
    for action in (set_, unset):
        wait_options(action)
    for action in (set_, unset, history):
        action.add_argument("setting", metavar="SETTING", help="setting, or app.NAME for a program's own setting")
    set_.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="new value, readable by all members; - is stdin",
    )
    set_.add_argument(
        "--secret",
        action="store_true",
        help="secret value of app.NAME, readable only by the target devices",
    )
    set_.add_argument("--from", dest="file", metavar="FILE", help="file with the value; - is stdin")
    for action in (get, diff):
        action.add_argument("setting", nargs="?", default="", metavar="SETTING", help="start of the setting's name")
    for action in (set_, unset, diff):
        selector_option(action)
    diff.add_argument("--all", action="store_true", help="also show devices that agree")
    for action in (set_, unset, diff):
        scope_options(action)
    group_option(history)
    for action in (set_, unset, get, diff, history):
        json_option(action)


def _set(device: Device, options: argparse.Namespace) -> int:
    if options.value not in {None, "-"} and options.file is not None:
        raise UsageError("VALUE and --from exclude each other", hint="give one of them")
    if options.secret:
        return _set_secret(device, options)
    file = options.file or ("-" if options.value == "-" else None)
    if file is None and options.value is None:
        raise UsageError("no value is given", hint="covey setting set SETTING VALUE, or --from FILE")
    text = options.value if file is None else one_line_less(read_text_file(file))
    return _give(device, options, setting_orders.read_value(options.setting, text))


def _set_secret(device: Device, options: argparse.Namespace) -> int:
    if options.value not in {None, "-"}:
        raise UsageError(
            "a secret on the command line is visible in the process list and in the shell's history",
            hint="leave it out, and the command asks for it; or give --from FILE, or --from - for stdin",
        )
    seconds_to_wait(wait=options.wait, timeout=options.timeout)
    secret = read_secret("-" if options.value == "-" else options.file)
    scope = pick_scope(device, options.group, fleet=options.fleet)
    given, devices = setting_orders.give_secret(device, scope, options.setting, secret, options.selector)
    if not options.json:
        print("devices that join later cannot read it: set it again for them")
    return _ordered(device, given, options, devices)


def _unset(device: Device, options: argparse.Namespace) -> int:
    return _give(device, options, None)


def _give(device: Device, options: argparse.Namespace, value: str | bool | int | None) -> int:
    seconds_to_wait(wait=options.wait, timeout=options.timeout)  # a mistake is told before anything is ordered
    scope = pick_scope(device, options.group, fleet=options.fleet)
    given, devices = setting_orders.give_setting(device, scope, options.setting, value, options.selector)
    return _ordered(device, given, options, devices)


def _ordered(device: Device, given: Together, options: argparse.Namespace, devices: int) -> int:
    """Print an order, and with --wait its results; return the exit code."""
    order = merged(device, given)
    if not (options.json and options.wait):
        _show_order(options, given, order, devices)
    return _wait(device, given, options, order) if options.wait else 0


def _wait(device: Device, given: Together, options: argparse.Namespace, order: OrderEntry) -> int:
    """Wait until every device has reported on a setting, and print the results; return the exit code."""

    def found() -> list[setting_orders.SettingDifference]:
        every = setting_orders.differences(
            device, [group for group, _ in given.orders], options.selector, options.setting
        )
        own, ids = order.author, {operation.id.hex() for _, operation in given.orders}
        # who gave it and obeys nobody is not meant
        meant = [each for each in every if each.operation in ids and (each.device != own or each.state)]
        return setting_orders.once_each(meant)

    def finished() -> bool:
        rows = found()
        settled = sum(each.settled for each in rows)
        line.show(f"{settled} of {count(len(rows), 'device')} reported", last=settled == len(rows))
        return settled == len(rows)

    stands = "the order remains in force; to see the results: covey setting diff"
    with explained_interruption(lambda: stands), ProgressLine(plain=True) as line:
        in_time = wait_until(device, finished, seconds_to_wait(wait=options.wait, timeout=options.timeout))
    rows = found()
    if options.json:
        print_json({"id": order.id, "devices": [asdict(each) for each in rows]})
    else:
        _show_differences([each for each in rows if not each.agrees])
        print(f"in use on {sum(each.agrees for each in rows)} of {count(len(rows), 'device')}")
    if not in_time:
        return TIME_UP
    return 0 if rows and all(each.agrees for each in rows) else 1


def _show_order(options: argparse.Namespace, given: Together, order: OrderEntry, devices: int) -> None:
    kind = "order" if given.plan is None else "plan"
    whom = count(devices, "device") + in_groups(given)
    if options.json:
        groups = {} if given.plan is None else {"groups": [group.group_id.hex() for group, _ in given.orders]}
        print_json({"id": order.id, **groups, "devices": devices, "signed": len(order.signers), "needed": order.needed})
    elif lacks := lacking(order):
        print(f"{kind} {order.id[:8]} for {whom}: {lacks}")
    else:
        print(f"{kind} {order.id[:8]} for {whom}; to see the results: covey setting diff")


def _get(device: Device, options: argparse.Namespace) -> None:
    found = [each for each in ordered_settings(device) if each.key.startswith(options.setting)]
    if options.json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        _check_beginning(options.setting)
        what = printable(options.setting) or "anything"
        print(f"no operator has set {what} on this device")
        return
    named = namer(device)
    rows = [
        (each.key, "(secret)" if each.secret else _value(each.value), each.state, named(each.by), printable(each.why))
        for each in found
    ]
    print_table(["setting", "value", "state", "by", "why"], rows)


def _check_beginning(name: str) -> None:
    """Refuse a name that starts no setting: usually a mistyped action."""
    known = (*settings(), APPLICATION_PREFIX)
    if not name.startswith(APPLICATION_PREFIX) and not any(key.startswith(name) for key in known):
        near = nearest(name, (*_ACTIONS, *settings()), 1)
        raise UsageError(
            f"'{printable(name)}' is neither a setting nor the start of one",
            hint=f"did you mean '{near[0]}'?" if near else "'covey config list' shows all",
        )


def _diff(device: Device, options: argparse.Namespace) -> None:
    groups = read_scope(device, options.group, fleet=options.fleet).groups
    found = setting_orders.differences(device, groups, options.selector, options.setting)
    shown = [each for each in found if options.all or not each.agrees]
    if options.json:
        print_json([asdict(each) for each in shown])
        return
    _show_differences(shown)
    agree = sum(each.agrees for each in found)
    print(f"{agree} of {count(len(found), 'ordered value')} in use" if found else "nothing is set for these devices")


def _show_differences(shown: list[setting_orders.SettingDifference]) -> None:
    if shown:
        rows = [
            (
                labelled_name(each.name, each.label),
                each.key,
                "(sealed)" if each.sealed else _value(each.wanted),
                _state(each),
                printable(each.why),
            )
            for each in shown
        ]
        print_table(["device", "setting", "ordered", "state", "why"], rows)


def _history(device: Device, options: argparse.Namespace) -> None:
    found = setting_orders.setting_history(device, device.pick_group(options.group), options.setting)
    if options.json:
        print_json([asdict(each) for each in found])
        return
    rows = [
        (
            each.id[:8],
            date_text(each.made_at_us),
            labelled_name(each.author[:8], each.label),
            named_selector(device, each.selector),
            "(sealed)" if each.sealed else _value(each.value),
            _standing(each),
        )
        for each in found
    ]
    if rows:
        print_table(["order", "made", "by", "for", "value", ""], rows)
    else:
        print("no operator has set it")


def _state(each: setting_orders.SettingDifference) -> str:
    """Return what a device reports; for a reverted setting also the value that is in use."""
    if each.state == setting_orders.REVERTED and each.value is not None:
        return f"{each.state} to {_value(each.value)}"
    return each.state or "no report yet"


def _standing(each: setting_orders.SettingEntry) -> str:
    """Return why an order is not in force, or which devices reverted it."""
    if not each.counts:
        return "not in force"
    if not each.reverted:
        return ""
    where = each.reverted[0] if len(each.reverted) == 1 else count(len(each.reverted), "device")
    return f"{setting_orders.REVERTED} on {where}"


def _value(value: str | bool | int | None) -> str:
    return "(own value)" if value is None else printable(value if isinstance(value, str) else toml_value(value), _SHOWN)
