"""Who was removed, and does not know: what it is sent (docs/protocol.md, "Heads", rules 3 and 4).

1. It is sent the manifests up to the first one that does not list it, and nothing later; one part of them after the
   other, where no message carries all.
2. Whoever issued that one tells it by itself; but its state may be restored, lost or gone. So any member answers the
   report of a former member, which names a group of which a manifest here lists it. Nothing else that it says is heard.
3. It is told as often as `pacing.py` says, and not while a control message waits for it. Those whom only what is void
   has let in are no former members: an ex-member may have made them up.
4. To find out who was one costs the reading of manifests: that is done for so many reports of strangers in a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from covey.core.group.manifest import Member, read_manifest
from covey.core.group.messages import Bundle, GroupSend, first_within
from covey.core.ids import DeviceKey
from covey.core.link.carriage import Carriage
from covey.core.link.rates import TokenBucket
from covey.core.membership.groups import Groups
from covey.core.membership.records import GroupRecords
from covey.core.now import Now
from covey.core.wire.heads import GroupHead, HeadsReport
from covey.core.wire.message import Message, MessageType
from covey.errors import NotAMemberError, RateError
from covey.limits.group import BUNDLE_BYTES
from covey.limits.heads import FORMER_LOOK_SECONDS, REMOVAL_MANIFESTS

MaySay = Callable[[tuple[object, ...], DeviceKey, bytes, int], bool]
"""Says whether something (the key) may go to a device now, as what it is about stands; and notes that it does."""

Times = Callable[[tuple[object, ...], bytes], int]
"""Says how often something (the key) has gone, as what it is about stands."""

_LOOKED_BACK = (0, 1, 4, 16)
"""Versions before the one that a device holds: what it holds may be a rival of what removed it, or follow one."""


class _Removal(NamedTuple):
    member: Member
    manifests: list[bytes]


class FormerMembers:
    """Tells devices that were removed, whoever removed them."""

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        records: GroupRecords,
        carriage: Carriage,
        may_say: MaySay,
        times: Times,
        looks: TokenBucket,
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._carriage = carriage
        self._may_say = may_say
        self._times = times
        self._looks = looks

    def receive(self, message: Message, now: Now) -> list[GroupSend]:
        """Take the report of a device that shares no group with this one; return what tells it of its removal.

        Raises:
            RemoteError: malformed, it was never a member, or too many ask (`rate`).
        """
        if self._looks.wait_us(now.monotonic_us):
            raise RateError("more reports by strangers than are looked at in this time")
        self._looks.spend(FORMER_LOOK_SECONDS, now.monotonic_us)
        device, sends, known = message.author, list[GroupSend](), False
        for head in HeadsReport.from_wire(message.body).heads:
            removal = self._removal(head, device)
            if removal is not None:
                known = True
                sends += self._notify(removal, head, device, now)
                if sends:
                    self._groups.addresses.keep_notifying([removal.member])
        if not known:
            raise NotAMemberError("a HEADS by a stranger")
        if sends:
            self._groups.readdress()
        return sends

    def notice(self, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        """Return what tells of its removal a device that is a member of another group; nothing where it is too soon."""
        removal = self._removal(head, device)
        return self._notify(removal, head, device, now) if removal is not None else []

    def _removal(self, head: GroupHead, device: DeviceKey) -> _Removal | None:
        """Return the manifests that lead from what a device holds to its removal; None where it was not removed."""
        trust = self._groups.trust_of(head.group_id)
        if trust is None or trust.current is None or self._groups.is_revoked(head.group_id):
            return None
        if trust.current.member(self._own) is None or trust.current.member(device) is not None:
            return None
        if device in trust.void_members():
            return None
        tried = dict.fromkeys(max(1, head.version - back) for back in _LOOKED_BACK)
        return next(filter(None, (self._removal_after(head, version, device) for version in tried)), None)

    def _removal_after(self, head: GroupHead, version: int, device: DeviceKey) -> _Removal | None:
        """Return the manifests from a version on that lead to a device's removal; None where none lists it first."""
        manifests: list[bytes] = []
        listed: Member | None = None
        for raw in self._records.manifests_from(head.group_id, version, REMOVAL_MANIFESTS):
            manifests.append(raw)
            if sum(map(len, manifests)) > BUNDLE_BYTES and len(manifests) > 1:
                break  # the rest when it has these
            member = read_manifest(raw, verify=False).member(device)
            if member is None and listed is not None:
                break
            listed = member or listed
        return _Removal(listed, manifests) if listed is not None and not listed.is_board else None

    def _notify(self, removal: _Removal, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        key = ("told", device, head.group_id)
        fitting = self._fitting(removal.manifests, self._times(key, head.digest))
        if not fitting or not self._may_say(key, device, head.digest, now.monotonic_us):
            return []
        body = Bundle(fitting).to_wire()
        return [GroupSend(device, MessageType.GROUP_MANIFEST, head.group_id, body)]

    def _fitting(self, manifests: list[bytes], times: int) -> tuple[bytes, ...]:
        """Return what one message carries: what follows where the first ones went, and the device holds what it did."""
        parts: list[tuple[bytes, ...]] = []
        while fitting := first_within(manifests, self._carriage.maximum_payload):
            parts.append(fitting)
            manifests = manifests[len(fitting) :]
        return parts[times % len(parts)] if parts else ()
