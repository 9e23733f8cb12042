"""`covey own`: a person's own devices, the groups and preferences that they share."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.device.known_labels import namer
from covey.app.device.pins import NOBODY
from covey.app.documents import to_json
from covey.app.groups import own
from covey.app.groups.groups import pick_member
from covey.cli.commands.invite import invite_device
from covey.cli.commands.join import join
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, every_action, json_option, seconds_option
from covey.cli.output.terminal import confirm, print_json, print_table, read_text_file
from covey.cli.quantities import date_text
from covey.core.ids import GroupId, labelled_name, printable
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="devices")
    actions.add("devices", on_device(_devices), "list your devices and when each was last seen", also=["list", "ls"])
    actions.add("create", on_device(_create), "create the group of your devices, with this one as the only member")
    link = actions.add(
        "link",
        on_device(_link),
        "add a device: run it here to get a code, then there with the code",
        examples=("covey own link", "covey own link CODE --relay mqtts://HOST"),
    )
    link.add_argument(
        "code",
        nargs="?",
        metavar="CODE",
        help="code that 'covey own link' shows on the other device; - is stdin",
    )
    link.add_argument(
        "--yes", action="store_true", help="without a code: admit the device that knows it without asking"
    )
    link.add_argument("--no-wait", action="store_true", help="without a code: do not wait; an agent must be running")
    link.add_argument("--no-qr", action="store_true", help="without a code: do not show a QR code")
    link.add_argument("--relay", metavar="URL", help="with a code: relay to use: mqtts://HOST[:PORT]")
    link.add_argument(
        "--ca-file", "--ca", metavar="FILE", help="PEM file of the CA that signed the relay's certificate"
    )
    link.add_argument(
        "--enrolment-password-file", metavar="FILE", help="file with the relay's shared password, if it was changed"
    )
    seconds_option(link, "--timeout", "with a code: time to wait (default: 600)", 600.0)
    retire = actions.add(
        "retire",
        on_device(_retire),
        "remove an old device from every group",
        examples=("covey own retire phone",),
    )
    retire.add_argument("device", metavar="DEVICE", help="device to remove: label, or start of key")
    retire.add_argument("--yes", "-y", action="store_true", help="without asking")
    actions.add("groups", on_device(_groups), "list the groups that your devices are in or have left")
    preference = actions.add(
        "preference",
        on_device(_preference),
        "list preferences, or set one for all your devices",
        examples=("covey own preference theme dark", "covey own preference muted yes --group 3f"),
    )
    preference.add_argument("name", nargs="?", metavar="NAME", help="name of the preference")
    preference.add_argument("value", nargs="?", metavar="VALUE", help="value to set")
    preference.add_argument("--group", metavar="ID", help="only for this group: start of its id")
    preference.add_argument("--unset", action="store_true", help="unset it on all your devices")
    every_action(parser, json_option)


def _devices(device: Device, options: argparse.Namespace) -> None:
    found = own.own(device)
    if options.json:
        print_json([to_json(each) for each in found.devices])
        return
    rows = [
        (
            each.device,
            printable(each.label, 32),
            each.presence or "this device",
            "" if each.this else "never" if each.seen_at_us is None else date_text(each.seen_at_us),
            str(len(each.groups)),
        )
        for each in found.devices
    ]
    print_table(["device", "label", "presence", "last seen", "groups"], rows)


def _create(device: Device, options: argparse.Namespace) -> None:
    made = own.create_personal(device)
    if options.json:
        print_json({"group_id": made.group_id.hex()})
    else:
        print(f"created group {made.group_id.hex()[:8]} for your own devices; this is the only one so far")
        print("next: covey own link", file=sys.stderr)


def _link(device: Device, options: argparse.Namespace) -> int:
    if options.code is None:
        options.group, options.capability, options.operator = own.personal_group(device).group_id.hex(), [], [NOBODY]
        return invite_device(device, options, "covey own link")
    own.check_unlinked(device)
    options.obey, options.obey_nobody = False, True
    code = join(device, options, read_text_file("-").strip() if options.code == "-" else options.code, personal=True)
    pinned: GroupId | None = device.store.personal.pinned()
    device.node.refresh()
    if code == 0 and pinned is not None:
        own.check_linked(device, pinned)
    return code


def _retire(device: Device, options: argparse.Namespace) -> None:
    member = pick_member(own.personal_group(device), options.device)
    if member.keys.signing_public == device.node.identity.signing_public:
        raise LocalError("that is this device", hint="run 'covey own retire' on a device that you keep")
    name = labelled_name(member.name, member.label)
    confirm(f"remove {name} from your own devices and from every group?", options.yes)
    found = own.retire(device, member.keys.signing_public)
    if options.json:
        out, listed = (each.group_id.hex() for each in found.out), (each.group_id.hex() for each, _ in found.listed)
        print_json({"device": member.name, "out": list(out), "groups": list(listed)})
        return
    print(f"removed {name} from your own devices")
    for group in found.out:
        print(f"removed it from group {group.group_id.hex()[:8]}")
    for group, helps in found.listed:
        print(f"still a member of group {group.group_id.hex()[:8]}: {helps}")


def _groups(device: Device, options: argparse.Namespace) -> None:
    found = own.own(device).groups
    if options.json:
        print_json([to_json(each) for each in found])
        return
    named = namer(device)
    rows = [
        (
            each.group_id[:8],
            printable(each.title, 40),
            each.state,
            "member" if each.member else "",
            f"{named(each.by)}, {date_text(each.made_at_us)}",
        )
        for each in found
    ]
    print_table(["group", "title", "state", "this device", "changed by"], rows)


def _preference(device: Device, options: argparse.Namespace) -> None:
    if options.unset and (options.name is None or options.value is not None):
        raise UsageError("--unset takes a name without a value", hint="covey own preference --unset NAME")
    if options.value is not None or options.unset:
        said = own.set_preference(device, options.name, options.value, options.group)
        if options.json:
            print_json(None if said is None else to_json(said))
        else:
            what = "unset" if said is None else printable(said.value)
            print(f"{printable(options.name)}: {what}, on all your devices")
        return
    found = [
        each
        for each in own.own(device).preferences
        if options.name in {None, each.key}
        and (options.group is None or (each.group_id or "").startswith(options.group.lower()))
    ]
    if options.json:
        print_json([to_json(each) for each in found])
    else:
        rows = [((each.group_id or "all")[:8], printable(each.key, 64), printable(each.value, 80)) for each in found]
        print_table(["group", "name", "value"], rows)
