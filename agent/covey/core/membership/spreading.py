"""Manifests on their way to others: which device gets which, as many at a time as a relay carries.

What one message cannot carry is left out: a device that receives a manifest that follows something missing asks for
that (`maintenance.py`). One manifest is sent even if no relay accepts it, since people can also carry a message by
hand. Each manifest comes after those that it follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member
from covey.core.group.messages import Bundle, GroupSend, first_within
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.carriage import Carriage
from covey.core.wire.message import MessageType

if TYPE_CHECKING:
    from covey.core.records.groups import GroupRecords


class Spreading:
    """Makes the messages by which others come to know manifests."""

    def __init__(self, records: GroupRecords, carriage: Carriage) -> None:
        self._records = records
        self._carriage = carriage

    def of_change(
        self,
        before: GroupManifest,
        manifest: GroupManifest,
        nearest_first: list[GroupManifest],
        audience: Iterable[DeviceKey],
    ) -> list[GroupSend]:
        """Return a manifest of ours as messages for everybody who was in the group in the eyes of anybody.

        `nearest_first` begins with it. Who is listed gets the secret of an epoch that begins.
        """
        begins = manifest.epoch_id != before.epoch_id
        secrets = self._secret_of(manifest) if begins else ()
        news = self._bundled(nearest_first)
        inside, outside = Bundle(news, secrets).to_wire(), Bundle(news).to_wire()
        listed = {member.keys.signing_public for member in manifest.members}
        return [self._send(each, manifest.group_id, inside if each in listed else outside) for each in sorted(audience)]

    def to_newcomer(self, trust: GroupTrust, newcomer: DeviceKey, secret: bytes | None) -> GroupSend:
        """Return the group as it is, for a device that was let in: all that is held, or the last one, which is ours."""
        held = [manifest.raw for manifest in trust.held()]
        fitting = self._fitting(held)
        manifests = fitting if len(fitting) == len(held) else (held[-1],)
        bundle = Bundle(manifests, (secret,) if secret is not None else ())
        return self._send(newcomer, trust.group_id, bundle.to_wire())

    def to_visitor(self, group: GroupManifest, visitor: DeviceKey) -> GroupSend:
        """Return the manifest of a public group, for a device that wants to let itself in."""
        return self._send(visitor, group.group_id, Bundle((group.raw,)).to_wire())

    def to_readmitted(
        self, group_id: GroupId, missed: Sequence[bytes], former: DeviceKey, secret: bytes | None
    ) -> list[GroupSend]:
        """Return all that a device has missed that is a member again; the last message has the epoch's secret."""
        sends = []
        while missed:
            fitting = self._fitting(missed)
            missed = missed[len(fitting) :]
            bundle = Bundle(fitting, (secret,) if secret is not None and not missed else ())
            sends.append(self._send(former, group_id, bundle.to_wire()))
        return sends

    def to_void(self, group_id: GroupId, news: list[GroupManifest], void: Iterable[Member]) -> list[GroupSend]:
        """Return the manifests, oldest first, that make what let some members in void, for these."""
        body = Bundle(self._bundled(news[::-1])).to_wire()
        return [self._send(each.keys.signing_public, group_id, body) for each in void if not each.is_board]

    def _secret_of(self, manifest: GroupManifest) -> tuple[bytes, ...]:
        secret = self._records.secret(manifest.group_id, manifest.epoch_id)
        return () if secret is None else (secret,)

    def _bundled(self, nearest_first: list[GroupManifest]) -> tuple[bytes, ...]:
        fitting = nearest_first[: len(self._fitting([each.raw for each in nearest_first]))]
        return tuple(each.raw for each in sorted(fitting, key=lambda each: (each.version, each.hash)))

    def _fitting(self, raws: Sequence[bytes]) -> tuple[bytes, ...]:
        return first_within(raws, self._carriage.maximum_payload) or tuple(raws[:1])

    def _send(self, recipient: DeviceKey, group_id: GroupId, body: bytes) -> GroupSend:
        return GroupSend(recipient, MessageType.GROUP_MANIFEST, group_id, body)
