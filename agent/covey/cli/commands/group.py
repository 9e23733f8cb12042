"""`covey group`: create groups, and manage their members, admins and operators."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.checks.status import own_condition
from covey.app.device.device import Device
from covey.app.device.known_labels import namer
from covey.app.documents import to_json
from covey.app.groups import groups
from covey.app.groups.ban_targets import pick_target
from covey.app.groups.collectors import group_collectors
from covey.app.groups.groups import MODES, Decided, pick_member
from covey.app.groups.own import follows, set_fleet
from covey.app.groups.requests import SyncingGroup, syncing_groups
from covey.app.history.writing import describe_group, group_profile, read_picture
from covey.app.orders import fleet, group_moves, operators
from covey.app.wording import count
from covey.cli.device_options import on_device, open_device
from covey.cli.grammar import Actions, Parser, group_option, json_option, selector_option
from covey.cli.output.command_view import lacking
from covey.cli.output.group_view import (
    group_as_json,
    show_group,
    show_members,
    show_profile,
    show_readings_route,
)
from covey.cli.output.move_view import show_moves, show_ordered_move
from covey.cli.output.terminal import confirm, print_fields, print_json, print_table
from covey.cli.quantities import date_text
from covey.cli.scope import pick_scope, read_scope, scope_options
from covey.core.ids import DeviceKey, device_name, fingerprint, labelled_name, printable
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.app.orders.fleet import Scope
    from covey.core.group.device_labels import DeviceLabels
    from covey.core.group.manifest import GroupManifest


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions(default="list")
    create = actions.add("create", _create, "create a group with this device as its only member", examples=_CREATE)
    create.add_argument(
        "--mode", choices=MODES, default="invites-only", help="who may change the group (default: invites-only)"
    )
    create.add_argument("--with", dest="invited", metavar="KEY", help="one-to-one: signing key of the other device")
    _capability_option(create, "role of this device in the group, e.g. collector")
    listing = actions.add(
        "list", on_device(_list), "list this device's groups, and which belong to your fleet", also=["ls"]
    )
    actions.add("show", _show, "show a group, its members and its mode")
    actions.add("members", _members, "list the members with their fingerprints")
    actions.add("log", _log, "list every version of a group and its changes")
    diff = actions.add("diff", _diff, "show the changes since a version")
    diff.add_argument("--from", dest="since", type=int, metavar="VERSION", help="this version (default: the previous)")
    actions.add("uri", _uri, "print the URI by which any device can join a public group")
    newcomer = actions.add("add", _add, "add a device by its keys", examples=_ADD)
    newcomer.add_argument("keys", nargs=2, metavar="KEY", help="its two keys, as 'covey key show' prints them there")
    newcomer.add_argument("--label", help="name for people")
    _capability_option(newcomer, "role of the device in the group, e.g. collector")
    remove = actions.add("remove", _remove, "remove a member, and renew the group secret", also=["rm"])
    ban = actions.add("ban", _ban, "ban a member, device or invite (or vote to)")
    unban = actions.add("unban", _unban, "end a ban and readmit the device (or vote to)")
    unban.add_argument("--no-add", action="store_true", help="end the ban only; a new invite readmits the device")
    admin = actions.add("add-admin", _add_admin, "make a member an admin")
    actions.add("operators", on_device(_operators), "list the operators that this device obeys")
    operator = actions.add(
        "add-operator", on_device(_add_operator), "make a member an operator of all devices that obey this one"
    )
    operator.add_argument("--label", metavar="TEXT", help="name for people (default: the member's label)")
    former = actions.add("remove-operator", on_device(_remove_operator), "remove an operator from all these devices")
    actions.add("add-to-fleet", on_device(_add_to_fleet), "have --fleet include a group that others created")
    actions.add("remove-from-fleet", on_device(_remove_from_fleet), "have --fleet leave out a group")
    profile = actions.add("profile", _profile, "show or change a member's label and roles, or the group's title")
    profile.add_argument("device", nargs="?", metavar="DEVICE", help=f"{_MEMBER} (default: this device)")
    profile.add_argument("--label", help="new label")
    _capability_option(profile, "new role in the group, e.g. collector; '' for none")
    profile.add_argument("--title", metavar="TEXT", help="title of the group")
    profile.add_argument("--description", metavar="TEXT", help="description of the group")
    profile.add_argument("--avatar", metavar="FILE", help="picture of the group: PNG, JPEG, GIF, WebP or SVG")
    leave = actions.add("leave", _leave, "leave a group; only a new invite readmits this device")
    leave.add_argument(
        "--with", dest="other", metavar="DEVICE", help=f"every group with only this other member: {_LABEL_OR_KEY}"
    )
    leave.add_argument("--delete-now", action="store_true", help="delete keys and history before others know")
    destroy = actions.add("destroy", _destroy, "delete a group on all its devices, with keys and messages")
    _add_moves(actions)
    for action, what in (
        (remove, _MEMBER),
        (ban, "device or invite: label, fingerprint, start of key; invite URI or id"),
        (unban, "start of its key, or of an invite's id"),
        (admin, _MEMBER),
        (operator, _MEMBER),
        (former, f"operator: {_LABEL_OR_KEY}"),
    ):
        action.add_argument("device", metavar="DEVICE", help=what)
    for action in (remove, ban, leave, destroy):
        action.add_argument("--yes", action="store_true", help="do not ask")
    for action in dict.fromkeys(parser.actions.values()):
        if action not in {create, listing}:
            (scope_options if action is remove else group_option)(action)
        json_option(action)


def _add_moves(actions: Actions) -> None:
    """Add the actions that move members between groups."""
    split = actions.add(
        "split", on_device(_split), "move members to another group, with their readings", examples=_SPLIT
    )
    selector_option(split, None)
    merge = actions.add("merge", on_device(_merge), "move all members that can move to another group", examples=_MERGE)
    for action in (split, merge):
        action.add_argument("--into", required=True, metavar="GROUP", help="the other group: start of its id")
        action.add_argument("--yes", action="store_true", help="do not ask")
    moves = actions.add(
        "moves", on_device(_moves), "show ordered moves: the state of each device, and what it waits for"
    )
    moves.add_argument(
        "--continue", dest="continued", metavar="ORDER", help="complete a move here: its operator's device is lost"
    )


_LABEL_OR_KEY = "label, or start of key"
_MEMBER = f"member: {_LABEL_OR_KEY}"
_CREATE = ("covey group create --capability collector", "covey group create --mode one-to-one --with KEY")
_ADD = ("covey group add covey-sign-... covey-noise-... --label greenhouse",)

_SPLIT = ("covey group split --group 9c0f3a21 --into 51d0e8b7 --for label:greenhouse",)
_MERGE = ("covey group merge --group 9c0f3a21 --into 51d0e8b7",)


def _capability_option(parser: Parser, what: str) -> None:
    parser.add_argument("--capability", action="append", default=[], metavar="NAME", help=what)


def _create(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = groups.create_group(device, tuple(options.capability), options.mode, options.invited)
        _show_group(device, manifest, options)


def _list(device: Device, options: argparse.Namespace) -> None:
    found = fleet.listed_groups(device)
    if options.json:
        print_json([to_json(each) for each in found])
        return
    rows = [
        (
            each.group_id[:8],
            printable(each.title, 40),
            each.mode,
            str(each.members),
            printable(", ".join(each.collectors), 40) or "none",
            "yes" if each.operator else "",
            f"{'yes' if each.fleet else 'no'}: {each.why}",
        )
        for each in found
    ]
    print_table(["group", "title", "mode", "members", "collectors", "operator", "fleet"], rows)


def _add_to_fleet(device: Device, options: argparse.Namespace) -> None:
    _set_fleet(device, options, belongs=True)


def _remove_from_fleet(device: Device, options: argparse.Namespace) -> None:
    _set_fleet(device, options, belongs=False)


def _set_fleet(device: Device, options: argparse.Namespace, *, belongs: bool) -> None:
    group = device.pick_group(options.group)
    set_fleet(device, group, belongs=belongs)
    if options.json:
        print_json({"group_id": group.group_id.hex(), "fleet": belongs})
        return
    name = group.group_id.hex()[:8]
    if belongs:
        print(f"group {name} belongs to your fleet: all its members can read what you order with --fleet")
    else:
        print(f"group {name} is not part of your fleet: --fleet leaves it out")


def _show(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        named = options.group or ""
        syncing = [each for each in syncing_groups(device) if named and each.group_id.startswith(named)]
        if syncing and not any(each.group_id.hex().startswith(named) for each in device.node.groups.joined()):
            _show_syncing(syncing[0], as_json=options.json)
        else:
            _show_whole(device, device.pick_group(options.group), options)


def _show_whole(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    """Show a group, and which collectors and relays its readings use."""
    collectors = group_collectors(manifest, device.store.presence.silent_collectors())
    relays = [(each.url, each.state) for each in own_condition(device).relays]
    profile, labels = group_profile(device, manifest), groups.labels_in(device, manifest)
    votes, taker = groups.votes_in(device, manifest), device.node.groups.collector_of(manifest.group_id)
    own = "" if taker is None else taker.name
    if options.json:
        shown = group_as_json(manifest, profile, labels, votes)
        routes = [{"url": url, "state": state} for url, state in relays]
        print_json({**shown, "collectors": to_json(collectors), "own_collector": own or None, "relays": routes})
    else:
        show_group(manifest, profile, device.node.identity.signing_public, labels, votes)
        show_readings_route(collectors, relays, own)


def _show_syncing(group: SyncingGroup, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(group))
        return
    inviter = labelled_name(group.inviter[:8], group.label)
    print_fields({"group": group.group_id, "state": group.state, "invited by": inviter, "missing": group.missing})


def _show_group(device: Device, manifest: GroupManifest, options: argparse.Namespace) -> None:
    profile, labels = group_profile(device, manifest), groups.labels_in(device, manifest)
    votes = groups.votes_in(device, manifest)
    if options.json:
        print_json(group_as_json(manifest, profile, labels, votes))
    else:
        show_group(manifest, profile, device.node.identity.signing_public, labels, votes)


def _members(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        members = device.pick_group(options.group).members
        show_members(members, device.node.identity.signing_public, as_json=options.json)


def _log(options: argparse.Namespace) -> None:
    """Print every version and its changes."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        labels = groups.labels_in(device, manifest)
        for version in groups.history(device, manifest):
            _show_version(version, labels, as_json=options.json)


def _uri(options: argparse.Namespace) -> None:
    """Print the URI alone on stdout, for scripts, and the rest on stderr."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        uri, labels = groups.group_uri(device, manifest), groups.labels_in(device, manifest)
        members = ", ".join(labels.named(each.signing_public) for each in uri.contacts)
    if options.json:
        print_json({"group_id": manifest.group_id.hex(), "uri": uri.to_uri()})
        return
    print(uri.to_uri(), flush=True)
    print(f"not a secret: on any number of devices, while one of {members} is online: covey join URI", file=sys.stderr)
    print("print it again after these members renew their noise keys", file=sys.stderr)


def _diff(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        version = groups.changes_since(device, manifest, options.since)
        _show_version(version, groups.labels_in(device, manifest), as_json=options.json)


def _add(options: argparse.Namespace) -> None:
    """Add a device by its keys, and print the text that lets it accept the group."""
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        newcomer, invite = groups.add_device(device, manifest, options.keys, options.label, options.capability)
    mark = fingerprint(newcomer.keys.signing_public)
    if options.json:
        print_json({"device": newcomer.name, "fingerprint": mark, "uri": invite.to_uri()})
        return
    print(f"added {labelled_name(newcomer.name, newcomer.label)}, fingerprint {mark}", file=sys.stderr)
    if newcomer.is_board:
        return  # its gateway tells it
    print("only for that device; there run 'covey join -' and paste:", file=sys.stderr)
    print(invite.to_uri())


def _remove(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        scope = pick_scope(device, options.group, fleet=options.fleet)
        if scope.fleet:
            _remove_everywhere(device, scope, options)
            return
        [manifest] = scope.groups
        target = pick_member(manifest, options.device).keys.signing_public
        _confirm_going(device, manifest, target, options, "remove")
        _show_group(device, groups.change_group(device, manifest, groups.removal(target)), options)


def _remove_everywhere(device: Device, scope: Scope, options: argparse.Namespace) -> None:
    target, found = fleet.groups_of(scope, options.device)
    if target == device.node.identity.signing_public:
        raise LocalError("that is this device", hint="to leave a group: covey group leave --group GROUP")
    name = groups.labels_in(device, found[0]).named(target)
    places = f"{count(len(found), 'group')}: {', '.join(each.group_id.hex()[:8] for each in found)}"
    confirm(f"remove {name} from {places}?", options.yes)
    given = fleet.remove_everywhere(device, target, found, name)
    if options.json:
        print_json({"plan": given.plan, "removed": target.hex(), "groups": [each.group_id.hex() for each in found]})
    else:
        print(f"removed {name} from {places}")


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


def _add_admin(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        target = pick_member(manifest, options.device).keys.signing_public
        _show_group(device, groups.change_group(device, manifest, groups.promotion(target)), options)


def _operators(device: Device, options: argparse.Namespace) -> None:
    found = operators.operators(device, device.pick_group(options.group))
    if options.json:
        print_json([to_json(each) for each in found])
    elif not found:
        print(
            "this device obeys no operator; to obey one: covey config set operations.operators KEY, "
            "which 'covey key show' prints on the operator"
        )
    else:
        named = namer(device)
        rows = [
            (
                each.name,
                printable(each.label, 32),
                _origin(each, named),
                "" if each.member else "not a member: its orders are ignored",
            )
            for each in found
        ]
        print_table(["operator", "label", "why", ""], rows)


def _origin(entry: operators.OperatorEntry, named: Callable[[str], str]) -> str:
    if entry.origin == "configuration" or entry.since_us is None:
        return "pinned by the owner"
    said = "by the invite of" if entry.origin == "invite" else "added by"
    return f"{said} {named(entry.by)}, {date_text(entry.since_us)}"


def _add_operator(device: Device, options: argparse.Namespace) -> None:
    _print_change(
        operators.add_operator(device, device.pick_group(options.group), options.device, options.label), options
    )


def _remove_operator(device: Device, options: argparse.Namespace) -> None:
    _print_change(operators.remove_operator(device, device.pick_group(options.group), options.device), options)


def _print_change(entry: operators.OrderEntry, options: argparse.Namespace) -> None:
    if options.json:
        print_json(to_json(entry))
    elif entry.counts:
        print(f"{printable(entry.text, 80)}: valid on all devices that obey this one")
    else:
        print(f"{printable(entry.text, 80)}: {lacking(entry)}")


def _confirm_going(
    device: Device, manifest: GroupManifest, target: DeviceKey, options: argparse.Namespace, verb: str
) -> None:
    """Ask for confirmation before a device or invite is removed.

    Raises:
        LocalError: it is this device, or the person declined.
    """
    if target == device.node.identity.signing_public:
        raise LocalError("that is this device", hint="to leave the group: covey group leave")
    confirm(
        f"{verb} {groups.labels_in(device, manifest).named(target)} from group {manifest.group_id.hex()[:8]}?",
        options.yes,
    )


def _show_decided(device: Device, decided: Decided, options: argparse.Namespace) -> None:
    if needed := decided.needed:
        print(f"{decided.votes} of {count(needed, 'required vote')}", file=sys.stderr)
    _show_group(device, decided.group, options)


def _profile(options: argparse.Namespace) -> None:
    """Change the group's profile, or this device's record; without changes, print both."""
    of_group = any(each is not None for each in (options.title, options.description, options.avatar))
    if of_group and (options.device or options.label is not None or options.capability):
        raise UsageError("a member's profile and the group's cannot be changed together", hint="use two commands")
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
            raise UsageError("--with and --group exclude each other", hint="give one of them")
        else:
            left = groups.groups_with(device, options.other)
        names = ", ".join(each.group_id.hex()[:8] for each in left)
        everywhere = " Your other devices leave it too." if any(follows(device, each) for each in left) else ""
        confirm(f"leave group {names}? Only a new invite readmits this device.{everywhere}", options.yes)
        if not options.delete_now:
            groups.hand_over(device, left)
        groups.leave_groups(device, left, at_once=options.delete_now)
    if options.json:
        ids = [each.group_id.hex() for each in left]
        print_json({"left": ids[0] if options.other is None else ids})
    else:
        print(f"left group {names}; the other members learn of it when the relay is connected")


def _destroy(options: argparse.Namespace) -> None:
    with open_device(options) as device:
        manifest = device.pick_group(options.group)
        name, devices = manifest.group_id.hex()[:8], count(len(manifest.members), "device")
        confirm(f"destroy group {name} on {devices}, with all keys and messages?", options.yes)
        groups.destroy_group(device, manifest)
    if options.json:
        print_json({"destroying": manifest.group_id.hex()})
    else:
        print(f"destroying group {name}: the agent deletes it here once all members know, after one day at the latest")


def _split(device: Device, options: argparse.Namespace) -> None:
    if options.selector is None:
        raise UsageError("--for is missing: which members are to move?", hint="for example: --for label:greenhouse")
    _order_move(device, options, options.selector)


def _merge(device: Device, options: argparse.Namespace) -> None:
    _order_move(device, options, None)


def _order_move(device: Device, options: argparse.Namespace, selector: str | None) -> None:
    source, target = device.pick_group(options.group), device.pick_group(options.into)
    names = f"from group {source.group_id.hex()[:8]} to {target.group_id.hex()[:8]}"
    confirm(f"move {'all members' if selector is None else selector} {names}, with their readings?", options.yes)
    ordered = group_moves.order_move(device, source, target, selector)
    if options.json:
        print_json(to_json(ordered))
    else:
        show_ordered_move(ordered)


def _moves(device: Device, options: argparse.Namespace) -> None:
    found = read_scope(device, options.group, fleet=False).groups
    if options.continued is not None:
        group_moves.finish_here(device, group_moves.pick_move(device, found, options.continued))
    moves = group_moves.known_moves(device, found)
    if options.json:
        print_json([to_json(each) for each in moves])
    else:
        show_moves(moves, device.now().wall_us)


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
    ends = f", resolves a conflict of {len(manifest.prev)} versions" if len(manifest.prev) > 1 else ""
    print(f"version {manifest.version} by {labels.named(manifest.issuer)}{ends}: {'; '.join(words) or 'no change'}")
