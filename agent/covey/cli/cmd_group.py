"""`covey group`: create a group, see who is in it and how that came about, add, remove, ban, leave, destroy."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.groups import groups
from covey.app.groups.ban_targets import pick_target
from covey.app.groups.groups import MODES, Decided, pick_member
from covey.app.groups.own import follows
from covey.app.history.writing import describe_group, group_profile, read_picture
from covey.app.wording import count
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.group_view import group_as_json, show_group, show_members, show_profile
from covey.cli.terminal import confirm, print_json
from covey.core.ids import DeviceKey, device_name, fingerprint, labelled_name
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.device_labels import DeviceLabels
    from covey.core.group.manifest import GroupManifest


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    create = actions.add("create", _create, "make a group with this device alone in it", examples=_CREATE_EXAMPLES)
    create.add_argument(
        "--mode",
        choices=MODES,
        default="invites-only",
        help="who may change the group (default: invites-only)",
    )
    create.add_argument("--with", dest="invited", metavar="KEY", help="one-to-one: the other device's signing key")
    _capability_option(create, "what this device does in the group, e.g. collector")
    for name, act, summary in (
        ("show", _show, "show a group, its members and its mode"),
        ("members", _members, "show who is in a group, with their fingerprints"),
        ("log", _log, "show every version of a group, and what it changed"),
        ("uri", _uri, "print what any device joins a public group with"),
    ):
        group_option(actions.add(name, act, summary))
    diff = actions.add("diff", _diff, "show what changed since a version")
    diff.add_argument(
        "--from", dest="since", type=int, metavar="VERSION", help="this version (default: the one before)"
    )
    newcomer = actions.add("add", _add, "let a device in by its keys", examples=_ADD_EXAMPLES)
    newcomer.add_argument("keys", nargs=2, metavar="KEY", help="its two keys, as 'covey key show' prints them on it")
    newcomer.add_argument("--label", help="a name for people")
    _capability_option(newcomer, "what it does in the group, e.g. collector")
    for name, act, summary in (
        ("remove", _remove, "remove a member, and draw a new group secret"),
        ("ban", _ban, "let a member, another device or an invite in no more; or vote for that"),
        ("unban", _unban, "end a ban, and let the device in again as it was; or vote for that"),
        ("admin", _admin, "make a member an admin"),
    ):
        action = actions.add(name, act, summary)
        whom = _WHOM.get(name, "a member: beginning of its key, or its label")
        action.add_argument("device", metavar="DEVICE", help=whom)
        if name in {"remove", "ban"}:
            _yes_option(action)
        if name == "unban":
            action.add_argument("--no-add", action="store_true", help="only end the ban: a new invite lets it in")
    profile = actions.add(
        "profile", _profile, "show or change a member's label and capabilities, or describe the group itself"
    )
    profile.add_argument(
        "device", nargs="?", metavar="DEVICE", help="another member: beginning of its key, or its label"
    )
    profile.add_argument("--label", help="its new label")
    _capability_option(profile, "what it does in the group from now on, e.g. collector; '' for nothing")
    profile.add_argument("--title", metavar="TEXT", help="the group: what it is called")
    profile.add_argument("--description", metavar="TEXT", help="the group: what it is for")
    profile.add_argument("--avatar", metavar="FILE", help="the group: its picture, PNG, JPEG, GIF, WebP or SVG")
    for name, act, summary in (
        ("leave", _leave, "leave a group; only a new invite brings this device back"),
        ("destroy", _destroy, "erase a group on all its devices, with its keys and messages"),
    ):
        going = actions.add(name, act, summary)
        _yes_option(going)
        if name == "leave":
            going.add_argument(
                "--with",
                dest="other",
                metavar="DEVICE",
                help="every group of yours with this device alone: its label, or the beginning of its key",
            )
            going.add_argument("--erase", action="store_true", help="erase keys and history before anybody knows")
    for name, action in parser.actions.items():
        if name not in {"create", "show", "members", "log", "uri"}:
            group_option(action)
        json_option(action)


_WHOM = {
    "unban": "beginning of its key, or of an invite's id",
    "ban": "label, fingerprint or beginning of its key; also a device that is no member, or an invite: its URI or id",
}
_CREATE_EXAMPLES = ("covey group create --capability collector", "covey group create --mode one-to-one --with KEY")
_ADD_EXAMPLES = ("covey group add covey-sign-... covey-noise-... --label greenhouse",)


def _capability_option(parser: Parser, what: str) -> None:
    parser.add_argument("--capability", action="append", default=[], metavar="NAME", help=what)


def _yes_option(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _create(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = groups.create_group(device, tuple(options.capability), options.mode, options.invited)
        _show_group(device, manifest, options)


def _show(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        _show_group(device, device.pick_group(options.group), options)


def _show_group(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    profile, labels = group_profile(device, manifest), groups.labels_in(device, manifest)
    if options.json:
        print_json(group_as_json(manifest, profile, labels))
    else:
        show_group(manifest, profile, device.node.identity.signing_public, labels)


def _members(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        members = device.pick_group(options.group).members
        show_members(members, device.node.identity.signing_public, as_json=options.json)


def _log(options: argparse.Namespace) -> None:
    """Print every version, and what it changed."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        labels = groups.labels_in(device, manifest)
        for version in groups.history(device, manifest):
            _show_version(version, labels, as_json=options.json)


def _uri(options: argparse.Namespace) -> None:
    """Print the URI on stdout, as scripts want it, and the rest where a person reads."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        uri, labels = groups.group_uri(device, manifest), groups.labels_in(device, manifest)
        members = ", ".join(labels.named(each.signing_public) for each in uri.contacts)
    if options.json:
        print_json({"group_id": manifest.group_id.hex(), "uri": uri.to_uri()})
        return
    print(uri.to_uri(), flush=True)
    print(f"no secret: covey join URI, on any number of devices, while one of {members} is there", file=sys.stderr)
    print("print it anew when they have other noise keys", file=sys.stderr)


def _diff(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        version = groups.changes_since(device, manifest, options.since)
        _show_version(version, groups.labels_in(device, manifest), as_json=options.json)


def _add(options: argparse.Namespace) -> None:
    """Let a device in by its keys, and print what it needs to believe that."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        newcomer, invite = groups.add_device(device, manifest, options.keys, options.label, options.capability)
    mark = fingerprint(newcomer.keys.signing_public)
    if options.json:
        print_json({"device": newcomer.name, "fingerprint": mark, "uri": invite.to_uri()})
        return
    print(f"added {labelled_name(newcomer.name, newcomer.label)}, fingerprint {mark}", file=sys.stderr)
    print("on that device, and of use to no other: covey join -, and paste", file=sys.stderr)
    print(invite.to_uri())


def _remove(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        target = pick_member(manifest, options.device).keys.signing_public
        _confirm_going(device, manifest, target, options, "remove")
        _show_group(device, groups.change_group(device, manifest, groups.removal(target)), options)


def _ban(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        target = pick_target(device, manifest, options.device)
        _confirm_going(device, manifest, target, options, "ban")
        _show_decided(device, groups.ban_device(device, manifest, target), options)


def _unban(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        target = groups.pick_banned(manifest, options.device)
        _show_decided(device, groups.unban_device(device, manifest, target, readmit=not options.no_add), options)


def _admin(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        target = pick_member(manifest, options.device).keys.signing_public
        _show_group(device, groups.change_group(device, manifest, groups.promotion(target)), options)


def _confirm_going(
    device: Device, manifest: GroupManifest, target: DeviceKey, options: argparse.Namespace, verb: str
) -> None:
    """Ask whether the device or invite is to go.

    Raises:
        LocalError: it is this device, or the person does not agree.
    """
    if target == device.node.identity.signing_public:
        raise LocalError("that is this device", hint="covey group leave")
    confirm(
        f"{verb} {groups.labels_in(device, manifest).named(target)} from group {manifest.group_id.hex()[:8]}?",
        options.yes,
    )


def _show_decided(device: Device, decided: Decided, options: argparse.Namespace) -> None:
    if needed := decided.needed:
        verb = "is" if needed == 1 else "are"
        print(f"{decided.votes} of {count(needed, 'vote')} that {verb} needed", file=sys.stderr)
    _show_group(device, decided.group, options)


def _profile(options: argparse.Namespace) -> None:
    """Change what is named, then show it; where nothing is named, what the group is called and this device's record."""
    of_group = any(each is not None for each in (options.title, options.description, options.avatar))
    if of_group and (options.device or options.label is not None or options.capability):
        raise UsageError("a member and the group are changed one after the other", hint="two commands")
    if of_group:
        _describe(options)
        return
    with open_device(options) as device:
        own = device.node.identity.signing_public
        manifest = device.pick_group(options.group)
        named = options.device or own.hex()
        target = pick_member(manifest, named).keys.signing_public
        if options.label is not None or options.capability:
            change = groups.profile(target, options.label, options.capability)
            manifest = groups.change_group(device, manifest, change)
        elif not options.device and not options.json:
            show_profile(manifest, group_profile(device, manifest))
    show_members((pick_member(manifest, target.hex()),), own, as_json=options.json)


def _describe(options: argparse.Namespace) -> None:
    avatar = None if options.avatar is None else read_picture(options.avatar)
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        describe_group(device, manifest, options.title, options.description, avatar)
        _show_group(device, manifest, options)


def _leave(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        if options.other is None:
            left = [device.pick_group(options.group)]
        elif options.group is not None:
            raise UsageError("--with means groups by who is in them", hint="either --with or --group")
        else:
            left = groups.groups_with(device, options.other)
        names = ", ".join(each.group_id.hex()[:8] for each in left)
        everywhere = " Your other devices leave it, too." if any(follows(device, each) for each in left) else ""
        confirm(f"leave group {names}? Only a new invite brings this device back.{everywhere}", options.yes)
        if not options.erase:
            groups.hand_over(device, left)
        groups.leave_groups(device, left, at_once=options.erase)
    if options.json:
        ids = [each.group_id.hex() for each in left]
        print_json({"left": ids[0] if options.other is None else ids})
    else:
        print(f"left group {names}; the others are told as soon as the relay is there")


def _destroy(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        name, devices = manifest.group_id.hex()[:8], count(len(manifest.members), "device")
        confirm(f"destroy group {name} on {devices}, with all keys and messages?", options.yes)
        groups.destroy_group(device, manifest)
    if options.json:
        print_json({"destroying": manifest.group_id.hex()})
    else:
        print(
            f"destroying group {name}: the agent tells the others, and forgets when they know, at the latest in a day"
        )


def _show_version(version: groups.Version, labels: DeviceLabels, *, as_json: bool) -> None:
    manifest, change = version.manifest, version.change
    changed = {
        "added": list(change.added),
        "removed": sorted(change.removed),
        "banned": list(change.banned),
        "unbanned": sorted(change.unbanned),
        "changed": sorted(change.touched),
    }
    if as_json:
        meant = (manifest.issuer, *(key for keys in changed.values() for key in keys))
        print_json(
            {"version": manifest.version, "issuer": device_name(manifest.issuer), "epoch": manifest.epoch}
            | {verb: [device_name(key) for key in keys] for verb, keys in changed.items()}
            | {"labels": {device_name(key): labels.label(key) for key in meant}}
        )
        return
    words = (f"{verb} {', '.join(map(labels.named, keys))}" for verb, keys in changed.items() if keys)
    ends = f", ends a conflict of {len(manifest.prev)}" if len(manifest.prev) > 1 else ""
    print(f"version {manifest.version} by {labels.named(manifest.issuer)}{ends}: {'; '.join(words) or 'nothing'}")
