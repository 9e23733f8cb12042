"""`covey requests`: list, accept or decline invitations to further groups."""

from __future__ import annotations

import argparse

from covey.app.device import Device
from covey.app.operations.joining import (
    accept_invitation,
    decline_invitation,
    pick_invitation,
    waiting_invitations,
)
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.joining_view import wait_for_group
from covey.cli.terminal import print_json, print_table
from covey.core.ids import device_name, printable
from covey.core.pairing.records import GroupRequest


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    actions.add("list", _list, "list the invitations that wait for an answer", also=["ls"])
    accept = actions.add("accept", _accept, "accept an invitation, and wait for the group")
    decline = actions.add("decline", _decline, "decline an invitation; nobody is told")
    for action in (accept, decline):
        action.add_argument("group", nargs="?", metavar="ID", help="beginning of the group's id, where several wait")
    accept.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait (default: 600)"
    )
    accept.add_argument("--no-wait", action="store_true", help="do not wait for the group; an agent must be running")
    for action in dict.fromkeys(parser.actions.values()):
        json_option(action)


def _list(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        _show(device, waiting_invitations(device), as_json=options.json)


def _accept(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        request = pick_invitation(waiting_invitations(device), options.group)
        accept_invitation(device, request)
        if options.no_wait:
            return 0
        return wait_for_group(device, request.group_id, options.timeout, as_json=options.json)


def _decline(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        request = pick_invitation(waiting_invitations(device), options.group)
        decline_invitation(device, request)
    if options.json:
        print_json({"declined": request.group_id.hex()})
    else:
        print("declined; nobody is told")


def _show(device: Device, requests: list[GroupRequest], *, as_json: bool) -> None:
    known = {
        member.keys.signing_public: member.label
        for group in device.node.membership.groups()
        for member in group.members
    }
    now_us = device.now().wall_us
    if as_json:
        print_json(
            [
                {
                    "group_id": each.group_id.hex(),
                    "inviter": each.inviter.signing_public.hex(),
                    "label": known.get(each.inviter.signing_public, ""),
                    "received_at_us": each.received_at_us,
                    "expires_at_us": each.expires_at_us,
                }
                for each in requests
            ]
        )
        return
    rows = []
    for each in requests:
        key = each.inviter.signing_public
        hours = (each.expires_at_us - now_us) // 3_600_000_000
        rows.append((each.group_id.hex()[:8], f"{device_name(key)} {printable(known.get(key, ''))}", f"{hours} h"))
    print_table(("GROUP", "INVITED BY", "ENDS IN"), rows)
