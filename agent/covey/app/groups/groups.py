"""Groups as a person changes them: create, add, remove, ban, promote, describe, leave, destroy; and their history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from covey.app.device.device import Device
from covey.app.device.known_labels import own_label
from covey.app.device.relay_access import require_relay
from covey.app.groups.own_devices import own_devices
from covey.app.loop.relay_loop import wait_until
from covey.core.crypto import DeviceKeys
from covey.core.group.allowance import changes_of
from covey.core.group.device_labels import DeviceLabels, devices_meant
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member, Mode, Role, read_manifest
from covey.core.group.policy import Action
from covey.core.group.resolver import Change, GroupState, difference
from covey.core.ids import (
    DeviceKey,
    EpochId,
    NoisePublic,
    device_name,
    key_from_text,
    labelled_name,
    printable,
    truncate_utf8,
)
from covey.core.membership.invitations import check_capabilities
from covey.core.membership.voting import VOTING_MODES, OpenVote, open_votes
from covey.core.pairing.invite import Invite
from covey.core.pairing.uri import GroupUri
from covey.errors import ConfigurationError, LocalError, MalformedError, UsageError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.pairing import MAXIMUM_CONTACTS

_LAST_WORDS_S = 30.0
"""How long to wait, before a group is left, for a member that takes what this device wrote last."""

Edit = Callable[[GroupManifest, EpochId], GroupManifest]
"""From a draft and the id of the next epoch to the draft as it should be."""


def mode_name(mode: Mode) -> str:
    """Return a mode as people write it."""
    return mode.name.lower().replace("_", "-")


MODES = tuple(mode_name(mode) for mode in Mode if mode is not Mode.PERSONAL)
"""Every mode that a group is made with, as people write it; a personal one is 'covey own create'."""


FEW_CHANGES = 100
"""A member that can change a group less often than that is named: it has used up most of its allowance."""


def changes_left(manifest: GroupManifest) -> dict[DeviceKey, int]:
    """Return how often members can still change a group; after that they can only remove others.

    A member that can change it without end is left out, as is a board.
    """
    left = {member.keys.signing_public: changes_of(manifest, member) for member in manifest.members}
    boards = {member.keys.signing_public for member in manifest.members if member.is_board}
    return {key: changes for key, changes in left.items() if changes is not None and key not in boards}


def few_changes(manifest: GroupManifest) -> dict[DeviceKey, int]:
    """Return the members that can change a group less often than `FEW_CHANGES`, and how often."""
    return {key: changes for key, changes in changes_left(manifest).items() if changes < FEW_CHANGES}


# -- whom a person means ----------------------------------------------------------------------------------------------


def pick_member(manifest: GroupManifest, name: str) -> Member:
    """Return the member that a person means: by its label, or its key, in hex its beginning.

    Raises:
        LocalError: none, or more than one.
    """
    member = manifest.member(_one_of(_labels((manifest,)), name, "member"))
    assert member is not None
    return member


def pick_device(manifests: Iterable[GroupManifest], name: str) -> Member:
    """Return the member of any of these groups that a person means, as `pick_member` does for one group.

    Raises:
        LocalError: none, or more than one.
    """
    members = {each.keys.signing_public: each for manifest in manifests for each in manifest.members}
    return members[_one_of({key: each.label for key, each in members.items()}, name, "device")]


def pick_author(manifest: GroupManifest, authors: Iterable[DeviceKey], name: str) -> DeviceKey:
    """Return the signing key of the author that a person means: as `pick_member`, or one of these by its beginning.

    Raises:
        LocalError: none, or more than one.
    """
    return _one_of(dict.fromkeys(authors, "") | _labels((manifest,)), name, "author")


def pick_banned(manifest: GroupManifest, name: str) -> DeviceKey:
    """Return the signing key of the banned device, or the id of the invite, that a person means, by its beginning.

    Raises:
        LocalError: none, or more than one.
    """
    return _one_of({ban.signing_public: "" for ban in manifest.banned}, name, "banned device")


_MATCHING_SHOWN = 5
_LISTED = {"author": "covey history", "device": "covey fleet"}


def _labels(manifests: Iterable[GroupManifest]) -> dict[DeviceKey, str]:
    return {each.keys.signing_public: each.label for manifest in manifests for each in manifest.members}


def _one_of(labels: Mapping[DeviceKey, str], name: str, what: str) -> DeviceKey:
    matching = devices_meant(labels, name)
    if not matching:
        listed = _LISTED.get(what, "covey group show")
        raise LocalError(f"no {what} matches '{printable(name)}'", hint=f"'{listed}' lists them")
    if len(matching) > 1:
        listed = ", ".join(labelled_name(device_name(key), labels[key]) for key in sorted(matching)[:_MATCHING_SHOWN])
        hint = f"give more digits of one: {listed}"
        raise LocalError(f"{len(matching)} {what}s match '{printable(name)}'", hint=hint)
    return matching[0]


# -- changes ----------------------------------------------------------------------------------------------------------


def create_group(
    device: Device, capabilities: tuple[str, ...], mode_named: str, invited_key: str | None = None
) -> GroupManifest:
    """Create a group of one of `MODES`; `invited_key` is the other device's signing key, for a one-to-one group alone.

    Raises:
        UsageError: it is no key, or does not belong to this mode.
    """
    mode = Mode[mode_named.upper().replace("-", "_")]
    try:
        invited = DeviceKey(key_from_text("sign", invited_key)) if invited_key else None
    except MalformedError as error:
        raise UsageError(
            f"--with: {error}", hint="'covey key show' on the other device prints its signing key"
        ) from error
    if (invited is not None) != (mode is Mode.ONE_TO_ONE):
        raise UsageError("--with is required for a one-to-one group, and allowed only there")
    with device.store.transaction():
        return device.node.membership.create(own_label(device), capabilities, device.now().wall_us, mode, invited)


def found_collectors_group(device: Device) -> None:
    """Make a group with this device alone in it as its collector, unless it is a collector already.

    Raises:
        LocalError: this device is in a group in which it is no collector: it does something else there, as a gateway.
    """
    joined, own = device.node.groups.joined(), device.node.identity.signing_public
    members = [member for group in joined if (member := group.member(own)) is not None]
    if not members:
        create_group(device, (COLLECTOR,), "invites-only")
    elif not any(COLLECTOR in member.capabilities for member in members):
        raise LocalError(
            "this device is a member of a group in which it is not a collector; nothing was changed",
            hint="to have it collect there: covey group profile --capability collector; its service stays as it is",
        )


def check_for_others(group: GroupManifest) -> None:
    """Check that a group is not that of the person's own devices.

    Raises:
        LocalError: it is.
    """
    if group.mode is Mode.PERSONAL:
        raise LocalError(
            "that is the group of your own devices; a device in it would get into all your groups",
            hint="to add a device of yours: covey own link; for others, create a group: covey group create",
        )


def add_device(
    device: Device, manifest: GroupManifest, key_texts: list[str], label: str | None, capabilities: list[str]
) -> tuple[Member, Invite]:
    """Let a device in by its keys; return it as a member, and what it needs to believe that.

    Raises:
        UsageError: a key is missing, or is none.
        LocalError: as `check_for_others`.
    """
    check_for_others(manifest)
    texts = {text.split("-")[1]: text for text in key_texts if text.count("-") >= 2}
    try:
        keys = DeviceKeys(
            DeviceKey(key_from_text("sign", texts.get("sign", ""))),
            NoisePublic(key_from_text("noise", texts.get("noise", ""))),
        )
    except MalformedError as error:
        raise UsageError(f"{error}", hint="'covey key show' on the new device prints its two keys") from error
    newcomer = Member(keys, truncate_utf8(label or "", MAXIMUM_LABEL_BYTES), capabilities=_capabilities(capabilities))
    with device.store.transaction():
        return newcomer, device.node.actions.add_device(
            manifest.group_id, newcomer, device.config.relay.url, device.now()
        )


def group_uri(device: Device, manifest: GroupManifest) -> GroupUri:
    """Return what any number of devices join a public group with; it names this device, then admins, then others.

    Raises:
        LocalError: the group is not public.
        ConfigurationError: no relay is set.
    """
    if manifest.mode is not Mode.PUBLIC:
        raise LocalError(
            "only a public group can be joined without an invite", hint="ask a member to run 'covey invite'"
        )
    require_relay(device)
    own = device.node.identity.signing_public
    members = [member for member in manifest.members if not member.is_board]
    members.sort(key=lambda member: (member.keys.signing_public != own, -member.role, member.keys.signing_public))
    contacts = tuple(member.keys for member in members[:MAXIMUM_CONTACTS])
    return GroupUri(manifest.group_id, contacts, device.config.relay.url)


def removal(target: DeviceKey) -> Edit:
    """Return the edit that removes a member."""
    return lambda draft, epoch_id: draft.removing(target, epoch_id)


def _ban(target: DeviceKey) -> Edit:
    return lambda draft, epoch_id: draft.banning(target, epoch_id)


def promotion(target: DeviceKey) -> Edit:
    """Return the edit that makes a member an admin."""
    return lambda draft, _: draft.changing(replace(_present(draft, target), role=Role.ADMIN))


def profile(target: DeviceKey, label: str | None, capabilities: list[str]) -> Edit:
    """Return the edit that gives a member another label, other capabilities, or both; None and [] leave them."""

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        member = _present(draft, target)
        if label is not None:
            member = replace(member, label=truncate_utf8(label, MAXIMUM_LABEL_BYTES))
        if capabilities:
            member = replace(member, capabilities=_capabilities(capabilities))
        return draft.changing(member)

    return edit


def _present(draft: GroupManifest, target: DeviceKey) -> Member:
    member = draft.member(target)
    if member is None:
        raise LocalError("that device is no longer a member")
    return member


def _capabilities(named: list[str]) -> tuple[str, ...]:
    return check_capabilities(tuple(each for each in named if each))


def change_group(device: Device, manifest: GroupManifest, edit: Edit) -> GroupManifest:
    """Sign and queue a changed manifest; return it."""
    with device.store.transaction():
        device.node.actions.change(manifest.group_id, edit, device.now())
    return device.node.groups.group(manifest.group_id)


@dataclass(frozen=True, slots=True)
class Decided:
    """A group after one member's word; where votes decide, with how many there are, and how many it needs."""

    group: GroupManifest
    votes: int = 0
    needed: int = 0


def ban_device(device: Device, manifest: GroupManifest, target: DeviceKey) -> Decided:
    """Remove and ban a member, or ban a device or invite (`ban_targets.py`); or vote for that, if votes decide."""
    if manifest.mode in VOTING_MODES:
        return _vote(device, manifest, Action.KEEP_OUT if manifest.member(target) is None else Action.BAN, target)
    return Decided(change_group(device, manifest, _ban(target)))


def unban_device(device: Device, manifest: GroupManifest, target: DeviceKey, *, readmit: bool) -> Decided:
    """End a ban, and let the device in again unless it is only to be invited; or vote for that, where votes decide."""
    if manifest.mode in VOTING_MODES:
        return _vote(device, manifest, Action.UNBAN, target, readmit=readmit)
    with device.store.transaction():
        device.node.actions.unban(manifest.group_id, target, device.now(), readmit=readmit)
    return Decided(device.node.groups.group(manifest.group_id))


def _vote(
    device: Device, manifest: GroupManifest, action: Action, target: DeviceKey, *, readmit: bool = True
) -> Decided:
    with device.store.transaction():
        voting = device.node.actions.vote(manifest.group_id, action, target, device.now(), readmit=readmit)
    return Decided(device.node.groups.group(manifest.group_id), voting.votes, voting.needed)


def groups_with(device: Device, name: str) -> list[GroupManifest]:
    """Return the groups shared with one device alone, which a person means by its label or the beginning of its key.

    The person's own devices are not counted.

    Raises:
        LocalError: no member of any group, or more than one; or there is no such group.
    """
    joined = device.node.groups.joined()
    invited = {each.invited: "" for each in joined if each.invited is not None}
    key = _one_of(invited | _labels(joined), name, "member")
    found = own_devices(device).shared_with(key)
    if not found:
        raise LocalError(
            f"this device has no one-to-one group with {device_name(key)}",
            hint="leave a group: covey group leave --group ID; remove the device from a group: covey group ban",
        )
    return found


def hand_over(device: Device, manifests: Iterable[GroupManifest]) -> None:
    """Wait until, in each of these groups, a member has what this device wrote last: after it has left nobody takes it.

    Raises:
        LocalError: in one of them nobody has it.
    """
    history, groups = device.node.history, [each.group_id for each in manifests]

    def known() -> bool:
        return all(map(history.is_known, groups))

    if known():
        return
    with device.store.transaction():
        for each in groups:
            history.hand_over(each, device.now())
    try:
        reached = wait_until(device, known, _LAST_WORDS_S)
    except ConfigurationError:
        reached = False
    if not reached:
        names = ", ".join(each.hex()[:8] for each in groups if not history.is_known(each))
        raise LocalError(
            f"no member of group {names} has this device's latest entries, and members accept none after it leaves",
            hint="run 'covey group leave' again when a relay and a member are online; --delete-now discards "
            "these entries",
        )


def leave_groups(device: Device, manifests: Iterable[GroupManifest], *, at_once: bool = False) -> None:
    """Leave, on all devices of the person; the other members learn of it when the relay is connected.

    `at_once`: erase here before any of them has acknowledged that.
    """
    with device.store.transaction():
        for each in manifests:
            own_devices(device).leave(each.group_id, device.now(), at_once=at_once)


def destroy_group(device: Device, manifest: GroupManifest) -> None:
    """Have every member forget the group."""
    with device.store.transaction():
        device.node.actions.destroy(manifest.group_id, device.now())


# -- history ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a group, and what it changed since an earlier one."""

    manifest: GroupManifest
    change: Change


def history(device: Device, manifest: GroupManifest) -> list[Version]:
    """Return every version of a group that is here, the first one first."""
    chain = _chain(device, manifest)
    by_hash = {each.hash: each for each in chain}
    versions = []
    for each in chain:
        parents = [by_hash[parent] for parent in each.prev if parent in by_hash]
        before = GroupState.of(parents[0]) if parents else GroupState({}, {})
        versions.append(Version(each, difference(before, GroupState.of(each))))
    return versions


def changes_since(device: Device, manifest: GroupManifest, version: int | None) -> Version:
    """Return what has changed since a version; None means the one before.

    Raises:
        LocalError: that version is not here.
    """
    wanted = max(1, manifest.version - 1) if version is None else version
    before = [each for each in _chain(device, manifest) if each.version == wanted]
    if not before:
        raise LocalError(
            f"this device does not have version {version}", hint="'covey group log' lists the versions it has"
        )
    return Version(manifest, difference(GroupState.of(before[0]), GroupState.of(manifest)))


def votes_in(device: Device, manifest: GroupManifest) -> list[OpenVote]:
    """Return what the admins of a group vote about now, as far as this device knows."""
    return open_votes(device.node.groups, device.store.votes, manifest)


def labels_in(device: Device, manifest: GroupManifest) -> DeviceLabels:
    """Return the labels of devices in a group, also the last labels of former members."""
    return DeviceLabels(chain((manifest,), _past(device, manifest)))


def _past(device: Device, manifest: GroupManifest) -> Iterator[GroupManifest]:
    for raw in reversed(device.store.groups.manifests_from(manifest.group_id, 1)):
        yield read_manifest(raw)


def _chain(device: Device, manifest: GroupManifest) -> list[GroupManifest]:
    return [read_manifest(raw) for raw in device.store.groups.manifests_from(manifest.group_id, 1)]
