"""`covey mailbox`: keep sealed envelopes for sleeping devices, hand over this device's own, and list or delete them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from covey.app.agent.daemon import run_agent
from covey.app.agent.roles import configured_roles
from covey.app.documents import to_json
from covey.app.wording import count, size_text
from covey.cli.device_options import device_api, on_device, state_folder
from covey.cli.grammar import Parser, json_option, seconds_option
from covey.cli.output.handing_over import WAIT_S, hand_over, report_handed_over
from covey.cli.output.status_view import duration
from covey.cli.output.terminal import confirm, print_json, print_table
from covey.core.ids import printable
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="status")
    run = actions.add("run", _run, "run the agent as a mailbox (overrides mailbox.serve)")
    run.add_argument("--no-sensors", action="store_true", help="do not read this machine's sensors")
    status = actions.add("status", on_device(_status), "show the envelopes that this mailbox stores, by device")
    delete = actions.add("delete", on_device(_delete), "delete stored envelopes; senders still hold their copies")
    delete.add_argument("device", nargs="?", metavar="DEVICE", help="only for this device (default: all)")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    over = actions.add("hand-over", _hand_over, "hand all waiting messages to mailboxes, e.g. before power-off")
    over.add_argument(
        "device", nargs="?", metavar="DEVICE", help="only for this device: label, or start of key (default: all)"
    )
    seconds_option(over, "--wait", f"time to wait (default: {WAIT_S:.0f})", WAIT_S)
    for action in (status, delete, over):
        json_option(action)


def _run(options: argparse.Namespace) -> int:
    run_agent(
        state_folder(options),
        lambda device: configured_roles(device, sensors=not options.no_sensors, serves_mailbox=True),
    )
    return 0


def _status(device: Device, options: argparse.Namespace) -> None:
    from covey.app.relays.mailbox import dropped_text, mailbox_status

    status = mailbox_status(device)
    if options.json:
        print_json(to_json(status))
        return
    share = f"{size_text(status.bytes)} of {size_text(status.maximum_bytes)}"
    what = f"mailbox of {count(status.groups, 'group')}" if status.groups else "not a mailbox in any group"
    print(f"{what}: {count(status.blobs, 'envelope')}, {share}{dropped_text(status)}")
    if status.inboxes:
        print_table(
            ["for", "label", "envelopes", "size", "since"],
            [
                (
                    each.device,
                    printable(each.label) or "-",
                    each.blobs,
                    size_text(each.bytes),
                    "-" if each.oldest_seconds is None else duration(each.oldest_seconds),
                )
                for each in status.inboxes
            ],
        )


def _delete(device: Device, options: argparse.Namespace) -> None:
    from covey.app.relays.mailbox import delete_envelopes, kept_for

    chosen = kept_for(device, options.device)
    if not options.json:
        whom = f"device {options.device}" if options.device else "all devices"
        confirm(f"delete all envelopes for {whom}?", options.yes)
    gone = delete_envelopes(device, chosen)
    if options.json:
        print_json({"deleted": gone})
    else:
        print(f"deleted {count(gone, 'envelope')}")


def _hand_over(options: argparse.Namespace) -> int:
    with device_api(options) as device:
        found = hand_over(device, options.device, options.wait)
        if not (found.handed_over or found.open):
            raise LocalError(
                "no messages are waiting" + (f" for '{options.device}'" if options.device else ""),
                hint="'covey status' shows the waiting messages of each device",
            )
        return report_handed_over(device, found, as_json=options.json)
