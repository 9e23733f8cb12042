"""`covey request`: list, accept or decline invitations to further groups, or ask for one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import UTC, datetime

from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.app.groups.requests import (
    WaitingInvitation,
    accept_invitation,
    addressed_groups,
    ask_for_invitation,
    asking_devices,
    decline_invitation,
    declined_groups,
    reconsider_group,
    syncing_groups,
    waiting_invitations,
)
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, json_option, seconds_option
from covey.cli.output.joining_view import wait_for_group
from covey.cli.output.terminal import print_json, print_table
from covey.core.ids import labelled_name, printable


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    listing = actions.add("list", on_device(_list), "list invitations that wait for an answer", also=["ls"])
    listing.add_argument("--declined", action="store_true", help="list declined groups instead")
    accept = actions.add("accept", on_device(_accept), "accept an invitation, and wait for the group")
    decline = actions.add("decline", on_device(_decline), "decline a group permanently; the inviter is not notified")
    reconsider = actions.add("reconsider", on_device(_reconsider), "allow invitations to a declined group again")
    ask = actions.add("ask", on_device(_ask), "ask to be invited to a group that addresses this device")
    for action in (accept, decline, reconsider, ask):
        action.add_argument("group", nargs="?", metavar="ID", help="start of the group's id (needed if several wait)")
    for action, what in ((accept, "accept the invitation of this member"), (ask, "ask this member")):
        action.add_argument("--from", dest="member", metavar="DEVICE", help=f"{what} (needed if several wait)")
    seconds_option(accept, "--timeout", "time to wait (default: 600)", 600.0)
    accept.add_argument("--no-wait", action="store_true", help="do not wait for the group; an agent must be running")
    every_action(parser, json_option)


def _list(device: Device, options: argparse.Namespace) -> None:
    if options.declined:
        _list_declined(device, as_json=options.json)
        return
    waiting, syncing = waiting_invitations(device), syncing_groups(device)
    addressed, asking = addressed_groups(device), asking_devices(device)
    if options.json:
        others = map(to_json, (*syncing, *addressed, *asking))
        print_json([*({**to_json(each), "state": "waiting"} for each in waiting), *others])
        return
    for group in syncing:
        who = labelled_name(group.inviter[:8], group.label)
        print(f"syncing  {group.group_id[:8]}, invited by {who}; missing: {group.missing}")
    several = Counter(each.group_id for each in addressed)
    for unknown in addressed:
        named = unknown.group_id[:8]
        choice = f"{named} --from {unknown.author[:8]}" if several[unknown.group_id] > 1 else named
        who = labelled_name(unknown.author[:8], unknown.label)
        done = f"invitation requested {_age(device, unknown.asked_at_us)} ago" if unknown.asked_at_us else ""
        how = done or f"to join: covey request ask {choice}"
        print(f"unknown  {named}: {who} addresses this device in it; {how}")
    for asks in asking:
        named, key = asks.group_id[:8], asks.device[:8]
        who = labelled_name(key, asks.label)
        print(f"asks  {who} asks to be invited to group {named}: covey invite --to {key} --group {named}")
    if not waiting:
        print("no invitations")
        return
    now_us = device.now().wall_us
    rows = [
        (
            f"{each.group_id[:8]} {printable(each.title)}".rstrip(),
            labelled_name(each.inviter[:8], each.label),
            _members(each),
            f"{(each.expires_at_us - now_us) // 3_600_000_000} h",
        )
        for each in waiting
    ]
    print_table(["group", "invited by", "members", "expires in"], rows)
    for each in waiting:
        for line in each.description.splitlines():
            print(f"{each.group_id[:8]}  {printable(line)}")
        if each.picture is not None:
            print(f"{each.group_id[:8]}  picture: {printable(each.picture.mime)}; --json has it")


def _age(device: Device, at_us: int) -> str:
    return f"{max(0, device.now().wall_us - at_us) // 60_000_000} min"


def _members(invitation: WaitingInvitation) -> str:
    """Return the number of members, and those that the inviter names."""
    if invitation.members is None:
        return "-"
    shown = ", ".join(printable(each.label) or each.name for each in invitation.shown)
    more = "" if len(invitation.shown) >= invitation.members else ", …"
    return f"{invitation.members}: {shown}{more}"


def _list_declined(device: Device, *, as_json: bool) -> None:
    declined = declined_groups(device)
    if as_json:
        print_json([to_json(each) for each in declined])
    elif not declined:
        print("no declined groups")
    else:
        rows = [
            (each.group_id[:8], f"{datetime.fromtimestamp(each.declined_at_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC")
            for each in declined
        ]
        print_table(["group", "declined"], rows)


def _accept(device: Device, options: argparse.Namespace) -> int:
    group_id = accept_invitation(device, options.group, options.member)
    if not options.no_wait:
        return wait_for_group(device, group_id, options.timeout, as_json=options.json)
    if options.json:
        print_json({"accepted": group_id.hex()})
    else:
        print("accepted; the agent joins the group", file=sys.stderr)
    return 0


def _decline(device: Device, options: argparse.Namespace) -> None:
    group_id, is_own = decline_invitation(device, options.group)
    if options.json:
        print_json({"declined": group_id.hex()})
    elif is_own:
        print("declined; the devices are not notified, and further requests of theirs stay hidden for a week")
    else:
        undo = f"covey request reconsider {group_id.hex()[:8]}"
        print(f"declined; the inviter is not notified, and new invitations stay hidden. To undo: {undo}")


def _ask(device: Device, options: argparse.Namespace) -> None:
    asked = ask_for_invitation(device, options.group, options.member)
    if options.json:
        print_json({"asked": asked.group_id, "member": asked.author})
    else:
        who = labelled_name(asked.author[:8], asked.label)
        print(
            f"asked {who} for an invitation to group {asked.group_id[:8]}; when it comes: covey request",
            file=sys.stderr,
        )


def _reconsider(device: Device, options: argparse.Namespace) -> None:
    group_id = reconsider_group(device, options.group)
    if options.json:
        print_json({"reconsidered": group_id.hex()})
    else:
        print("invitations to this group are shown again; to list them: covey request")
