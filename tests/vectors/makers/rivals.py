"""Graphs of rivals, for group_manifests.json: devices that hold the same agree, wherever their graph begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, read_manifest, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import EpochId
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, identity, seeded

_DAVE = identity("dave")
_Edit = Callable[[GroupManifest, EpochId], GroupManifest]


def _adds(device: Identity) -> _Edit:
    return lambda draft, _epoch: draft.adding(Member(device.keys))


def _removes(*devices: Identity) -> _Edit:
    def edit(draft: GroupManifest, epoch: EpochId) -> GroupManifest:
        for device in devices:
            draft = draft.removing(device.signing_public, epoch)
        return draft

    return edit


def _replaces(device: Identity, by: Identity) -> _Edit:
    return lambda draft, epoch: draft.removing(device.signing_public, epoch).adding(Member(by.keys))


def _relabels(*devices: Identity) -> _Edit:
    def edit(draft: GroupManifest, _epoch: EpochId) -> GroupManifest:
        for device in devices:
            member = draft.member(device.signing_public)
            assert member is not None
            draft = draft.changing(replace(member, label=f"version {draft.version}"))
        return draft

    return edit


_Story = list[tuple[Identity, _Edit, list[int]]]
"""After a genesis by Alice: by whom, what, and the indexes of the manifests that it follows."""


def _graph(story: _Story) -> list[GroupManifest]:
    made = [sign_manifest(genesis(GROUP_ID, Member(ALICE.keys), secret_id(seeded("epoch 1"))), ALICE)]
    known = [{0}]
    for issuer, edit, follows in story:
        past = set(follows).union(*(known[each] for each in follows))
        trust = GroupTrust(GROUP_ID, made[0])
        for index in sorted(past - {0}):
            trust.offer(made[index])
        epoch = secret_id(seeded(f"epoch of rival {len(made)}"))
        unsigned = trust.finish(edit(trust.draft(epoch, issuer.signing_public), epoch), epoch)
        made.append(read_manifest(sign_manifest(unsigned, issuer).raw))
        known.append(past)
    return made


_LET_BACK_IN: _Story = [
    (ALICE, _adds(BOB), [0]),
    (ALICE, _replaces(BOB, CAROL), [1]),
    (CAROL, _relabels(CAROL), [2]),
    (ALICE, _adds(MALLORY), [2]),
    (MALLORY, _relabels(MALLORY), [4]),
    (CAROL, _adds(BOB), [3]),
    (ALICE, _removes(CAROL), [3]),
    (BOB, _adds(_DAVE), [5, 6]),
]
_REMOVER_REMOVED: _Story = [
    (ALICE, _adds(BOB), [0]),
    (ALICE, _adds(CAROL), [1]),
    (ALICE, _relabels(ALICE), [2]),
    (BOB, _removes(CAROL), [2]),
    (ALICE, _adds(CAROL), [4]),
    (CAROL, _relabels(ALICE, BOB), [5]),
    (CAROL, _relabels(CAROL), [3]),
    (BOB, _removes(ALICE), [7, 4]),
]
_OLD_RIVAL: _Story = [
    (ALICE, _adds(BOB), [0]),
    (ALICE, _adds(CAROL), [1]),
    (ALICE, _adds(MALLORY), [2]),
    (ALICE, _removes(MALLORY), [3]),
    (ALICE, _removes(CAROL), [4]),
    (CAROL, _adds(MALLORY), [4]),
    (MALLORY, _adds(_DAVE), [6]),
    (CAROL, _relabels(CAROL), [2]),
]
_OLD_WISHES: _Story = [
    (ALICE, _adds(BOB), [0]),
    (ALICE, _adds(CAROL), [1]),
    (ALICE, _adds(MALLORY), [2]),
    (CAROL, _removes(BOB), [3]),
    (ALICE, _adds(BOB), [4]),
    (MALLORY, _removes(BOB), [5]),
    (ALICE, _adds(BOB), [6]),
    (BOB, _removes(CAROL), [7]),
    (ALICE, _adds(CAROL), [8]),
    (MALLORY, _removes(CAROL), [9]),
    (ALICE, _adds(CAROL), [10]),
    (ALICE, _removes(BOB, CAROL), [11]),
    (BOB, _removes(ALICE), [11]),
    (CAROL, _removes(ALICE), [11]),
]

_GRAPHS = [
    ("a removed device is let back in by an accomplice, and lets another one in", _LET_BACK_IN, 2),
    ("a remover is removed by the one whom it has let back in", _REMOVER_REMOVED, 2),
    ("the same as the first, with an old rival by the accomplice", _OLD_RIVAL, 2),
    ("removals from before the last manifest that all follow are no wishes", _OLD_WISHES, 11),
]


def agreements() -> list[dict[str, Any]]:
    """Return graphs, and what every device believes that holds one, from its genesis on or from a later manifest on."""
    return [_described(name, _graph(story), begins) for name, story, begins in _GRAPHS]


def _described(name: str, manifests: list[GroupManifest], begins: int) -> dict[str, Any]:
    trust = GroupTrust(GROUP_ID, manifests[0])
    for each in manifests[1:]:
        trust.offer(each)
    current = trust.current
    assert current is not None
    return {
        "name": name,
        "manifests": [each.raw.hex() for each in manifests],
        "begins": begins,
        "members": [each.keys.signing_public.hex() for each in current.members],
        "banned": [[each.signing_public.hex(), each.since] for each in current.banned],
        "epoch": current.epoch,
        "conflict": trust.conflict,
        "heads": [each.hash.hex() for each in trust.heads()],
    }
