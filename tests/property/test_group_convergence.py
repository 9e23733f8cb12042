"""Groups that change on all sides at once: whoever holds the same manifests believes the same."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.group.resolver import GroupState
from covey.core.group.trust import GroupTrust
from covey.core.ids import EpochId
from covey.errors import LocalError, RemoteError
from tests.replay import replay
from tests.vectors.makers.cast import GROUP_ID, identity

_DEVICES = tuple(identity(f"device {number}") for number in range(8))
_FOUNDERS = 5


def _epoch(label: object) -> EpochId:
    return secret_id(repr(label).encode())


def _founded() -> list[GroupManifest]:
    chain = [sign_manifest(genesis(GROUP_ID, Member(_DEVICES[0].keys), _epoch(0)), _DEVICES[0])]
    for device in _DEVICES[1:_FOUNDERS]:
        chain.append(sign_manifest(chain[-1].adding(Member(device.keys)), _DEVICES[0]))
    return chain


_CHAIN = _founded()


@dataclass
class Replica:
    """One device's trust, and manifests that wait for what they follow."""

    device: Identity
    trust: GroupTrust = field(default_factory=lambda: GroupTrust(GROUP_ID, _CHAIN[-1]))
    early: list[GroupManifest] = field(default_factory=list)
    settles: bool = False

    def take(self, manifest: GroupManifest) -> None:
        self.early.append(manifest)
        moved = True
        while moved:
            moved = False
            for each in list(self.early):
                try:
                    self.trust.offer(each)
                except RemoteError as error:
                    if error.code != "version_gap":
                        raise
                else:
                    self.early.remove(each)
                    moved = True

    @property
    def current(self) -> GroupManifest:
        assert self.trust.current is not None
        return self.trust.current

    def issue(self, kind: int, target: Identity, mark: int) -> GroupManifest | None:
        """Sign a change as this device, if it may think itself a member."""
        held = self.current
        if held.member(self.device.signing_public) is None:
            return None
        draft = self.trust.draft(_epoch(("draft", mark)), self.device.signing_public)
        try:
            if kind == 0:
                unsigned = draft.adding(Member(target.keys, f"label {mark}"))
            elif kind == 1:
                unsigned = _removing(self.trust, draft, target, mark)
            elif kind == 2:
                member = held.member(target.signing_public)
                unsigned = draft.changing(replace(member, label=f"label {mark}")) if member else draft
            elif kind == 4 and target is not self.device:  # a member or not
                banned = draft.banning(target.signing_public, _epoch(("epoch", mark)))
                unsigned = self.trust.finish(banned, _epoch(("epoch", mark)))
            elif kind == 5:
                unsigned = draft.unbanning(target.signing_public)
            else:
                unsigned = draft
        except LocalError:
            return None
        if not unsigned.members or (unsigned is draft and len(draft.prev) == 1):
            return None
        signed = sign_manifest(unsigned, self.device)
        self.trust.update(signed.raw)
        return signed


def _removing(trust: GroupTrust, draft: GroupManifest, target: Identity, mark: int) -> GroupManifest:
    removed = draft.removing(target.signing_public, _epoch(("epoch", mark)))
    highest = max(head.epoch for head in trust.heads() if head.hash in draft.prev)
    return replace(removed, epoch=highest + 1)


events = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(0, 7), st.integers(0, 255)), min_size=1, max_size=14
)


def _play(story: list[tuple[int, int, int, int]]) -> tuple[list[Replica], list[GroupManifest]]:
    """Let devices change the group while each hears of others' changes only by chance."""
    replicas = [Replica(device) for device in _DEVICES]
    written: list[GroupManifest] = []
    for mark, (who, kind, target, hears) in enumerate(story):
        issued = replicas[who].issue(kind, _DEVICES[target], mark)
        if issued is None:
            continue
        written.append(issued)
        for place, replica in enumerate(replicas):
            if place != who and hears >> place & 1:
                replica.take(issued)
    return replicas, written


@given(events, st.randoms(use_true_random=False))
def test_members_with_the_same_manifests_agree(
    story: list[tuple[int, int, int, int]], chance: random.Random
) -> None:  # accepts: 000.16, 000.17, 001.02, 001.18
    replicas, written = _play(story)
    for replica in replicas:
        missing = [each for each in written for _ in range(2)]
        chance.shuffle(missing)
        for manifest in missing:
            replica.take(manifest)
        assert not replica.early
    for replica in replicas[1:]:
        assert replica.current == replicas[0].current
        assert [each.hash for each in replica.trust.heads()] == [each.hash for each in replicas[0].trust.heads()]


@given(events)
def test_the_manifest_that_ends_a_conflict_states_what_all_believed(
    story: list[tuple[int, int, int, int]],
) -> None:  # accepts: 000.17
    replicas, written = _play(story)
    for manifest in written:
        for replica in replicas:
            replica.take(manifest)
    before = GroupState.of(replicas[0].current) if replicas[0].current.members else None
    endings = [ending for replica in replicas if (ending := replica.issue(3, replica.device, 99)) is not None]
    for ending in endings:
        assert GroupState.of(ending) == before
        for replica in replicas:
            replica.take(ending)
    if endings:
        assert {replica.current.raw for replica in replicas} == {replicas[0].current.raw}
        assert not replicas[0].trust.conflict
        everything = sorted([*written, *endings], key=lambda each: (each.version, each.hash))
        ended = replay([each.raw for each in (*_CHAIN, *everything)])
        assert ended.raw == replicas[0].current.raw


@given(events)
def test_a_settled_past_changes_no_outcome(story: list[tuple[int, int, int, int]]) -> None:
    """A device that forgets what all manifests follow comes to the same as one that does not."""
    _, written = _play(story)
    forgetful, whole = (Replica(_DEVICES[0]) for _ in range(2))
    ordered = sorted(written, key=lambda each: (each.version, each.hash))
    for place, manifest in enumerate(ordered):
        whole.take(manifest)
        forgetful.take(manifest)
        awaited = {each for later in ordered[place + 1 :] for each in later.prev} - {manifest.hash}
        if awaited.isdisjoint(each.hash for each in forgetful.trust.held()):
            forgetful.trust.settle()
    assert GroupState.of(forgetful.current) == GroupState.of(whole.current)


@given(events)
def test_the_removed_gain_nothing(story: list[tuple[int, int, int, int]]) -> None:  # accepts: 000.20, 000.26
    """Whatever a removed device signs in ignorance, it lets nobody in, once its removal is known.

    Its remover is the eldest: so removing that one in return gains nothing either.
    """
    removal = sign_manifest(_CHAIN[-1].removing(_DEVICES[4].signing_public, _epoch("removal")), _DEVICES[0])
    thief, victim = Replica(_DEVICES[4]), Replica(_DEVICES[1])
    for mark, (_, kind, target, _) in enumerate(story):
        issued = thief.issue(kind, _DEVICES[target], mark)
        if issued is not None:
            victim.take(issued)
    victim.take(removal)
    assert GroupState.of(victim.current) == GroupState.of(removal)
    assert not victim.trust.conflict
