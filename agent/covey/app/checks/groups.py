"""Checks of groups: is there another member, and do the members agree on the list of members and the history?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from covey.app.checks.documents import AgreementStatus
from covey.app.checks.findings import Examined, Seen, ok, warning
from covey.app.documents import DAY_S
from covey.app.groups.groups import few_changes
from covey.app.wording import count, duration
from covey.errors import UnknownGroupError

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest

_NAMED = 3
_UNHEARD_DAYS = 7
"""After so long without a sign of any member a group may have ended without this device."""
_UNKNOWN_GROUP = f"dropped_{UnknownGroupError.code}"


def group(device: Examined) -> Iterator[Seen]:
    """Whether there is somebody to talk to."""
    groups = device.status.groups
    membership = device.opened.node.membership
    if device.status.pending_joins:
        yield warning(
            "a join is waiting for its answer",
            "the inviter's agent must be running; an invite is valid for ten minutes",
        )
    elif not groups and (unknown := device.status.counters.get(_UNKNOWN_GROUP, 0)):
        yield warning(
            f"this device is in no group, but members of one send to it ({count(unknown, 'message')} dropped): "
            "its state may have been lost",
            "let it in again: run 'covey invite' on a member, then 'covey join CODE' here",
        )
    elif not groups:
        yield warning("this device is in no group", "covey group create, or covey join")
    elif not any(membership.groups.collector_of(each.group_id) for each in membership.groups.joined()):
        yield warning(
            "no group has a collector, so no device stores readings", "invite one: covey invite --capability collector"
        )
    else:
        yield ok(", ".join(f"{each.group_id[:8]} version {each.version}" for each in groups))


def agreement(device: Examined) -> Iterator[Seen]:
    """Compare the list of members with those that other members reported, and name what this device lacks."""
    from covey.core.group.manifest import read_manifest

    missing = "the agent requests what is missing; check that the relay is up and another member is online"
    membership = device.opened.node.membership
    statuses = {each.group_id: each for each in device.status.groups}
    labels = {each.device: each.label for each in device.status.members}
    for group in membership.groups.joined():
        name, found = f"group {group.group_id.hex()[:8]}", statuses[group.group_id.hex()].agreement
        if small := statuses[group.group_id.hex()].too_large:
            yield warning(
                f"{name} {small}: some members do not receive its changes",
                "raise max_packet_size at that broker; 'covey broker check' shows how much Covey needs",
            )
        early = [read_manifest(raw).version for raw in device.opened.store.groups.early_manifests(group.group_id)]
        if early:
            yield warning(f"{name}: members know version {max(early)}, this device {group.version}", missing)
        elif not group.raw:
            yield warning(
                f"{name}: members hold conflicting versions {group.version}", "they agree after two minutes online"
            )
        elif membership.groups.secret(group.group_id) is None:
            yield warning(f"{name}: the secret of its epoch has not arrived", missing)
        elif days := _days_unheard(device, group):
            yield warning(
                f"{name} version {group.version}: nothing from other members for {count(days, 'day')}",
                "if they destroyed the group, delete it here: covey group destroy",
            )
        elif (left := few_changes(group).get(device.opened.node.identity.signing_public)) is not None:
            yield warning(
                f"{name}: this device can make {count(left, 'more change')} to it, then only remove members",
                "the group's founder can remove this device and invite it again",
            )
        elif found.others or found.never:
            yield warning(
                f"{name} version {group.version}: {_who_agrees(found, labels)}",
                "devices with older versions request it when online; 'covey status --json' lists them",
            )
        else:
            yield ok(f"{name} version {group.version}: {_who_agrees(found, labels)}")
    if not statuses:
        yield ok("no group to agree on")


def _days_unheard(device: Examined, group: GroupManifest) -> int:
    own, seen_at = device.opened.node.identity.signing_public, device.opened.store.heads.seen_at()
    others = [each.keys.signing_public for each in group.members if each.keys.signing_public != own]
    newest_us = max((seen_at[key] for key in others if key in seen_at), default=None)
    days = 0 if newest_us is None else int((device.clock.wall_us() - newest_us) / (DAY_S * 1e6))
    return days if days >= _UNHEARD_DAYS else 0


def _who_agrees(found: AgreementStatus, labels: dict[str, str]) -> str:
    from covey.core.ids import labelled_name

    same = count(found.same, "other member") if found.same else "no other member"
    parts = [f"{same} with the same version"]
    if not (found.same or found.others or found.never):
        return "no other members"
    if found.others:
        others = [(labelled_name(each.device, each.label), duration(each.seconds)) for each in found.others[:_NAMED]]
        named = ", ".join(f"{name} for {time}" for name, time in others)
        parts.append(
            f"{len(found.others)} with another version ({named}{', ...' if len(found.others) > _NAMED else ''})"
        )
    if found.never:
        named = ", ".join(labelled_name(each, labels.get(each, "")) for each in found.never[:_NAMED])
        parts.append(f"{len(found.never)} not seen yet ({named}{', ...' if len(found.never) > _NAMED else ''})")
    return ", ".join(parts)


def history(device: Examined) -> Iterator[Seen]:
    """Compare the history with that of other members; name what is being fetched, and authors who forked their log."""
    from covey.core.group.device_labels import DeviceLabels
    from covey.core.ids import GroupId, labelled_name

    for each in device.status.groups:
        group_id = GroupId(bytes.fromhex(each.group_id))
        name, found = f"group {each.group_id[:8]}", each.history
        forks = device.opened.store.operations.forks(group_id)
        waiting = sum(one.waiting for one in found.fetching)
        if forks:
            labels = DeviceLabels(device.opened.node.groups.joined())
            named = ", ".join(labels.named(author) for author in [*forks][:_NAMED])
            yield warning(
                f"{name}: {named} wrote two operations under one number; both are kept",
                "'covey history log' marks them (fork): its key was copied, or it lies; to remove it: covey "
                "group remove",
            )
        if waiting:
            giver = labelled_name(found.fetching[0].device, found.fetching[0].label)
            yield warning(
                f"{name}: {count(waiting, 'operation')} of {giver} depend on operations that this device does not have",
                "the agent requests them; check that the relay is up and another member is online",
            )
        elif not forks:
            seen = found.same + len(found.others)
            step = f"same as {found.same} of {seen} members seen" if seen else "no other member seen yet"
            gone = f" ({found.deleted} of them deleted)" if found.deleted else ""
            yield ok(f"{name}: {count(found.operations, 'operation')}{gone}, {step}")
