"""`covey mailbox`: keep sealed envelopes for devices that sleep; hand one's own over; see and empty what is kept."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.agent_roles import configured_roles
from covey.app.daemon import run_agent
from covey.app.documents import to_json
from covey.app.wording import count
from covey.cli.device_options import on_device, state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.quantities import size_text
from covey.cli.status_view import duration
from covey.cli.terminal import confirm, print_json, print_table
from covey.core.ids import device_name, labelled_name, printable

if TYPE_CHECKING:
    from covey.app.device import Device

_WAIT_S = 30.0


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="status")
    run = actions.add("run", _run, "run the agent as a mailbox, whatever mailbox.serve says")
    run.add_argument("--no-sensors", action="store_true", help="do not sample this machine")
    status = actions.add("status", on_device(_status), "what this mailbox keeps, and for whom")
    purge = actions.add("purge", on_device(_purge), "let go of what is kept; who sent it has it still, if it lives")
    purge.add_argument("device", nargs="?", metavar="DEVICE", help="for whom (default: all)")
    purge.add_argument("--yes", action="store_true", help="do not ask")
    over = actions.add("hand-over", on_device(_hand_over), "push what waits to mailboxes now: this device goes away")
    over.add_argument("device", nargs="?", metavar="DEVICE", help="for whom (default: all for whom something waits)")
    over.add_argument(
        "--wait", type=float, default=_WAIT_S, metavar="SECONDS", help=f"how long to wait (default: {_WAIT_S:.0f})"
    )
    for action in (status, purge, over):
        json_option(action)


def _run(options: argparse.Namespace) -> int:
    run_agent(
        state_folder(options),
        lambda device: configured_roles(device, sensors=not options.no_sensors, serves_mailbox=True),
    )
    return 0


def _status(device: Device, options: argparse.Namespace) -> None:
    from covey.app.operations.mailbox import mailbox_status

    status = mailbox_status(device)
    if options.json:
        print_json(to_json(status))
        return
    share = f"{size_text(status.bytes)} of {size_text(status.maximum_bytes)}"
    print(f"a mailbox of {count(status.groups, 'group')}: {count(status.blobs, 'envelope')}, {share}")
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


def _purge(device: Device, options: argparse.Namespace) -> None:
    from covey.app.operations.mailbox import purge

    if not options.json:
        whom = f"device {options.device}" if options.device else "everybody"
        confirm(f"let go of all that is kept for {whom}?", options.yes)
    gone = purge(device, options.device)
    if options.json:
        print_json({"purged": gone})
    else:
        print(f"{count(gone, 'envelope')} gone")


def _hand_over(device: Device, options: argparse.Namespace) -> int:
    from covey.app.operations.mailbox import hand_over, wait_handed_over

    labels = {each.keys.signing_public: each.label for g in device.node.groups.joined() for each in g.members}
    places = hand_over(device, options.device)
    left = wait_handed_over(device, places, options.wait)
    done = [each for each in places if each not in left]
    if options.json:
        print_json({"handed_over": [device_name(each) for each in done], "open": [device_name(each) for each in left]})
    else:
        for each in done:
            print(f"handed over: what waits for {labelled_name(device_name(each), labels.get(each, ''))}")
    if left:
        names = ", ".join(labelled_name(device_name(each), labels.get(each, "")) for each in left)
        print(f"error: no mailbox has answered yet for: {names}", file=sys.stderr)
        print("hint: it stays queued, and goes on; is the relay reached? covey status", file=sys.stderr)
        return 1
    return 0
