"""`covey group`: create a group, see who is in it and how that came about, add, remove, ban, leave, destroy."""

from __future__ import annotations

import argparse
import sys

from covey.app.device import Device
from covey.app.operations import groups
from covey.app.operations.groups import mode_name, pick_member
from covey.cli.device_options import open_device
from covey.cli.group_view import group_as_json, show_group, show_members
from covey.cli.terminal import confirm, print_json
from covey.core.group.manifest import GroupManifest, Mode
from covey.core.group.policy import Action
from covey.core.ids import device_name, fingerprint
from covey.errors import LocalError, UsageError

_WORDS = {
    "add": (2, 2),
    "remove": (1, 1),
    "ban": (1, 1),
    "unban": (1, 1),
    "admin": (1, 1),
    "profile": (0, 1),
}
"""How many devices or keys an action names, at least and at most; the others name none."""

_CHANGES = {"remove", "ban", "unban", "admin", "profile"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "action",
        choices=[
            "create",
            "show",
            "members",
            "log",
            "diff",
            "add",
            "remove",
            "ban",
            "unban",
            "admin",
            "profile",
            "leave",
            "destroy",
        ],
    )
    parser.add_argument(
        "device",
        nargs="*",
        help="whom to remove, ban, unban, or whose profile: beginning of its key, or its label; "
        "add: its signing and noise key, as 'covey key show' prints them on it",
    )
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument(
        "--capability",
        action="append",
        default=[],
        help="create, add, profile: what the device does in the group, e.g. collector; '' for nothing",
    )
    parser.add_argument(
        "--mode", choices=[mode_name(mode) for mode in Mode], default="invites-only", help="create: who may change it"
    )
    parser.add_argument("--with", dest="invited", metavar="KEY", help="create, one-to-one: the other's signing key")
    parser.add_argument("--label", help="add, profile: the device's label")
    parser.add_argument("--from", dest="since", type=int, metavar="VERSION", help="diff: from this version on")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Do what the action says."""
    least, most = _WORDS.get(options.action, (0, 0))
    if not least <= len(options.device) <= most:
        wanted = {0: "no device", 1: "one device", 2: "two keys, which 'covey key show' prints on the new device"}[most]
        raise UsageError(f"{options.action} names {wanted}")
    with open_device(options) as device:
        own = device.node.identity.signing_public
        manifest = _create(device, options) if options.action == "create" else device.pick_group(options.group)
        if options.action in {"log", "diff"}:
            _history(device, manifest, options)
            return 0
        if options.action in {"leave", "destroy"}:
            _end(device, manifest, options)
            return 0
        if options.action == "add":
            _add(device, manifest, options)
            return 0
        if options.action in _CHANGES and _wants_change(options):
            manifest = _change(device, manifest, options)
    if options.action in {"members", "profile"}:
        members = manifest.members
        if options.action == "profile":
            members = (pick_member(manifest, options.device[0] if options.device else own.hex()),)
        show_members(members, own, as_json=options.json)
    elif options.json:
        print_json(group_as_json(manifest))
    else:
        show_group(manifest, own)
    return 0


def _create(device: Device, options: argparse.Namespace) -> GroupManifest:
    mode = Mode[options.mode.upper().replace("-", "_")]
    return groups.create_group(device, tuple(options.capability), mode, options.invited)


def _add(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    """Let a device in by its keys, and print what it needs to believe that."""
    newcomer, invite = groups.add_device(device, manifest, options.device, options.label, options.capability)
    mark = fingerprint(newcomer.keys.signing_public)
    if options.json:
        print_json({"device": newcomer.name, "fingerprint": mark, "uri": invite.to_uri()})
        return
    print(f"added {newcomer.name}, fingerprint {mark}", file=sys.stderr)
    print("on that device, and of use to no other: covey join -, and paste", file=sys.stderr)
    print(invite.to_uri())


def _wants_change(options: argparse.Namespace) -> bool:
    return options.action != "profile" or options.label is not None or bool(options.capability)


def _change(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> GroupManifest:
    named = options.device[0] if options.device else device.node.identity.signing_public.hex()
    if options.action == "unban":
        target = groups.pick_banned(manifest, named)
    else:
        target = pick_member(manifest, named).keys.signing_public
    if options.action in {"remove", "ban"}:
        if target == device.node.identity.signing_public:
            raise LocalError("that is this device", hint="covey group leave")
        confirm(f"{options.action} {device_name(target)} from group {manifest.group_id.hex()[:8]}?", options.yes)
    if options.action in {"ban", "unban"} and groups.votes_on(manifest, Action[options.action.upper()]):
        votes, needed = groups.vote(device, manifest, Action[options.action.upper()], target)
        print(f"{votes} of {needed} votes that are needed", file=sys.stderr)
        return device.node.membership.group(manifest.group_id)
    match options.action:
        case "remove":
            edit = groups.removal(target)
        case "ban":
            edit = groups.ban(target)
        case "unban":
            edit = groups.unban(target)
        case "admin":
            edit = groups.promotion(target)
        case _:
            edit = groups.profile(target, options.label, options.capability)
    return groups.change_group(device, manifest, edit)


def _end(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    name = manifest.group_id.hex()[:8]
    if options.action == "leave":
        confirm(f"leave group {name}? Only a new invite brings this device back.", options.yes)
        groups.leave_group(device, manifest)
        print(f"left group {name}; the others are told as soon as the relay is there")
        return
    confirm(
        f"destroy group {name} on all its {len(manifest.members)} devices, with their keys and messages?", options.yes
    )
    groups.destroy_group(device, manifest)
    print(f"destroying group {name}: the agent tells the others, and forgets when they know, at the latest in a day")


def _history(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    """Print every version, and what it changed; or what changed since one."""
    if options.action == "diff":
        versions = [groups.changes_since(device, manifest, options.since)]
    else:
        versions = groups.history(device, manifest)
    for version in versions:
        _show_version(version, as_json=options.json)


def _show_version(version: groups.Version, *, as_json: bool) -> None:
    manifest, change = version.manifest, version.change
    words = {
        "added": [device_name(key) for key in change.added],
        "removed": [device_name(key) for key in sorted(change.removed)],
        "banned": [device_name(key) for key in change.banned],
        "unbanned": [device_name(key) for key in sorted(change.unbanned)],
        "changed": [device_name(key) for key in sorted(change.touched)],
    }
    if as_json:
        issuer = device_name(manifest.issuer)
        print_json({"version": manifest.version, "issuer": issuer, "epoch": manifest.epoch} | words)
        return
    told = "; ".join(f"{verb} {', '.join(names)}" for verb, names in words.items() if names) or "nothing"
    ends = f", ends a conflict of {len(manifest.prev)}" if len(manifest.prev) > 1 else ""
    print(f"version {manifest.version} by {device_name(manifest.issuer)}{ends}: {told}")
