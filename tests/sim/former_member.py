"""A device that was a member, and was removed before the world begins: it goes on speaking, with all that it knew.

It has its keys, the manifests and the secret of the epoch that it left, and everybody's address. Its manifests follow
what it knew: they add a device that it makes up, and let members go; so do those of that device. Nobody may hear
anything of it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, read_manifest, sign_manifest
from covey.core.group.messages import Bundle, pull_to_wire
from covey.core.group.policy import Action, sign_vote
from covey.core.group.revocation import sign_revoke
from covey.core.ids import DeviceKey, EpochId, Incarnation, ManifestHash
from covey.core.pairing.invite import NO_INVITE, JoinRequest
from covey.core.wire import cbor
from covey.core.wire.message import NO_GROUP, Acknowledgement, LossReason, MessageType
from covey.core.wire.sequences import SequenceSet
from covey.limits.group import RIVALS_OF_ONE
from tests.fleet import identity
from tests.sim.hostile_sender import EXTREMES, HostileSender
from tests.sim.ledger import MARK, check
from tests.sim.template import FORMER

if TYPE_CHECKING:
    from tests.sim.device import Device
    from tests.sim.world import World

_SPEAKS, _ISSUES = Incarnation(b"former!!"), Incarnation(b"former m")
"""It numbers its manifests apart: those are taken, as they could come from a member that nobody knows of yet."""
_RIVALS = RIVALS_OF_ONE + 2
"""Manifests that follow the same one, in one message: more than anybody keeps."""


class FormerMember:
    """Acts towards those who have removed it."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world = world
        self._chance = chance
        self._identity = identity(FORMER)
        world.ledger.parted.add(self._identity.signing_public)  # it acknowledges what it likes
        self._sender = HostileSender(world, self._identity, chance)
        self._known = world.template.known_to_former
        self._latest = self._known
        self._accomplice = Identity.from_seeds(chance.randbytes(32), chance.randbytes(32))
        self.acts = 0

    def act(self) -> None:
        """Say one of these to one of the members."""
        self.acts += 1
        victim = self._chance.choice(self._world.devices[:3])
        says = (self._data, self._manifest, self._about_links, self._about_the_group, self._join, self._nonsense)
        self._chance.choice(says)(victim)

    def check_unheard(self) -> None:
        """Check that it has left nothing at any device, and has got nowhere."""
        keys = {device.identity.signing_public for device in self._world.devices}
        own, by_members = self._identity.signing_public, self._followed_by(keys)
        for device in self._world.devices:
            store = device.store
            check(store.received.of(own, _SPEAKS) == SequenceSet(), "a removed device was heard")
            members = {member.keys.signing_public for group in device.groups() for member in group.members}
            check(members <= keys, "who was removed is in again")
            believed = "SELECT count(*) FROM peer WHERE signing_public = ? AND replaced_at > 0"
            [shown] = store.connection.execute(believed, (own,)).fetchone()
            check(not shown, "a removed device had another begin an incarnation")
            kept = [read_manifest(raw, verify=False) for _, _, raw in store.groups.manifests()]
            followed = {before for each in kept for before in each.prev}
            rivals = [each for each in kept if each.issuer == own and each.hash not in followed | by_members]
            check(len(rivals) <= RIVALS_OF_ONE, "more rivals of a removed device than are bounded")
            outside = set(store.outbox.recipients()) - keys - {own}
            check(len(outside) <= 1, "devices that a removed one makes up are spoken to")

    def _followed_by(self, members: set[DeviceKey]) -> set[ManifestHash]:
        """Return all that manifests of members follow, directly or not, wherever these are.

        Who has taken that need not have what follows it any more: it was asked for in vain, and forgotten.
        """
        held: dict[ManifestHash, GroupManifest] = {}
        for device in self._world.devices:
            groups = device.store.groups
            raws = (*groups.manifests_from(self._known.group_id, 1), *groups.early_manifests(self._known.group_id))
            held |= {each.hash: each for each in (read_manifest(raw, verify=False) for raw in raws)}
        followed: set[ManifestHash] = set()
        for each in sorted(held.values(), key=lambda each: -each.version):
            if each.issuer in members or each.hash in followed:
                followed.update(each.prev)
        return followed

    def _data(self, victim: Device) -> None:
        kind = self._chance.choice((MessageType.BLOB, MessageType.TELEMETRY))
        self._say(victim, kind, cbor.encode([1, MARK + self._chance.randbytes(20)]))

    def _manifest(self, victim: Device) -> None:
        """Issue rivals of what removed it, or what follows an earlier one of its own."""
        before = self._chance.choice((self._known, self._latest))
        rivals = tuple(self._rival(before, victim, number) for number in range(self._chance.choice((1, _RIVALS))))
        followed = () if before is self._known else (before.raw,)
        body = Bundle((*followed, *(rival.raw for rival in rivals)), (self._world.template.secret_of_former,)).to_wire()
        self._sender.say(victim, MessageType.GROUP_MANIFEST, self._world.group_id, body, _ISSUES)
        self._latest = self._chance.choice((before, rivals[0]))

    def _rival(self, before: GroupManifest, victim: Device, number: int) -> GroupManifest:
        own = before.member(self._identity.signing_public)
        assert own is not None
        drafts = [before.changing(replace(own, label=f"former {self.acts} {number}"))]
        if before.member(victim.identity.signing_public) is not None:
            epoch_id = EpochId(self._chance.randbytes(len(before.epoch_id)))
            drafts.append(before.removing(victim.identity.signing_public, epoch_id))
        if before.member(self._accomplice.signing_public) is None:
            drafts.append(before.adding(Member(self._accomplice.keys)))
            return sign_manifest(self._chance.choice(drafts), self._identity)
        return sign_manifest(self._chance.choice(drafts), self._chance.choice((self._identity, self._accomplice)))

    def _about_links(self, victim: Device) -> None:
        incarnation = victim.incarnation or _SPEAKS
        kind, body = self._chance.choice(
            (
                (MessageType.ACK, Acknowledgement(incarnation, SequenceSet(self._extreme() >> 1)).to_wire()),
                (MessageType.RESUME, cbor.encode(self._sender.ranges())),
                (MessageType.LOSS, cbor.encode([int(LossReason.EXPIRED), self._sender.ranges(), [], None])),
                (MessageType.LINK, cbor.encode([self._chance.randbytes(16), self._chance.randbytes(32)])),
            )
        )
        self._sender.say(victim, kind, NO_GROUP, body, _SPEAKS)

    def _about_the_group(self, victim: Device) -> None:
        known, target = self._known, victim.identity.signing_public
        kind, body = self._chance.choice(
            (
                (MessageType.GROUP_PULL, pull_to_wire(self._chance.choice((1, known.version, self._extreme())))),
                (MessageType.REVOKE, sign_revoke(known, self._identity).raw),
                (MessageType.GROUP_VOTE, sign_vote(known.group_id, Action.BAN, target, 1, self._identity).raw),
            )
        )
        self._say(victim, kind, body)

    def _join(self, victim: Device) -> None:
        secret = self._chance.choice((NO_INVITE, self._chance.randbytes(16)))
        request = JoinRequest(secret, self._identity.noise_public, "former")
        self._say(victim, MessageType.JOIN, request.to_wire())

    def _nonsense(self, victim: Device) -> None:
        kinds = (MessageType.GROUP_INVITE, MessageType.GROUP_PULL, MessageType.FORWARD, MessageType.BLOB)
        self._say(victim, self._chance.choice(kinds), self._chance.randbytes(self._chance.randint(0, 60)))

    def _extreme(self) -> int:
        return self._chance.choice(EXTREMES)

    def _say(self, victim: Device, kind: MessageType, body: bytes) -> None:
        self._sender.say(victim, kind, self._world.group_id, body, _SPEAKS)
