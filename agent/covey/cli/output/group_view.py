"""Print a group and its members, or return them as JSON values."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from covey.app.groups.groups import changes_left, few_changes, mode_name
from covey.app.wording import count
from covey.cli.output.terminal import print_json, print_table
from covey.core.ids import DeviceKey, fingerprint, labelled_name, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.app.groups.collectors import GroupCollector
    from covey.core.group.device_labels import DeviceLabels
    from covey.core.group.manifest import GroupManifest, Member
    from covey.core.history.bodies import GroupProfile
    from covey.core.membership.voting import OpenVote


def show_group(
    manifest: GroupManifest, profile: GroupProfile, own: DeviceKey, labels: DeviceLabels, votes: Sequence[OpenVote] = ()
) -> None:
    """Print a manifest, the group's profile and its open votes; `labels` includes former members."""
    show_profile(manifest, profile)
    state = (
        f"issued by {labels.named(manifest.issuer)}"
        if manifest.raw
        else "members hold conflicting versions and will agree on one"
    )
    print(f"version  {manifest.version}, {state}")
    print(f"mode     {mode_name(manifest.mode)}, epoch {manifest.epoch}")
    rows = [
        (
            member.name + (" (this device)" if member.keys.signing_public == own else ""),
            printable(member.label) or "-",
            _capabilities(member),
            member.role.name.lower(),
            member.since,
        )
        for member in manifest.members
    ]
    print_table(["member", "label", "capabilities", "role", "since"], rows)
    for key, left in few_changes(manifest).items():
        who, changes = labels.named(key), count(left, "more change")
        print(f"note     {who} can make {changes} to this group, then only remove members")
    if manifest.banned:
        print("banned   " + ", ".join(labels.named(ban.signing_public) for ban in manifest.banned))
    for vote in votes:
        voters = ", ".join(map(labels.named, vote.voters))
        what = f"{vote.action.name.lower().replace('_', ' ')} {labels.named(vote.target)}"
        print(f"vote     {what}: {len(vote.voters)} of {count(vote.needed, 'vote')} so far, by {voters}")


def show_readings_route(collectors: Sequence[GroupCollector], relays: Sequence[tuple[str, str]], own: str) -> None:
    """Print which collectors take a group's readings, and the relays of this device by URL and state.

    `own`: the name of the collector that takes the readings of this device; empty if there is none.
    """
    for each in collectors:
        takes = f"takes the readings of {count(each.members, 'member')}"
        after = ", ".join(map(printable, each.successors))
        then = f"{after} would take over" if after else "no other would take over"
        own_words = "; this device's, too" if each.device == own else ""
        silent = "; silent" if each.silent else ""
        print(f"readings {labelled_name(each.device, each.label)} {takes}{own_words}{silent}; {then}")
    if not collectors:
        print("readings no collector takes them: covey group profile DEVICE --capability collector")
    if relays:
        print(f"relay    {relay_words(relays)}")


def collector_words(collector: GroupCollector) -> str:
    """Return a collector and of how many members it takes the readings."""
    silent = ", silent" if collector.silent else ""
    return f"{printable(collector.label) or collector.device} ({collector.members}{silent})"


def relay_words(relays: Sequence[tuple[str, str]]) -> str:
    """Return the relays of this device, by URL and state, in the order in which it tries them."""
    return ", then ".join(f"{printable(url)} ({printable(state)})" for url, state in relays)


def show_profile(manifest: GroupManifest, profile: GroupProfile) -> None:
    """Print the group's ID, version and profile."""
    print(f"group    {manifest.group_id.hex()}")
    if profile.title:
        print(f"title    {printable(profile.title)}")
    for line in profile.description.splitlines():
        print(f"         {printable(line)}")
    if profile.avatar is not None:
        print(f"avatar   {profile.avatar.mime}, {len(profile.avatar.content)} bytes")


def show_members(members: Sequence[Member], own: DeviceKey, *, as_json: bool) -> None:
    """Print members with their fingerprints, which tell two similar labels apart."""
    if as_json:
        print_json([_member_as_json(member) for member in members])
        return
    rows = [
        (
            member.name + (" (this device)" if member.keys.signing_public == own else ""),
            fingerprint(member.keys.signing_public),
            printable(member.label) or "-",
            _capabilities(member),
            member.role.name.lower(),
            member.since,
        )
        for member in members
    ]
    print_table(["member", "fingerprint", "label", "capabilities", "role", "since"], rows)


def _capabilities(member: Member) -> str:
    """Return a member's capabilities, and for a board also what it does not receive."""
    said = ", ".join(printable(each) for each in member.capabilities) or "-"
    return f"{said} (gets no group messages)" if member.is_board else said


def _member_as_json(member: Member) -> dict[str, object]:
    return {
        "name": member.name,
        "fingerprint": fingerprint(member.keys.signing_public),
        "label": member.label,
        "role": member.role.name.lower(),
        "capabilities": list(member.capabilities),
        "group_messages": not member.is_board,
        "signing_public": member.keys.signing_public.hex(),
        "noise_public": member.keys.noise_public.hex(),
        "since": member.since,
    }


def group_as_json(
    manifest: GroupManifest, profile: GroupProfile, labels: DeviceLabels, votes: Sequence[OpenVote] = ()
) -> dict[str, object]:
    """Return a manifest, the group's profile and its open votes as JSON; `labels` as for `show_group`."""
    avatar, left = profile.avatar, changes_left(manifest)
    return {
        "group_id": manifest.group_id.hex(),
        "title": profile.title,
        "description": profile.description,
        "avatar": None if avatar is None else {"mime": avatar.mime, "base64": b64encode(avatar.content).decode()},
        "version": manifest.version,
        "issuer": manifest.issuer.hex(),
        "epoch": manifest.epoch,
        "mode": mode_name(manifest.mode),
        "conflict": not manifest.raw,
        "hash": manifest.hash.hex() if manifest.raw else None,
        "banned": [ban.signing_public.hex() for ban in manifest.banned],
        "votes": [
            {
                "action": vote.action.name.lower(),
                "target": vote.target.hex(),
                "voters": [voter.hex() for voter in vote.voters],
                "needed": vote.needed,
            }
            for vote in votes
        ],
        "labels": {
            key.hex(): labels.label(key) for key in (manifest.issuer, *(ban.signing_public for ban in manifest.banned))
        },
        "members": [
            {**_member_as_json(each), "changes_left": left.get(each.keys.signing_public)} for each in manifest.members
        ],
    }
