"""`covey.core.membership.past`: a newcomer learns what went before it, where something names that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.manifest import GroupManifest, sign_manifest
from covey.core.group.messages import Bundle
from covey.core.history.bodies import Note
from covey.core.ids import GroupId
from covey.core.membership.past import Past
from covey.limits.group import BUNDLE_MANIFESTS
from tests.fleet import Device, Make, admit, carry, found


def _relabel(device: Device, group_id: GroupId, label: str) -> None:
    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        member = draft.member(device.key)
        assert member is not None
        return draft.changing(replace(member, label=label))

    with device.store.transaction():
        device.node.actions.change(group_id, edit, device.now)


@pytest.mark.slow
def test_a_newcomer_learns_the_whole_chain_that_the_history_rests_on(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    with ann.store.transaction():
        ann.node.history.write(group_id, Note("text/plain", b"in the beginning"), ann.now)
    for number in range(2 * BUNDLE_MANIFESTS):
        _relabel(ann, group_id, f"label {number}")
    admit(ann, ben, group_id)
    assert ben.store.groups.lowest_version(group_id) > 1
    for _ in range(120):
        for device in (ann, ben):
            device.wait(1)
            device.maintain()
        carry(ann, ben)
    assert ben.store.groups.lowest_version(group_id) == 1
    assert len(ben.store.operations.in_order(group_id)) == 1
    ben.restart()
    assert ben.node.groups.group(group_id) == ann.node.groups.group(group_id)


@pytest.mark.slow
def test_a_newcomer_learns_it_from_another_member_where_who_has_told_of_it_has_gone(make: Make) -> None:
    ann, ben, cid = make("ann"), make("ben"), make("cid")
    group_id = found(ann, cid)
    with ann.store.transaction():
        ann.node.history.write(group_id, Note("text/plain", b"in the beginning"), ann.now)
    for number in range(BUNDLE_MANIFESTS + 8):
        _relabel(ann, group_id, f"label {number}")
    carry(ann, cid)
    admit(ann, ben, group_id, cid)
    while not ben.store.catching_up.of(group_id):
        for device in (ann, ben):
            device.wait(1)
            device.maintain()
        carry(ann, ben)
    assert not ben.store.operations.in_order(group_id), "it is of before what ben was given"
    for _ in range(300):
        for device in (ben, cid):
            device.wait(1)
            device.maintain()
        carry(ben, cid)
    assert len(ben.store.operations.in_order(group_id)) == 1


def test_only_what_is_followed_is_believed(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann)
    _relabel(ann, group_id, "workshop")
    admit(ann, ben, group_id)
    genesis, second, *_ = ann.store.groups.manifests_from(group_id, 1, 9)
    held = ben.store.groups.lowest_version(group_id)
    forged = sign_manifest(replace(ann.node.groups.group(group_id), version=held - 1, raw=b""), ben.identity)
    past = Past(ben.store.groups)
    with ben.store.transaction():
        assert not past.take(group_id, (genesis, forged.raw, b"nothing"), ben.now), "the genesis is not adjacent"
        assert past.take(group_id, Bundle((genesis, second)).manifests, ben.now) is (held > 2)
    assert forged.raw not in ben.store.groups.manifests_from(group_id, 1, 9)
