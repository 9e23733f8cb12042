"""Tell former members that they were removed (docs/protocol/groups.md, "Heads", rules 3 and 4).

1. A former member is sent the manifests up to the first one that does not list it, and nothing later; in several
   messages if one cannot carry them. If that leaves it with what it held, it is sent manifests from further back: it
   may hold others since the last one that it shares with the members.
2. The issuer of the removal notifies it, but the issuer's state may be restored, lost or gone. So any member answers
   the report of a former member that names a group of which a manifest here lists it. Nothing else from it is accepted.
3. It is notified as often as `pacing.py` allows, and not while a control message waits for it. Devices that only void
   manifests added are not former members: an ex-member may have invented them.
4. Finding out who was a member requires reading manifests, so only a limited number of strangers' reports are checked
   in a given time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.group.messages import Bundle, GroupSend, first_within
from covey.core.ids import DeviceKey, GroupId, ManifestHash
from covey.core.link.carriage import Carriage
from covey.core.link.rates import TokenBucket
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.heads import GroupHead, HeadsReport
from covey.core.wire.message import Message, MessageType
from covey.errors import NotAMemberError, RateError
from covey.limits.group import BUNDLE_BYTES, BUNDLE_MANIFESTS
from covey.limits.heads import FORMER_LOOK_BYTES, FORMER_LOOK_SECONDS, REMOVAL_MANIFESTS

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords

MaySay = Callable[[str, DeviceKey, GroupId, bytes, int], bool]
"""Says whether a kind of message of a group may go to a device now, as what it is about stands; and notes that it
does."""

Times = Callable[[tuple[object, ...], bytes], int]
"""Says how often something (the key) has gone, as what it is about stands."""

_REMOVAL = "told"

_LOOKED_BACK = (0, 1, 4, 16)
"""Versions before the one that a device holds: what it holds may be a rival of what removed it, or follow one. Where it
has issued many of these, the same before the one held here: it was removed of late. When a ban was, is known."""


class _Notice(NamedTuple):
    """What one message tells a device of its removal, and how it was last listed."""

    member: Member
    manifests: tuple[bytes, ...]


class FormerMembers:
    """Notifies removed devices, whichever member removed them."""

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
            raise RateError("too many reports by unknown devices")
        self._looks.spend(FORMER_LOOK_SECONDS, now.monotonic_us)
        device, sends, known = message.author, list[GroupSend](), False
        for head in HeadsReport.from_wire(message.body).heads:
            notice = self._notice(head, device)
            if notice is not None:
                known = True
                sends += self._notify(notice, head, device, now)
                if sends:
                    self._groups.addresses.keep_notifying([notice.member])
        if not known:
            raise NotAMemberError("a HEADS by an unknown device")
        if sends:
            self._groups.readdress()
        return sends

    def notice(self, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        """Return what tells of its removal a device that is a member of another group; nothing where it is too soon."""
        notice = self._notice(head, device)
        return self._notify(notice, head, device, now) if notice is not None else []

    def _notify(self, notice: _Notice, head: GroupHead, device: DeviceKey, now: Now) -> list[GroupSend]:
        if not self._may_say(_REMOVAL, device, head.group_id, head.digest, now.monotonic_us):
            return []
        body = Bundle(notice.manifests).to_wire()
        return [GroupSend(device, MessageType.GROUP_MANIFEST, head.group_id, body)]

    def _notice(self, head: GroupHead, device: DeviceKey) -> _Notice | None:
        """Return the notice of a device's removal; None if it was not removed.

        While the device still reports what it held, each call returns another part, or another path.
        """
        trust = self._groups.trust_of(head.group_id)
        if trust is None or trust.current is None or self._groups.is_revoked(head.group_id):
            return None
        if trust.current.member(self._own) is None or trust.current.member(device) is not None:
            return None
        if device in trust.void_members():
            return None
        times, found = self._times((_REMOVAL, device, head.group_id), head.digest), list[_Notice]()
        most = min(BUNDLE_MANIFESTS, REMOVAL_MANIFESTS << min(times, 8))
        read = _Reading(self._records, head.group_id)
        for notice in self._notices(head, trust.current, device, read, most):
            found.append(notice)
            if len(found) > times:
                break
        return found[times % len(found)] if found else None

    def _notices(
        self, head: GroupHead, current: GroupManifest, device: DeviceKey, read: _Reading, most: int
    ) -> Iterator[_Notice]:
        behind = head.version < current.version
        for version in dict.fromkeys(max(1, each) for each in _where_it_may_be(head, current, device)):
            found = read.manifests_from(version, most)
            member, manifests = _removal_in(found, device, in_part=behind and version == head.version)
            while member is not None and (fitting := first_within(manifests, self._carriage.maximum_payload)):
                yield _Notice(member, fitting)
                manifests = manifests[len(fitting) :]


class _Reading:
    """Manifests of one group for one notice: each is read once, and `FORMER_LOOK_BYTES` of them at most."""

    def __init__(self, records: GroupRecords, group_id: GroupId) -> None:
        self._records = records
        self._group_id = group_id
        self._found: dict[bytes, GroupManifest] = {}
        self._bytes_left = FORMER_LOOK_BYTES

    def manifests_from(self, version: int, most: int) -> Iterator[GroupManifest]:
        """Yield the first manifests from a version on, by version and hash, as long as there is room for them."""
        for after in range(0, most, REMOVAL_MANIFESTS):
            part = self._records.manifests_from(self._group_id, version, REMOVAL_MANIFESTS, after)
            for raw in part:
                if raw not in self._found:
                    self._bytes_left -= len(raw)
                    if self._bytes_left < 0:
                        return
                    self._found[raw] = read_manifest(raw, verify=False)
                yield self._found[raw]
            if len(part) < REMOVAL_MANIFESTS:
                return


def _listed(listing: dict[ManifestHash, Member]) -> Member | None:
    """Return a device's last member record; None for boards, which follow no manifests, and strangers."""
    member = next(reversed(listing.values()), None)
    return None if member is None or member.is_board else member


def _where_it_may_be(head: GroupHead, current: GroupManifest, device: DeviceKey) -> Iterator[int]:
    ban = current.ban(device)
    if ban is not None and ban.since <= head.version:
        yield ban.since - 1
    yield from (head.version - back for back in _LOOKED_BACK)
    if current.version < head.version:
        yield from (current.version - back for back in _LOOKED_BACK)


def _removal_in(
    read: Iterable[GroupManifest], device: DeviceKey, *, in_part: bool
) -> tuple[Member | None, list[bytes]]:
    """Return a device's last member record, and the manifests that lead to its removal.

    The removal does not list the device, and follows only manifests that do; nothing later is returned. The record is
    None if no removal is found; `in_part` collects manifests towards one beyond those read.
    """
    manifests: list[bytes] = []
    listing: dict[ManifestHash, Member] = {}
    size, passed_over = 0, False
    for manifest in read:
        size += len(manifest.raw)
        if size > BUNDLE_BYTES and listing:
            break
        member = manifest.member(device)
        if member is not None:
            manifests.append(manifest.raw)
            listing[manifest.hash] = member
        elif listing and all(each in listing for each in manifest.prev):
            manifests.append(manifest.raw)
            return _listed(listing), manifests
        else:
            passed_over = True
    return None if passed_over or not in_part else _listed(listing), manifests
