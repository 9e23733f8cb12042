"""Invitations to further groups: what waits for a person, and what the person answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from covey.app.device.device import Device
from covey.app.device.known_labels import own_label
from covey.app.groups.groups import pick_device
from covey.app.groups.previews import PreviewedMember, PreviewedPicture, previewed
from covey.core.ids import DeviceKey, GroupId, labelled_name
from covey.core.membership.events import InvitationState
from covey.core.membership.requests import decline, unanswered
from covey.core.membership.unknown_groups import invite_wishes, unknown_groups
from covey.core.pairing.pending import GroupRequest, UnknownGroup
from covey.errors import LocalError, UsageError

_Found = TypeVar("_Found", GroupRequest, UnknownGroup)


@dataclass(frozen=True, slots=True)
class WaitingInvitation:
    """An invitation that nobody has answered yet; `inviter` is a signing key, `label` what our groups call it."""

    group_id: str
    inviter: str
    label: str
    received_at_us: int
    expires_at_us: int
    title: str = ""
    """What its inviter calls the group."""
    members: int | None = None
    """How many members it has; None where the inviter does not say."""
    shown: tuple[PreviewedMember, ...] = ()
    description: str = ""
    """What its inviter says that the group is for."""
    picture: PreviewedPicture | None = None


@dataclass(frozen=True, slots=True)
class SyncingGroup:
    """A group that this device has asked to join, and does not have yet; `inviter` and `label` as above."""

    group_id: str
    inviter: str
    label: str
    state: str = "syncing"
    missing: str = "the group's manifest, which its inviter sends"


@dataclass(frozen=True, slots=True)
class AddressedGroup:
    """A group that this device is addressed in and does not hold; `author` and `label` name who addresses it."""

    group_id: str
    author: str
    label: str
    seen_at_us: int
    asked_at_us: int
    """When that member was last asked for an invite, or 0."""
    state: str = "addressed"


@dataclass(frozen=True, slots=True)
class AskingDevice:
    """A device that asks to be invited to a group of this one."""

    group_id: str
    device: str
    label: str
    seen_at_us: int
    state: str = "asks"


def addressed_groups(device: Device) -> list[AddressedGroup]:
    """Return the groups that a person may ask to be invited to, the newest first."""
    labels = _labels(device)
    return [
        AddressedGroup(
            each.group_id.hex(), each.author.hex(), labels.get(each.author, ""), each.seen_at_us, each.asked_at_us
        )
        for each in unknown_groups(device.node.groups, device.store, device.now().wall_us)
    ]


def asking_devices(device: Device) -> list[AskingDevice]:
    """Return the devices that ask to be invited to a group of this one, the newest first."""
    labels = _labels(device)
    return [
        AskingDevice(each.group_id.hex(), each.device.hex(), labels.get(each.device, ""), each.seen_at_us)
        for each in invite_wishes(device.node.groups, device.store, device.now().wall_us)
    ]


def ask_for_invitation(device: Device, name: str | None, member: str | None = None) -> AddressedGroup:
    """Ask the member that has addressed this device in an unknown group to invite it; return whom about what.

    Raises:
        UsageError: there are several groups, or several such members.
        LocalError: there is none, or that member was asked a short time ago.
    """
    known = unknown_groups(device.node.groups, device.store, device.now().wall_us)
    none = LocalError("no member has addressed this device in such a group", hint="'covey request' lists the groups")
    group_id = _the_one(dict.fromkeys(each.group_id for each in known), name, none)
    of_group = [each for each in known if each.group_id == group_id]
    unknown = _by_one(device, of_group, [each.author for each in of_group], member, none)
    with device.store.transaction():
        device.node.actions.request_invite(unknown, device.now())
    asked = (group_id.hex(), unknown.author.hex())
    return next(each for each in addressed_groups(device) if (each.group_id, each.author) == asked)


def syncing_groups(device: Device) -> list[SyncingGroup]:
    """Return the groups that this device requested to join and does not have yet, as after accepting an invitation."""
    labels = _labels(device)
    keys = [(each.group_id, each.inviter.signing_public) for each in device.store.joins.pending()]
    return [SyncingGroup(group_id.hex(), key.hex(), labels.get(key, "")) for group_id, key in keys]


def waiting_invitations(device: Device) -> list[WaitingInvitation]:
    """Return the invitations to further groups that nobody has answered yet."""
    known = _labels(device)
    return [
        WaitingInvitation(
            each.group_id.hex(),
            each.inviter.signing_public.hex(),
            known.get(each.inviter.signing_public, ""),
            each.received_at_us,
            each.expires_at_us,
            *_shown(each),
        )
        for each in _unanswered(device)
    ]


def _labels(device: Device) -> dict[DeviceKey, str]:
    return {
        member.keys.signing_public: member.label for group in device.node.groups.joined() for member in group.members
    }


def _shown(
    request: GroupRequest,
) -> tuple[str, int | None, tuple[PreviewedMember, ...], str, PreviewedPicture | None]:
    if request.preview is None:
        return "", None, (), "", None
    group = previewed(request.group_id, request.preview)
    return group.title, group.members, group.shown, group.description, group.picture


def _unanswered(device: Device) -> list[GroupRequest]:
    return unanswered(device.node.groups, device.store.requests, device.now().wall_us)


def _by_one(
    device: Device, found: Sequence[_Found], members: Sequence[DeviceKey], name: str | None, none: LocalError
) -> _Found:
    """Return what the member has sent that a person names, or the only one: another may want to take its place.

    Raises:
        UsageError: several members have sent one.
        LocalError: `none`, where there is none of that member; or the name is no device's.
    """
    if name is not None:
        named = pick_device(device.node.groups.joined(), name).keys.signing_public
        found = [each for each, member in zip(found, members, strict=True) if member == named]
        if not found:
            raise none
    if len(found) > 1:
        labels = _labels(device)
        known = ", ".join(labelled_name(each.hex()[:8], labels.get(each, "")) for each in members)
        raise UsageError(
            f"{len(found)} members have sent one for this group: {known}", hint="choose one: --from DEVICE"
        )
    return found[0]


def _the_one(groups: Iterable[GroupId], name: str | None, none: LocalError) -> GroupId:
    """Return the group whose id begins so, or the only one.

    Raises:
        UsageError: there are several groups.
        LocalError: `none`, where there is none.
    """
    matching = [each for each in groups if each.hex().startswith(name or "")]
    if len(matching) > 1:
        known = ", ".join(sorted(each.hex()[:8] for each in matching))
        raise UsageError(f"{len(matching)} groups match", hint=f"choose one of: {known}")
    if not matching:
        raise none
    return matching[0]


def accept_invitation(device: Device, name: str | None, inviter: str | None = None) -> GroupId:
    """Ask the inviter to let this device in; `name` is the beginning of the group's id, which is returned.

    Raises:
        UsageError: there are several groups, or several inviters.
        LocalError: there is none.
    """
    waiting = _unanswered(device)
    none = LocalError("no such invitation is waiting", hint="'covey request' lists them")
    group_id = _the_one(dict.fromkeys(each.group_id for each in waiting), name, none)
    of_group = [each for each in waiting if each.group_id == group_id]
    request = _by_one(device, of_group, [each.inviter.signing_public for each in of_group], inviter, none)
    with device.store.transaction():
        device.store.invited_operators.forget(request.group_id)
        device.node.actions.accept_request(request, own_label(device), device.now())
    return request.group_id


def decline_invitation(device: Device, name: str | None) -> tuple[GroupId, bool]:
    """Decline a group permanently, or what devices ask about one of this device's own; nobody is informed.

    Returns the group, and whether this device is in it: then the requests of devices were declined, for a week.

    Raises:
        UsageError: there are several groups.
        LocalError: there is none.
    """
    named = [each.group_id for each in addressed_groups(device)] + [each.group_id for each in asking_devices(device)]
    asked = {GroupId(bytes.fromhex(each)) for each in named}
    invited = {each.group_id for each in _unanswered(device)}
    none = LocalError("no such invitation or request is waiting", hint="'covey request' lists them")
    group_id = _the_one(invited | asked, name, none)
    if group_id not in invited:
        is_own = device.node.groups.is_in(group_id)
        with device.store.transaction():
            if is_own:
                device.store.group_asks.decline_wishes(group_id, device.now().wall_us)
            else:
                device.store.group_asks.drop(group_id)
                device.store.requests.decline(group_id, device.now().wall_us)
        return group_id, is_own
    request = [each for each in _unanswered(device) if each.group_id == group_id][-1]
    with device.store.transaction():
        decline(device.store.requests, request, device.now().wall_us)
        inviter, now_us = request.inviter.signing_public, device.now().wall_us
        device.store.events.invitation(request.group_id, inviter, InvitationState.DECLINED, now_us)
    return request.group_id, False


@dataclass(frozen=True, slots=True)
class DeclinedGroup:
    """A group that a person has declined."""

    group_id: str
    declined_at_us: int


def declined_groups(device: Device) -> list[DeclinedGroup]:
    """Return the groups that were declined, the last one first."""
    return [DeclinedGroup(group_id.hex(), at_us) for group_id, at_us in device.store.requests.declined().items()]


def reconsider_group(device: Device, name: str | None) -> GroupId:
    """Let invitations to a declined group come up again, as well as one that came meanwhile; return its id.

    Raises:
        UsageError: there are several groups.
        LocalError: there is none.
    """
    none = LocalError("no such group was declined", hint="'covey request list --declined' lists them")
    group_id = _the_one(device.store.requests.declined(), name, none)
    with device.store.transaction():
        device.store.requests.reconsider(group_id)
    return group_id
