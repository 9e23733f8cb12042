"""Notices that are answered although this device knows no group that their author shares with it.

What is accepted is acknowledged; otherwise it would be repeated for a month:

1. A device that notifies this one of its removal may itself have been out of the group in between, or leave it by what
   it sends. It has an address here for `VISIT_US`, as a visitor has: by the key that its notice, or the manifests
   before that, list for it.
2. A repeated GROUP_MANIFEST is answered again, whatever its author is now. Nothing else in it is processed.
3. A device that leaves a group that this device does not know, and shares another one with it, is answered: this device
   may have been the group's last other member, and have lost that with its state. While an answer to a request to join
   that group is awaited, the notice must be repeated, because it may predate the answer.
4. A device that shares a group with this one, and asks to join by an invite that is lost here or belongs to another
   device, gets that answer: otherwise it would keep asking, up to a week. A stranger gets no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.group.manifest import Member, read_manifest
from covey.core.group.messages import Bundle
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.wire.message import Message, MessageType
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.groups import GroupRecords

_LOOKED_AT = 4
"""Manifests of the version before a notice, and of its own, that are looked through for its author."""


def came_before(records: Records, message: Message) -> bool:
    """Say whether a message is a GROUP_MANIFEST that has come before (rule 2)."""
    if message.type is not MessageType.GROUP_MANIFEST or not message.link_seq:
        return False
    return message.link_seq in records.received.of(message.author, message.incarnation)


def leaves_what_was_lost(membership: Membership, message: Message) -> bool:
    """Say whether a message's author leaves by it a group that this device knows nothing of (rule 3)."""
    groups, group_id = membership.groups, message.group_id
    if message.type is not MessageType.GROUP_MANIFEST or groups.trust_of(group_id) is not None:
        return False
    if groups.shares_nothing_with(message.author) or membership.invitations.waits_for(group_id):
        return False
    try:
        last = [read_manifest(raw, verify=False) for raw in Bundle.from_wire(message.body).manifests[-1:]]
    except RemoteError:
        return False
    return any(each.group_id == group_id and each.member(message.author) is None for each in last)


def refuses_for_good(membership: Membership, message: Message) -> bool:
    """Say whether a JOIN that no invite lets in is acknowledged, and its author told (rule 4)."""
    return not membership.groups.shares_nothing_with(message.author) and membership.invitations.never_takes(message)


def is_refusal(membership: Membership, message: Message) -> bool:
    """Say whether a GROUP_MANIFEST is the word of an inviter that it lets nobody in by that invite: it has none."""
    if membership.invitations.awaited(message.group_id, message.author) is None:
        return False
    return not Bundle.from_wire(message.body).manifests


def keep_answerable(groups: Groups, records: Records, message: Message) -> None:
    """Give the author of a GROUP_MANIFEST that was taken an address, where it has none (rule 1). Writes."""
    if groups.address_to_answer(message.author) is not None:
        return
    listed = _listed(records.groups, message)
    if listed is not None and groups.addresses.receive_visitor(listed.keys):
        groups.readdress()


def _listed(records: GroupRecords, message: Message) -> Member | None:
    try:
        brought = [read_manifest(raw, verify=False) for raw in Bundle.from_wire(message.body).manifests]
    except RemoteError:
        return None  # it is in quarantine
    lowest = min((manifest.version for manifest in brought), default=1)
    before = records.manifests_from(message.group_id, max(1, lowest - 1), _LOOKED_AT)
    listings = (*reversed(brought), *(read_manifest(raw, verify=False) for raw in reversed(before)))
    return next(filter(None, (manifest.member(message.author) for manifest in listings)), None)
