"""Replacing a device's own noise key in its groups (docs/protocol/groups.md, "Rotation").

A new key is stored before any device is notified (`state_folder.py`), and the previous key still opens what is sealed
for it. Then:

    1. In every group that lists a retired key for this device, it issues a manifest with the current one. So a rotation
       that a crash, a conflict or a join under the old key interrupted completes by itself. If a group lists a key that
       this device does not hold, it was lost with a state or a file: then the same happens, `LOST_KEY_US` after it was
       first seen, because another process may be about to store it, and again after `LOST_KEY_PAUSE_US`, because two
       devices may have this identity.
    2. A device that accepts such a manifest seals for the new key from then on, including repetitions.
    3. A retired key is deleted after `RETIRED_NOISE_KEY_US_MIN`, once all that have to know the new key do, and in any
       case after `RETIRED_NOISE_KEY_US_MAX`. It stays while a group of this device still lists it, because other
       messages would not reach this device. Two devices that were apart while both rotated reach each other only with
       the earlier keys.
    4. A device rotates by itself after an interval, longer in a large group, so that a group sees at most one new key
       every `ROTATION_PACE_US`; its key varies the interval by up to a fifth, so that not all rotate at once.
    5. It does not rotate while the previous rotation is unfinished, a control message or an answer to a join waits, an
       invite with its key is open, or a group is in conflict.

Of two concurrent rotations of one device the later in order of version and hash holds (`resolver.py`, rule 5). If that
is not the current key, rule 1 corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity, digest
from covey.core.group.features import own_announcement
from covey.core.group.manifest import COLLECTOR
from covey.core.group.messages import GroupSend
from covey.core.ids import GroupId, NoisePublic
from covey.core.link.queued import MessageClass
from covey.core.membership.groups import Groups
from covey.core.membership.membership import Membership
from covey.core.pairing.pending import OpenInvite
from covey.core.wire.message import MessageType
from covey.errors import LocalError
from covey.limits.key import RETIRED_NOISE_KEY_US_MAX, RETIRED_NOISE_KEY_US_MIN, ROTATION_PACE_US

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.link import OutboxRecords


def outdated(groups: Groups, identity: Identity) -> list[GroupId]:
    """Return the groups that list a retired noise key for this device (rule 1)."""
    retired = {key.public for key in identity.noise.retired}
    if not retired:
        return []
    return [
        group.group_id
        for group in groups.joined()
        if (own := group.member(identity.signing_public)) is not None and own.keys.noise_public in retired
    ]


def lost(groups: Groups, identity: Identity) -> list[GroupId]:
    """Return the groups that list a noise key for this device that it does not hold (rule 1)."""
    return [
        group.group_id
        for group in groups.joined()
        if (own := group.member(identity.signing_public)) is not None
        and not identity.noise.holds(own.keys.noise_public)
    ]


def announce(membership: Membership, identity: Identity, group_id: GroupId, now_us: int) -> list[GroupSend]:
    """Tell a group the current noise key (rule 1), and what this build supports.

    Raises:
        LocalError: another member uses that key: only another rotation helps.
        UnknownGroupError: this device is not in the group.
    """
    own = membership.groups.group(group_id).member(identity.signing_public)
    assert own is not None
    record = replace(own, keys=identity.keys, extensions=own_announcement())
    return membership.change(group_id, lambda draft, _: draft.changing(record), now_us)


def announce_in(
    groups: Iterable[GroupId], membership: Membership, identity: Identity, records: Records, now_us: int
) -> list[GroupSend]:
    """Announce the current key to groups; one that refuses is counted, and tried later."""
    sends: list[GroupSend] = []
    for group_id in groups:
        try:
            sends += announce(membership, identity, group_id, now_us)
        except LocalError:
            records.counters.count("unannounced_noise_keys")
            continue
        sends += _notify_boards(membership.groups, identity, records, group_id)
    return sends


def _notify_boards(groups: Groups, identity: Identity, records: Records, group_id: GroupId) -> list[GroupSend]:
    """Notify the boards that seal for this collector, because they follow no manifests (docs/protocol/boards.md,
    "Forwarding")."""
    group = groups.group(group_id)
    if identity.signing_public not in {member.keys.signing_public for member in group.with_capability(COLLECTOR)}:
        return []
    sends = []
    for board in (member.keys.signing_public for member in group.members if member.is_board):
        collector = groups.collector_of(group_id, board)
        ours = collector is not None and collector.keys.signing_public == identity.signing_public
        if ours or records.carriers.of(board) is not None:
            sends.append(GroupSend(board, MessageType.COLLECTOR_KEY, group_id, identity.noise_public))
    return sends


def rotation_due_us(groups: Groups, public: NoisePublic, since_us: int, interval_us: int) -> int:
    """Return when a key that is in use since some time is to be replaced, by the wall clock (rule 4)."""
    largest = max((len(group.members) for group in groups.joined()), default=0)
    mean_us = max(interval_us, largest * ROTATION_PACE_US)
    share = int.from_bytes(digest(b"covey/1 rotate", public)[:4], "big") / 2**32
    return since_us + int(mean_us * (0.8 + 0.4 * share))


def control_waits(outbox: OutboxRecords) -> bool:
    """Say whether any control message waits for an acknowledgement."""
    return outbox.bytes_by_class()[MessageClass.CONTROL] > 0


def announcement_bytes(groups: Groups) -> int:
    """Return how much a rotation puts into the outbox."""
    return sum(len(group.raw) * len(group.members) for group in groups.joined())


def may_rotate(groups: Groups, identity: Identity, records: Records, now_us: int) -> bool:
    """Say whether a rotation by itself would endanger nothing that is under way (rule 5)."""
    return not (
        identity.noise.retired
        or control_waits(records.outbox)
        or records.joins.pending()
        or any(each.expires_at_us > now_us and not _is_done(each) for each in records.invites.all())
        or any(not group.raw for group in groups.joined())
    )


def _is_done(invite: OpenInvite) -> bool:
    """Return whether no device needs the key in an invite any more; an invite by keys is used before its device reads
    it."""
    return invite.prepared_for is not None and invite.used_by is not None


def wiped(groups: Groups, identity: Identity, records: Records, now_us: int) -> list[NoisePublic]:
    """Return the retired noise keys whose time is over (rule 3)."""
    listed = {
        own.keys.noise_public for group in groups.joined() if (own := group.member(identity.signing_public)) is not None
    }
    everybody_knows = not control_waits(records.outbox) and not records.joins.pending()
    shortest = RETIRED_NOISE_KEY_US_MIN if everybody_knows else RETIRED_NOISE_KEY_US_MAX
    # A clock that was set by more than that, in either direction, is no reason to keep a key.
    return [
        key.public
        for key in identity.noise.retired
        if key.public not in listed and abs(now_us - key.retired_at_us) >= shortest
    ]
