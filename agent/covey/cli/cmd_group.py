"""`covey group`: create a group, see who is in it and how that came about, add, remove, ban, leave, destroy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from covey.app.session import Session, confirm, open_session, print_json, print_table
from covey.core.crypto import DeviceKeys
from covey.core.group.manifest import GroupManifest, Member, Mode, Role, read_manifest
from covey.core.group.policy import Action
from covey.core.group.resolver import Change, GroupState, difference
from covey.core.ids import device_name, fingerprint, key_from_text, printable, truncate_utf8
from covey.core.membership.invitations import check_capabilities
from covey.core.membership.voting import VOTING_MODES
from covey.errors import LocalError, MalformedError, UsageError
from covey.limits import MAXIMUM_LABEL_BYTES

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


def mode_name(mode: Mode) -> str:
    """Return a mode as people write it."""
    return mode.name.lower().replace("_", "-")


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
    with open_session(options) as session:
        own = session.node.identity.signing_public
        manifest = _create(session, options) if options.action == "create" else session.pick_group(options.group)
        if options.action in {"log", "diff"}:
            _history(session, manifest, options)
            return 0
        if options.action in {"leave", "destroy"}:
            _end(session, manifest, options)
            return 0
        if options.action == "add":
            add(session, manifest, options)
            return 0
        if options.action in _CHANGES and _wants_change(options):
            manifest = _change(session, manifest, options)
    if options.action in {"members", "profile"}:
        members = manifest.members
        if options.action == "profile":
            members = (pick_member(manifest, options.device[0] if options.device else own.hex()),)
        show_members(members, own, options)
    elif options.json:
        print_json(as_json(manifest))
    else:
        show(manifest, own)
    return 0


def _create(session: Session, options: argparse.Namespace) -> GroupManifest:
    mode = Mode[options.mode.upper().replace("-", "_")]
    try:
        invited = key_from_text("sign", options.invited) if options.invited else None
    except MalformedError as error:
        raise UsageError(
            f"--with: {error}", hint="'covey key show' on the other device prints its signing key"
        ) from error
    if (invited is not None) != (mode is Mode.ONE_TO_ONE):
        raise UsageError("--with names the other device of a one-to-one group, and only of such a one")
    with session.store.transaction():
        return session.node.membership.create(
            session.config.label, tuple(options.capability), session.now().wall_us, mode, invited
        )


def add(session: Session, manifest: GroupManifest, options: argparse.Namespace) -> None:
    """Let a device in by its keys, and print what it needs to believe that."""
    texts = {text.split("-")[1]: text for text in options.device if text.count("-") >= 2}
    try:
        keys = DeviceKeys(key_from_text("sign", texts.get("sign", "")), key_from_text("noise", texts.get("noise", "")))
    except MalformedError as error:
        raise UsageError(f"{error}", hint="'covey key show' on the new device prints its two keys") from error
    newcomer = Member(
        keys, truncate_utf8(options.label or "", MAXIMUM_LABEL_BYTES), capabilities=_capabilities(options)
    )
    with session.store.transaction():
        invite = session.node.add_device(manifest.group_id, newcomer, session.config.relay.url, session.now())
    if options.json:
        print_json({"device": newcomer.name, "fingerprint": fingerprint(keys.signing_public), "uri": invite.to_uri()})
        return
    print(f"added {newcomer.name}, fingerprint {fingerprint(keys.signing_public)}", file=sys.stderr)
    print("on that device, and of use to no other: covey join -, and paste", file=sys.stderr)
    print(invite.to_uri())


def _capabilities(options: argparse.Namespace) -> tuple[str, ...]:
    return check_capabilities(tuple(each for each in options.capability if each))


def _with_profile(member: Member, options: argparse.Namespace) -> Member:
    if options.label is not None:
        member = replace(member, label=truncate_utf8(options.label, MAXIMUM_LABEL_BYTES))
    return replace(member, capabilities=_capabilities(options)) if options.capability else member


def _wants_change(options: argparse.Namespace) -> bool:
    return options.action != "profile" or options.label is not None or bool(options.capability)


def _change(session: Session, manifest: GroupManifest, options: argparse.Namespace) -> GroupManifest:
    named = options.device[0] if options.device else session.node.identity.signing_public.hex()
    if options.action == "unban":
        target = _one_of([ban.signing_public for ban in manifest.banned], named, "banned device")
    else:
        target = pick_member(manifest, named).keys.signing_public
    if options.action in {"remove", "ban"}:
        own = target == session.node.identity.signing_public
        if own:
            raise LocalError("that is this device", hint="covey group leave")
        confirm(f"{options.action} {device_name(target)} from group {manifest.group_id.hex()[:8]}?", options.yes)

    if manifest.mode in VOTING_MODES and options.action in {"ban", "unban"}:
        with session.store.transaction():
            voting = session.node.vote(manifest.group_id, Action[options.action.upper()], target, session.now())
        print(f"{voting.votes} of {voting.needed} votes that are needed", file=sys.stderr)
        return session.node.membership.group(manifest.group_id)

    def edit(draft: GroupManifest, epoch_id: bytes) -> GroupManifest:
        if options.action == "remove":
            return draft.removing(target, epoch_id)
        if options.action == "ban":
            return draft.banning(target, epoch_id)
        if options.action == "unban":
            return draft.unbanning(target)
        member = draft.member(target)
        if member is None:
            raise LocalError("that device is no member any more")
        if options.action == "admin":
            return draft.changing(replace(member, role=Role.ADMIN))
        return draft.changing(_with_profile(member, options))

    with session.store.transaction():
        session.node.change_group(manifest.group_id, edit, session.now())
    return session.node.membership.group(manifest.group_id)


def _end(session: Session, manifest: GroupManifest, options: argparse.Namespace) -> None:
    name = manifest.group_id.hex()[:8]
    if options.action == "leave":
        confirm(f"leave group {name}? Only a new invite brings this device back.", options.yes)
        with session.store.transaction():
            session.node.leave_group(manifest.group_id, session.now())
        print(f"left group {name}; the others are told as soon as the relay is there")
        return
    confirm(
        f"destroy group {name} on all its {len(manifest.members)} devices, with their keys and messages?", options.yes
    )
    with session.store.transaction():
        session.node.destroy_group(manifest.group_id, session.now())
    print(f"destroying group {name}: the agent tells the others, and forgets when they know, at the latest in a day")


def pick_member(manifest: GroupManifest, name: str) -> Member:
    """Return the member that a person means: by the beginning of its key, or its label.

    Raises:
        LocalError: none, or more than one.
    """
    labelled = [member for member in manifest.members if member.label == name]
    if len(labelled) == 1:
        return labelled[0]
    key = _one_of([member.keys.signing_public for member in manifest.members], name, "member")
    member = manifest.member(key)
    assert member is not None
    return member


def _one_of(keys: list[bytes], name: str, what: str) -> bytes:
    matching = [key for key in keys if key.hex().startswith(name.lower())]
    if len(matching) != 1:
        raise LocalError(
            f"{len(matching)} {what}s match '{printable(name)}'",
            hint="'covey group show' lists them; write more digits",
        )
    return matching[0]


def _history(session: Session, manifest: GroupManifest, options: argparse.Namespace) -> None:
    """Print every version, and what it changed; or what changed since one."""
    chain = [read_manifest(raw) for raw in session.store.manifests_from(manifest.group_id, 1)]
    by_hash = {each.hash: each for each in chain}
    if options.action == "diff":
        before = [each for each in chain if each.version == (options.since or max(1, manifest.version - 1))]
        if not before:
            raise LocalError(f"version {options.since} is not here", hint="'covey group log' lists what is")
        _print_changes([(manifest, difference(GroupState.of(before[0]), GroupState.of(manifest)))], options.json)
        return
    changes = []
    for each in chain:
        parents = [by_hash[parent] for parent in each.prev if parent in by_hash]
        state = GroupState.of(parents[0]) if parents else GroupState({}, {})
        changes.append((each, difference(state, GroupState.of(each))))
    _print_changes(changes, options.json)


def _print_changes(changes: list[tuple[GroupManifest, Change]], as_json_lines: bool) -> None:
    for manifest, change in changes:
        words = {
            "added": [device_name(key) for key in change.added],
            "removed": [device_name(key) for key in sorted(change.removed)],
            "banned": [device_name(key) for key in change.banned],
            "unbanned": [device_name(key) for key in sorted(change.unbanned)],
            "changed": [device_name(key) for key in sorted(change.touched)],
        }
        if as_json_lines:
            print_json(
                {"version": manifest.version, "issuer": device_name(manifest.issuer), "epoch": manifest.epoch} | words
            )
            continue
        told = "; ".join(f"{verb} {', '.join(names)}" for verb, names in words.items() if names) or "nothing"
        ends = f", ends a conflict of {len(manifest.prev)}" if len(manifest.prev) > 1 else ""
        print(f"version {manifest.version} by {device_name(manifest.issuer)}{ends}: {told}")


def show(manifest: GroupManifest, own: bytes) -> None:
    """Print a manifest for people."""
    print(f"group    {manifest.group_id.hex()}")
    state = f"issued by {device_name(manifest.issuer)}" if manifest.raw else "members disagree, which ends by itself"
    print(f"version  {manifest.version}, {state}")
    print(f"mode     {mode_name(manifest.mode)}, epoch {manifest.epoch}")
    rows = [
        (
            member.name + (" (this device)" if member.keys.signing_public == own else ""),
            printable(member.label) or "-",
            ", ".join(printable(each) for each in member.capabilities) or "-",
            member.role.name.lower(),
            member.since,
        )
        for member in manifest.members
    ]
    print_table(["member", "label", "capabilities", "role", "since"], rows)
    if manifest.banned:
        print("banned   " + ", ".join(device_name(ban.signing_public) for ban in manifest.banned))


def show_members(members: Sequence[Member], own: bytes, options: argparse.Namespace) -> None:
    """Print members with their fingerprints: two labels may look alike, two fingerprints do not."""
    if options.json:
        print_json([member_as_json(member) for member in members])
        return
    rows = [
        (
            member.name + (" (this device)" if member.keys.signing_public == own else ""),
            fingerprint(member.keys.signing_public),
            printable(member.label) or "-",
            ", ".join(printable(each) for each in member.capabilities) or "-",
            member.role.name.lower(),
            member.since,
        )
        for member in members
    ]
    print_table(["member", "fingerprint", "label", "capabilities", "role", "since"], rows)


def member_as_json(member: Member) -> dict[str, object]:
    """Return a member as JSON values."""
    return {
        "name": member.name,
        "fingerprint": fingerprint(member.keys.signing_public),
        "label": member.label,
        "role": member.role.name.lower(),
        "capabilities": list(member.capabilities),
        "signing_public": member.keys.signing_public.hex(),
        "noise_public": member.keys.noise_public.hex(),
        "since": member.since,
    }


def as_json(manifest: GroupManifest) -> dict[str, object]:
    """Return a manifest as JSON values."""
    return {
        "group_id": manifest.group_id.hex(),
        "version": manifest.version,
        "issuer": manifest.issuer.hex(),
        "epoch": manifest.epoch,
        "mode": mode_name(manifest.mode),
        "conflict": not manifest.raw,
        "hash": manifest.hash.hex() if manifest.raw else None,
        "banned": [ban.signing_public.hex() for ban in manifest.banned],
        "members": [member_as_json(member) for member in manifest.members],
    }
