"""`covey.core.membership.replay`: what waits for a past that is not here goes on waiting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.core.group.manifest import Member, genesis, read_manifest, secret_id, sign_manifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import GroupId
from covey.core.membership.replay import reopened
from covey.limits.group import MAXIMUM_OPEN_MANIFESTS
from tests.fleet import Device, found, identity


def test_a_manifest_far_above_the_stored_ones_reopens_nothing(tmp_path: Path) -> None:
    ann = Device("ann", tmp_path)
    group_id = found(ann)
    far = replace(ann.node.groups.group(group_id), version=10_000, raw=b"")
    one = sign_manifest(replace(far, prev=()), ann.identity)
    other = sign_manifest(replace(far, version=10_001, prev=(one.hash,)), ann.identity)
    waiting = {each.hash: each for each in (one, other)}
    assert reopened(ann.node.groups.trust(group_id), waiting, ann.store.groups) is None
    assert len(waiting) == 2


@pytest.mark.slow
def test_an_old_rival_that_a_member_has_taken_in_time_is_taken_later_too(tmp_path: Path) -> None:
    """Else the bound on old rivals parts a group: the manifest that ends the conflict would be a gap for ever."""
    ann, ben = Device("ann", tmp_path), identity("ben")
    group = GroupId(bytes(range(32)))
    chain = [sign_manifest(genesis(group, Member(ann.identity.keys), secret_id(b"first")), ann.identity)]
    chain.append(sign_manifest(chain[0].adding(Member(ben.keys)), ann.identity))
    for number in range(MAXIMUM_OPEN_MANIFESTS):
        own = chain[-1].member(ann.key)
        assert own is not None
        chain.append(sign_manifest(chain[-1].changing(replace(own, label=f"{number}")), ann.identity))
    listed = chain[1].member(ben.signing_public)
    assert listed is not None
    old = sign_manifest(chain[1].changing(replace(listed, label="late")), ben)
    in_time = GroupTrust(group, chain[0])
    for each in (*chain[1:], old):
        in_time.offer(read_manifest(each.raw), wanted=True)
    ending = sign_manifest(in_time.draft(secret_id(b"ending"), ann.key), ann.identity)
    with ann.store.transaction():
        for each in chain:
            ann.store.groups.save_manifest(group, each.hash, each.version, each.raw, 0)
        ann.store.groups.settle_manifests(group, chain[-1].version)
    ann.restart()
    with ann.store.transaction():
        ann.node.history_import.take_manifests(group, (old.raw,), ann.now)
    assert not ann.store.groups.has_manifest(group, old.hash), "by itself it is too old"
    with ann.store.transaction():
        ann.node.history_import.take_manifests(group, (old.raw, ending.raw), ann.now)
    current = ann.node.groups.group(group)
    assert current.raw == ending.raw
    renamed = current.member(ben.signing_public)
    assert renamed is not None
    assert renamed.label == "late"
