"""Manifests that their issuers cannot pay for, among devices: nobody keeps them, and honest devices keep a reserve."""

from __future__ import annotations

from dataclasses import replace

from covey.core.group.manifest import GroupManifest, sign_manifest
from covey.core.group.messages import Bundle, GroupSend
from covey.core.ids import GroupId
from covey.core.wire.message import MessageType
from covey.limits.group import ENDING_ALLOWANCE, MEMBER_ALLOWANCE, RECONCILE_ANYBODY_US
from tests.fleet import Device, Make, carry, found


def _send(author: Device, recipient: Device, group_id: GroupId, manifests: list[GroupManifest]) -> None:
    body = Bundle(tuple(each.raw for each in manifests)).to_wire()
    with author.store.transaction():
        send = GroupSend(recipient.key, MessageType.GROUP_MANIFEST, group_id, body)
        author.node.actions.queue_sends([send], author.now)
    carry(author, recipient)


def _labelled(before: GroupManifest, issuer: Device, label: str, left: int) -> GroupManifest:
    """Return a manifest that leaves its issuer so much."""
    own = before.member(issuer.key)
    assert own is not None
    draft = before.draft()
    listed = [replace(own, label=label, allowance=left) if each == own else each for each in draft.members]
    return sign_manifest(replace(draft, members=tuple(listed), before=None), issuer.identity)


def _left(device: Device, group_id: GroupId) -> int:
    own = device.node.groups.group(group_id).member(device.key)
    assert own is not None
    return own.allowance


def _change_label(device: Device, group_id: GroupId, label: str) -> None:
    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        own = draft.member(device.key)
        assert own is not None
        return draft.changing(replace(own, label=label))

    with device.store.transaction():
        device.node.actions.change(group_id, edit, device.now)


def _maintain(device: Device) -> None:
    for _ in range(3):
        device.wait(RECONCILE_ANYBODY_US[1] / 1e6 + 1)
        with device.store.transaction():
            device.node.maintain(device.now)


def test_nobody_keeps_manifests_that_their_issuer_does_not_pay_for(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    chain = [mal.node.groups.group(group_id)]
    for number in range(20):
        chain.append(_labelled(chain[-1], mal, f"label {number}", MEMBER_ALLOWANCE))
    _send(mal, ann, group_id, chain[1:])
    assert ann.node.groups.trust(group_id).heads() == [chain[0]]
    for manifest in chain[1:]:
        assert not ann.store.groups.has_manifest(group_id, manifest.hash)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, epoch: draft.removing(mal.key, epoch), ann.now)
    carry(ann, ben)
    assert ben.node.groups.group(group_id).member(mal.key) is None


def test_a_device_with_little_left_leaves_the_end_of_a_conflict_to_others(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    poor = _labelled(ben.node.groups.group(group_id), ben, "poor", ENDING_ALLOWANCE)
    for device, other in ((ann, ben), (ben, ann)):
        _send(other, device, group_id, [poor])
    _change_label(ann, group_id, "a")
    _change_label(ben, group_id, "b")
    carry(ann, ben)
    assert not ben.node.groups.group(group_id).raw, "a conflict"
    _maintain(ben)
    assert not ben.node.groups.group(group_id).raw
    _maintain(ann)
    carry(ann, ben)
    assert ben.node.groups.group(group_id).raw
    assert _left(ben, group_id) == ENDING_ALLOWANCE - 1, "its own label"
    _change_label(ben, group_id, "c")
    assert _left(ben, group_id) == ENDING_ALLOWANCE - 2, "its own changes go on"


def test_a_restored_device_pays_for_both_of_its_lives(make: Make) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    before = _left(ben, group_id)
    copy = ben.copy_state()
    _change_label(ben, group_id, "first life")
    carry(ann, ben)
    ben.return_to(copy)
    _change_label(ben, group_id, "second life")
    for device in (ann, ben) * 3:
        _maintain(device)
        carry(ann, ben)
    assert ann.node.groups.group(group_id).raw
    _change_label(ann, group_id, "all is well")
    carry(ann, ben)
    assert ann.node.groups.group(group_id).raw == ben.node.groups.group(group_id).raw
    assert _left(ben, group_id) in {before - 2, before - 3}, "its two labels, and perhaps the end of their conflict"
