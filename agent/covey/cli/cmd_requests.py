"""`covey requests`: list, accept or decline invitations to further groups."""

from __future__ import annotations

import argparse
import sys

from covey.app.device import Device
from covey.app.documents import to_json
from covey.app.operations.joining import accept_invitation, decline_invitation, waiting_invitations
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, json_option
from covey.cli.joining_view import wait_for_group
from covey.cli.terminal import print_json, print_table
from covey.core.ids import printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", on_device(_list), "list the invitations that wait for an answer", also=["ls"])
    accept = actions.add("accept", on_device(_accept), "accept an invitation, and wait for the group")
    decline = actions.add("decline", on_device(_decline), "decline an invitation; nobody is told")
    for action in (accept, decline):
        action.add_argument("group", nargs="?", metavar="ID", help="beginning of the group's id, where several wait")
    accept.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait (default: 600)"
    )
    accept.add_argument("--no-wait", action="store_true", help="do not wait for the group; an agent must be running")
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)


def _list(device: Device, options: argparse.Namespace) -> None:
    waiting = waiting_invitations(device)
    if options.json:
        print_json([to_json(each) for each in waiting])
        return
    if not waiting:
        print("no invitation waits")
        return
    now_us = device.now().wall_us
    rows = [
        (
            each.group_id[:8],
            f"{each.inviter[:8]} {printable(each.label)}".rstrip(),
            f"{(each.expires_at_us - now_us) // 3_600_000_000} h",
        )
        for each in waiting
    ]
    print_table(["group", "invited by", "ends in"], rows)


def _accept(device: Device, options: argparse.Namespace) -> int:
    group_id = accept_invitation(device, options.group)
    if not options.no_wait:
        return wait_for_group(device, group_id, options.timeout, as_json=options.json)
    if options.json:
        print_json({"accepted": group_id.hex()})
    else:
        print("accepted; the agent goes on with it", file=sys.stderr)
    return 0


def _decline(device: Device, options: argparse.Namespace) -> None:
    group_id = decline_invitation(device, options.group)
    if options.json:
        print_json({"declined": group_id.hex()})
    else:
        print("declined; nobody is told")
