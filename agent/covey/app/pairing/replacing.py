"""The role that lets a newcomer take the place of the member that it replaces (`covey invite --replace`).

1. The invite says whom its newcomer replaces, in the same commit that makes the invite durable.
2. Once the newcomer is a member, one change of the group removes the replaced member and gives the newcomer its label.
3. The device that wrote the invite remembers the replacement for ever: it shows the series of both as one.
4. An invite that ends unused replaces nobody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.core.group.manifest import EQUAL_MODES
from covey.core.ids import labelled_name
from covey.core.pairing.pending import Replacement
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.groups.groups import Edit
    from covey.core.group.manifest import GroupManifest, Member
    from covey.core.ids import DeviceKey, EpochId
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.pairing.invite import Invite
    from covey.ports import Report


def check_may_replace(group: GroupManifest, member: Member, own: DeviceKey) -> None:
    """Check that a newcomer can replace a member.

    Raises:
        LocalError: the member is this device or a board, or the group removes members by votes only.
    """
    if member.keys.signing_public == own:
        raise LocalError("this device cannot replace itself", hint="to replace a hub: covey hub save, covey hub adopt")
    if member.is_board:
        raise LocalError("a board is replaced at its gateway", hint="covey mcu enrol")
    if group.mode not in EQUAL_MODES:
        raise LocalError(
            "in this group a ban by votes removes members, not a replacement",
            hint="covey invite, then covey group ban DEVICE",
        )


def replacement_of(member: Member, invite: Invite) -> Replacement:
    """Return what the newcomer with an invite replaces."""
    return Replacement(invite.secret_hash, invite.group_id, member.keys.signing_public, member.label or member.name)


class ReplacementsRole:
    """Looks at the invites of replacements whenever a group has changed."""

    def __init__(self, device: Device, report: Report = report) -> None:
        self._device = device
        self._report = report
        self._seen: tuple[int, int] | None = None

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; only a change of a group makes something due."""
        if (seen := (id(node), node.groups.generation)) == self._seen:
            return None
        self._seen = seen
        for each in self._device.store.replacements.waiting():
            self._look_at(node, each, now)
        return None

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""

    def _look_at(self, node: Node, replacement: Replacement, now: Now) -> None:
        store = self._device.store
        invites = {each.secret_hash: each for each in store.invites.all()}
        invite = invites.get(replacement.secret_hash)
        if invite is not None and invite.used_by is None and now.wall_us <= invite.expires_at_us:
            return
        newcomer = invite.used_by if invite is not None else None
        is_member = newcomer is not None and any(
            group.group_id == replacement.group_id and group.member(newcomer) for group in node.groups.joined()
        )
        try:
            with store.transaction():
                if newcomer is None or not is_member:
                    store.replacements.drop(replacement.secret_hash)
                    return
                edit = _taking_over(replacement, newcomer)
                node.actions.change(replacement.group_id, edit, now)
                store.replacements.finish(replacement.secret_hash, newcomer)
        except LocalError as error:
            node.discard()
            self._report("warning", f"{newcomer.hex()[:8] if newcomer else ''} cannot replace a member: {error}")
            return
        named = labelled_name(newcomer.hex()[:8], replacement.label)
        self._report("notice", f"{named} has replaced {replacement.replaced.hex()[:8]}")


def _taking_over(replacement: Replacement, newcomer: DeviceKey) -> Edit:
    """Return the edit that removes the replaced member and gives the newcomer its label (rule 2)."""

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        if draft.member(replacement.replaced) is not None:
            draft = draft.removing(replacement.replaced, epoch_id)
        member = draft.member(newcomer)
        assert member is not None
        return draft.changing(replace(member, label=replacement.label))

    return edit
