"""Delete group data that has waited too long, at intervals.

1. Messages for a removed device are dropped after `DEPARTURE_US`; so is its address, then or as soon as it knows. Its
   telemetry stays until there is another collector for it (`collectors.py`). If another group is shared with it,
   everything stays.
2. Messages for the members of a group that removed this device are dropped, because they would not accept them; for a
   group that this device left, once they have acknowledged that. Notices to devices that it had removed there are
   dropped too, because members send those (`former_members.py`), except to devices that only void manifests added,
   which may know no other device. Messages for a device without an address are dropped, because nothing can be sealed
   for it, except those that programs gave.
3. A join request is repeated until `JOIN_GRACE_US` after its invite's end, and then withdrawn: nobody would accept it.
   A late answer is still accepted, until `JOIN_MEMORY_US` later.
4. A group that this device has left is erased: its secrets and its history as soon as one member has acknowledged the
   leaving, which then reaches all; its manifests once nothing waits for any member that shares no other group. Messages
   in it for the others are deleted with them, except results of orders.
5. The notice that two devices no longer share a group waits even if no relay is large enough for it, until rule 1 ends
   it: set aside, it would count as known.

When the secrets of a left group are erased, so are those in the outbox (`withdraw_secrets`):

6. A waiting GROUP_MANIFEST with the secret of an epoch that this device was in loses the secret: members give it to
   those that need it. The manifests remain, because they show what the notice of leaving follows.
7. The secret of an epoch that this device is not in stays in the notice: the leaving device draws it for those that
   stay.
8. Messages behind one that is rewritten are rewritten as well, so that all arrive in the order in which they were
   issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, read_manifest, secret_id
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey, GroupId, ManifestHash
from covey.core.link.send_queue import TAKEN_OF_FORMER_MEMBERS, SendQueue, groups_of_waiting
from covey.core.membership.events import JoinExpired
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.now import Now
from covey.core.pairing.pending import PendingJoin
from covey.core.wire.message import Message, MessageType, read_message
from covey.limits.pairing import JOIN_GRACE_US, JOIN_MEMORY_US

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.link import OutboxRecords


def give_up(membership: Membership, records: Records, queue: SendQueue, now: Now) -> Iterator[JoinExpired]:
    """Do what is due, and yield what a person should know. Writes, so inside a transaction."""
    for recipient in filter(membership.groups.shares_nothing_with, membership.end_departures()):
        _drop(recipient, "dropped_departures", records, queue, but_telemetry=True)
    _leave_to_members(membership.groups, records)
    groups = membership.groups
    former = {member.keys.signing_public for member in groups.left_behind()}
    notified = {key for key, _ in records.departures.addresses() if key not in former or _notices(key, records)}
    asked = {each.inviter.signing_public for each in records.joins.pending()}
    for recipient in set(records.outbox.recipients()) - notified - asked:
        is_out = recipient in former and groups.shares_nothing_with(recipient)
        if is_out or (groups.address(recipient) is None and not records.outbox.holds_submissions(recipient)):
            _drop(recipient, "dropped_after_removal", records, queue)
    _erase_left(membership, records, queue, now)
    for pending in records.joins.pending():
        if now.wall_us <= pending.expires_at_us + JOIN_GRACE_US:
            continue
        if _withdraw_request(pending, membership.groups, records, queue, now):
            records.counters.count("expired_joins")
            yield JoinExpired(pending.group_id, pending.inviter.signing_public)
        if now.wall_us > pending.expires_at_us + JOIN_GRACE_US + JOIN_MEMORY_US:
            records.joins.end(pending.group_id, pending.inviter.signing_public)
            membership.groups.refresh()


class LeftGroups:
    """Erases the content of groups that this device has left, once another member has acknowledged that.

    The manifests stay for the next round (rule 4): a device with the notice may lack what it follows, and ask for that.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._erased: set[tuple[GroupId, ManifestHash]] = set()
        """How those stood of which it is done."""
        self.may_go = False

    def acknowledged(self, device: DeviceKey) -> None:
        """Note that a device has acknowledged something that it had not before."""
        fresh = (group for group in self._groups.left() if (group.group_id, group.hash) not in self._erased)
        self.may_go = self.may_go or any(group.member(device) is not None for group in fresh)

    def erase(self, records: Records, queue: SendQueue, now: Now) -> None:
        """Erase what may go. Writes, so inside a transaction."""
        self.may_go = False
        left = {(group.group_id, group.hash): group for group in self._groups.left()}
        self._erased &= left.keys()
        for key in sorted(left.keys() - self._erased):
            if _is_known(left[key], records):
                _erase_words(left[key], self._groups, records, queue, now)
                self._erased.add(key)


def _leave_to_members(groups: Groups, records: Records) -> None:
    """Drop what this device owes to former members of a group that it has left itself (rule 2)."""
    left_behind = {group.group_id: group for group in groups.removed_from()}
    if not left_behind:
        return
    listed = {member.keys.signing_public for group in left_behind.values() for member in group.members}
    void = {key for group_id in left_behind for key in groups.trust(group_id).void_members()}
    owed = {key for key, _ in records.departures.addresses()} - listed - void
    for recipient in filter(groups.shares_nothing_with, sorted(owed)):
        about = _notices(recipient, records)
        if about and about <= left_behind.keys():
            records.departures.end(recipient)
    groups.readdress()


def _erase_left(membership: Membership, records: Records, queue: SendQueue, now: Now) -> None:
    erased = False
    for group in membership.groups.left():
        if not _is_known(group, records):
            continue
        _erase_words(group, membership.groups, records, queue, now)
        waiting = _members(group).intersection(records.outbox.recipients())
        if not _uninformed(group, records) and not any(map(membership.groups.shares_nothing_with, waiting)):
            for key in sorted(waiting):  # another group is shared with it by now
                queue.withdraw_of_group(key, group.group_id, now, TAKEN_OF_FORMER_MEMBERS)
            records.groups.forget(group.group_id)
            erased = True
    if erased:
        membership.groups.refresh()


def _erase_words(group: GroupManifest, groups: Groups, records: Records, queue: SendQueue, now: Now) -> None:
    records.groups.erase_content(group.group_id)
    withdraw_secrets(groups.own, group.group_id, records.outbox, queue, now)


def _is_known(group: GroupManifest, records: Records) -> bool:
    """Return whether another member, if there is one, has acknowledged that this device has left."""
    members = _members(group)
    return not members or _uninformed(group, records) < members


def _members(group: GroupManifest) -> set[DeviceKey]:
    return {member.keys.signing_public for member in group.members if not member.is_board}


def _uninformed(group: GroupManifest, records: Records) -> set[DeviceKey]:
    waiting = _members(group).intersection(records.outbox.recipients())
    return {key for key in waiting if group.group_id in _notices(key, records)}


def is_departure_notice(groups: Groups, message: Message) -> bool:
    """Say whether a message of ours notifies its recipient that they no longer share its group (rule 5)."""
    if message.type is not MessageType.GROUP_MANIFEST or not groups.addresses.notifies(message.recipient):
        return False
    return all(
        group.member(message.recipient) is None for group in groups.joined() if group.group_id == message.group_id
    )


def _notices(recipient: DeviceKey, records: Records) -> set[GroupId]:
    return set(groups_of_waiting(records.outbox, recipient, MessageType.GROUP_MANIFEST))


def _drop(
    recipient: DeviceKey, counter: str, records: Records, queue: SendQueue, *, but_telemetry: bool = False
) -> None:
    dropped = queue.forget(recipient, but_telemetry=but_telemetry)
    if dropped:
        records.counters.count(counter, dropped)


def _withdraw_request(pending: PendingJoin, groups: Groups, records: Records, queue: SendQueue, now: Now) -> bool:
    """Take a join request out of the outbox; return False where none waits (rule 3)."""
    inviter = pending.inviter.signing_public
    for place, raw in records.outbox.control_messages(inviter):
        message = read_message(raw, verify=False)
        if message.type is MessageType.JOIN and message.group_id == pending.group_id:
            notify = not groups.shares_nothing_with(inviter)  # a stranger would not take a loss record
            queue.withdraw(inviter, place, now, "expired", notify=notify)
            return True
    return False


def withdraw_secrets(own: DeviceKey, group_id: GroupId, outbox: OutboxRecords, queue: SendQueue, now: Now) -> None:
    """Have a group's manifests that wait go without the secrets of epochs that `own` was in. Writes."""
    for recipient in outbox.recipients():
        is_rewritten = False
        for place, raw in outbox.control_messages(recipient):
            message = read_message(raw, verify=False)
            if message.type is not MessageType.GROUP_MANIFEST or message.group_id != group_id:
                continue
            bundle = Bundle.from_wire(message.body)
            bare = replace(bundle, secrets=_secrets_without(own, bundle))
            if bare != bundle:
                queue.remove(recipient, place)
                queue.queue(recipient, message.type, group_id, bare.to_wire(), now, beyond=True)
                is_rewritten = True
            elif is_rewritten:
                queue.requeue(recipient, place, now)


def _secrets_without(own: DeviceKey, bundle: Bundle) -> tuple[bytes, ...]:
    if not bundle.secrets:
        return ()
    manifests = [read_manifest(raw, verify=False) for raw in bundle.manifests]
    without = {each.epoch_id for each in manifests if each.member(own) is None}
    return tuple(each for each in bundle.secrets if secret_id(each) in without)
