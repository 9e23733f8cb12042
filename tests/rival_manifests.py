"""Random graphs of manifests, as honest and hostile members could sign them, and the orders in which they may come."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from covey.core.crypto import DeviceKeys, Identity
from covey.core.group.manifest import (
    EQUAL_MODES,
    GroupManifest,
    Member,
    Mode,
    Role,
    genesis,
    read_manifest,
    secret_id,
    sign_manifest,
)
from covey.core.group.policy import Action, admins, sign_vote, target_since
from covey.core.group.resolver import GroupState
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, EpochId, GroupId, ManifestHash
from covey.errors import LocalError, RemoteError
from covey.limits.group import RIVALS_OF_ONE
from tests.fleet import identity

CAST = tuple(identity(name) for name in ("ann", "ben", "cat", "dan", "eve"))
GROUP = GroupId(bytes(range(32)))


class ManifestWriter:
    """Writes manifests one after the other, each valid for whoever holds what it follows."""

    def __init__(self, chance: random.Random, mode: Mode) -> None:
        self.chance = chance
        self.mode = mode
        role = Role.MEMBER if mode in EQUAL_MODES else Role.ADMIN
        self.written = [sign_manifest(genesis(GROUP, Member(CAST[0].keys), self._epoch(), mode), CAST[0])]
        self._past: dict[ManifestHash, set[ManifestHash]] = {self.written[0].hash: set()}
        self.founders = chance.randint(1, 3)
        for device in CAST[1 : self.founders]:
            self._keep(sign_manifest(self.written[-1].adding(Member(device.keys, role=role)), CAST[0]))

    def _epoch(self) -> EpochId:
        return secret_id(self.chance.randbytes(8))

    def _keep(self, manifest: GroupManifest) -> None:
        self.written.append(manifest)
        self._past[manifest.hash] = {*manifest.prev}.union(*(self._past[each] for each in manifest.prev))

    def write(self, *, calm: int, stormy: int) -> None:
        """Have the group changed in turn, each one knowing all, then at once, each one knowing what it may know."""
        for _ in range(calm):
            self._write(self.written)
        begun = len(self.written) - 1
        for _ in range(stormy):
            self._write(self._received(begun))

    def _write(self, received: Sequence[GroupManifest]) -> None:
        """Have somebody who holds some manifests try to change the group."""
        trust = GroupTrust(GROUP, received[0])
        for each in received[1:]:
            trust.offer(each, wanted=True)
        assert trust.current is not None
        listed = {member.keys.signing_public for member in trust.current.members}
        issuers = [each for each in CAST if each.signing_public in listed and self._may_issue_more(each)]
        if not issuers:
            return
        issuer = self.chance.choice(issuers)
        try:
            manifest = self._change(trust, issuer)
            trust.offer(manifest)
        except (LocalError, RemoteError):
            return
        if manifest.hash not in self._past:
            self._keep(manifest)

    def _may_issue_more(self, issuer: Identity) -> bool:
        """Say whether the bound on one issuer's rivals stays out of reach: which ones go is another rule."""
        issued = [each for each in self.written[self.founders :] if each.issuer == issuer.signing_public]
        return len(issued) < RIVALS_OF_ONE

    def _received(self, begun: int) -> list[GroupManifest]:
        """Return what one device has received: all but one branch, or a few of the last manifests and their past.

        A hostile device may act as if it had received no more than any part of what follows the one at `begun`.
        """
        chance = self.chance
        tips = chance.sample(self.written[begun:][-6:], min(len(self.written) - begun, chance.choice((1, 1, 2))))
        known = {each.hash for each in tips}.union(*(self._past[each.hash] for each in tips))
        if chance.random() < 0.2:
            missed = chance.choice(self.written[begun:]).hash
            known = {each.hash for each in self.written if each.hash != missed and missed not in self._past[each.hash]}
        return [each for each in self.written if each.hash in known] or self.written

    def _change(self, trust: GroupTrust, issuer: Identity) -> GroupManifest:
        epoch = self._epoch()
        draft = trust.draft(epoch, issuer.signing_public)
        edits: list[Callable[[GroupManifest, Identity, EpochId], GroupManifest]] = [
            *(self._adding for _ in range(6)),
            *(self._removing for _ in range(6)),
            self._unbanning,
            self._relabelling,
            lambda draft, *_: draft,
        ]
        edited = self.chance.choice(edits)(draft, issuer, epoch)
        if edited is draft and len(draft.prev) == 1:
            raise LocalError("nothing changes")
        manifest = sign_manifest(trust.finish(edited, epoch), issuer)
        if self.chance.random() < 0.4 and issuer.signing_public != CAST[0].signing_public:
            manifest = sign_manifest(self._with_other_allowances(manifest, trust), issuer)
        return read_manifest(manifest.raw)

    def _with_other_allowances(self, manifest: GroupManifest, trust: GroupTrust) -> GroupManifest:
        """Return what a hostile issuer writes: it burns pages, and gives newcomers all or nothing, in each rival."""
        known = {member.keys.signing_public for member in trust.draft(manifest.epoch_id, manifest.issuer).members}
        newcomers = [each for each in manifest.members if each.keys.signing_public not in known]
        own = manifest.member(manifest.issuer)
        if own is None:
            return manifest
        given = own.allowance // max(1, len(newcomers)) - 100 if self.chance.random() < 0.7 else 0
        left = own.allowance - given * len(newcomers) if newcomers else own.allowance // self.chance.choice((1, 2, 50))
        allowances = {each.keys.signing_public: max(0, given) + each.allowance for each in newcomers}
        allowances[manifest.issuer] = left
        members = [
            replace(each, allowance=allowances.get(each.keys.signing_public, each.allowance))
            for each in manifest.members
        ]
        return replace(manifest, members=tuple(members), raw=b"")

    def _adding(self, draft: GroupManifest, _issuer: Identity, _epoch: EpochId) -> GroupManifest:
        role = Role.ADMIN if self.mode not in EQUAL_MODES and self.chance.random() < 0.6 else Role.MEMBER
        outside = [each for each in CAST if draft.member(each.signing_public) is None]
        if not outside:
            raise LocalError("everybody is in")
        return draft.adding(Member(self.chance.choice(outside).keys, role=role))

    def _removing(self, draft: GroupManifest, issuer: Identity, epoch: EpochId) -> GroupManifest:
        issuers = [each.issuer for each in self.written[-6:] if draft.member(each.issuer)]
        target = self.chance.choice([*issuers, *(each.keys.signing_public for each in draft.members)])
        if target == issuer.signing_public and self.chance.random() < 0.7:
            raise LocalError("few leave")
        if target == issuer.signing_public:
            return draft.removing(target, epoch)
        if self.mode in EQUAL_MODES and self.chance.random() < 0.7:
            return draft.removing(target, epoch)
        action = Action.BAN if draft.member(target) else Action.KEEP_OUT
        return draft.banning(target, epoch, self._votes(draft, action, target))

    def _unbanning(self, draft: GroupManifest, _issuer: Identity, _epoch: EpochId) -> GroupManifest:
        if not draft.banned:
            raise LocalError("nobody is banned")
        target = self.chance.choice(draft.banned).signing_public
        return draft.unbanning(target, self._votes(draft, Action.UNBAN, target))

    def _votes(self, draft: GroupManifest, action: Action, target: DeviceKey) -> tuple[bytes, ...]:
        """Return the votes of all admins but the target."""
        state = GroupState.of(draft)
        epoch = draft.epoch - (len(draft.prev) > 1)  # a draft that ends a conflict has begun the next one
        since = target_since(state, epoch, action, target)
        voters = [each for each in CAST if each.signing_public in admins(state) and each.signing_public != target]
        return tuple(sign_vote(GROUP, action, target, since or 0, each).raw for each in voters)

    def _relabelling(self, draft: GroupManifest, issuer: Identity, _epoch: EpochId) -> GroupManifest:
        own = draft.member(issuer.signing_public)
        assert own is not None
        keys = identity(f"noise {self.chance.randrange(4)}").keys
        rotated = DeviceKeys(issuer.signing_public, keys.noise_public) if self.chance.random() < 0.4 else own.keys
        return draft.changing(replace(own, keys=rotated, label=f"{self.chance.randrange(100)}"))


def in_some_order(manifests: Sequence[GroupManifest], chance: random.Random) -> list[GroupManifest]:
    """Return manifests in any order in which each comes after what it follows."""
    left, placed, ordered = list(manifests), set[ManifestHash](), list[GroupManifest]()
    here = {each.hash for each in manifests}
    while left:
        ready = [each for each in left if placed.issuperset(here.intersection(each.prev))]
        chosen = chance.choice(ready)
        left.remove(chosen)
        placed.add(chosen.hash)
        ordered.append(chosen)
    return ordered


def awaited(manifests: Iterable[GroupManifest]) -> set[ManifestHash]:
    """Return what manifests follow."""
    return {each for manifest in manifests for each in manifest.prev}
