"""Two devices disagree whether one of them is in a group: what the device then asks and sends.

1. A device that believes it is out, and gets messages as a member, asks for what it has lost.
2. A device that believes it is in, and receives a removal that it knows to be superseded, sends the manifest that added
   it again.

A device may have been added again, have acknowledged that, and have lost it with its state; or it holds a removal that
the others lack, from an incarnation of the issuer that is lost. The members list it, and it accepts nothing from them.
So if a member, by the last manifest held, sends something in the group, this device asks it for the manifests since
then, and gives it those held here: then both know the same. A member that does not list this device ignores it. One
member is asked every `PULL_US_MAX`, and has an address for `VISIT_US`, as a visitor has. What it is sent waits no
longer than that, also if the two share a group since, or if the notice of an earlier parting gives it an address for
longer. A member that shares another group is not asked, because it may never accept that: it learns the heads of the
groups here, and sends what is missing (`heads.py`, rule 7).

Conversely, a device may have been added again by a lost incarnation of a member, and no other member knows. Members
accept from it only reports about its groups, and answer those with its removal (`former_members.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.group.messages import Bundle, GroupSend, first_within, pull_to_wire
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.carriage import Carriage
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message, MessageType
from covey.limits.group import BUNDLE_MANIFESTS, PULL_US_MAX
from covey.limits.pairing import VISIT_US

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords


class AskingBack:
    """Asks, one member of each group at a time. Nothing of it is durable."""

    def __init__(self, own: DeviceKey, groups: Groups, records: GroupRecords, carriage: Carriage) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._carriage = carriage
        self._asked_at_us: dict[GroupId, int] = {}
        self._said_at_us: dict[GroupId, int] = {}

    def ask(self, message: Message, now: Now) -> list[GroupSend]:
        """Return what a message gives rise to, if anything. Writes, so inside a transaction."""
        group = next((each for each in self._groups.removed_from() if each.group_id == message.group_id), None)
        member = None if group is None else group.member(message.author)
        if group is None or member is None or not self._may_ask(group, member, now):
            return []
        if not self._groups.addresses.receive_visitor(member.keys):
            return []
        self._groups.readdress()
        self._asked_at_us[group.group_id] = now.monotonic_us
        trust = self._groups.trust(group.group_id)
        held = first_within([each.raw for each in trust.held()], self._carriage.maximum_payload)
        sends = [(MessageType.GROUP_PULL, pull_to_wire(trust.root.version))]
        if held:
            sends.append((MessageType.GROUP_MANIFEST, Bundle(held).to_wire()))
        return [GroupSend(message.author, kind, group.group_id, body, VISIT_US) for kind, body in sends]

    def answer(self, message: Message, now: Now) -> list[GroupSend]:
        """Return what a GROUP_MANIFEST gives rise to that was taken, and that ends with a removal of this device."""
        newest = [read_manifest(raw, verify=False) for raw in Bundle.from_wire(message.body).manifests[-1:]]
        group = next((each for each in self._groups.joined() if each.group_id == message.group_id), None)
        if not newest or newest[0].member(self._own) is not None:
            return []
        if group is None or group.member(message.author) is None:
            return []
        said_at_us = self._said_at_us.get(group.group_id)
        if said_at_us is not None and now.monotonic_us < said_at_us + PULL_US_MAX:
            return []
        later = self._records.manifests_from(group.group_id, newest[0].version, BUNDLE_MANIFESTS)
        listing = [raw for raw in later if read_manifest(raw, verify=False).member(self._own) is not None]
        fitting = first_within(listing, self._carriage.maximum_payload)
        if not fitting:
            return []
        self._said_at_us[group.group_id] = now.monotonic_us
        body = Bundle(fitting).to_wire()
        return [GroupSend(message.author, MessageType.GROUP_MANIFEST, group.group_id, body)]

    def _may_ask(self, group: GroupManifest, member: Member, now: Now) -> bool:
        asked_at_us = self._asked_at_us.get(group.group_id)
        if asked_at_us is not None and now.monotonic_us < asked_at_us + PULL_US_MAX:
            return False
        if member.is_board or not self._groups.shares_nothing_with(member.keys.signing_public):
            return False
        return group not in self._groups.left()
