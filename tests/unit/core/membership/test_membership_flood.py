"""A member, or one that was removed, that issues as many manifests as it likes: no group is ever stuck."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import GroupManifest, Member, manifest_hash, read_manifest, secret_id, sign_manifest
from covey.core.group.messages import Bundle, GroupSend, first_that_fit
from covey.core.ids import GroupId
from covey.core.membership.membership import Edit
from covey.core.wire.message import MessageType, read_message
from covey.limits.group import (
    MAXIMUM_HEADS,
    MAXIMUM_OPEN_MANIFESTS,
    RECONCILE_ANYBODY_US,
    RIVALS_OF_ONE,
)
from tests.fleet import Device, Make, carry, found, identity


def _rivals(held: GroupManifest, issuer: Device, count: int) -> list[bytes]:
    """Return manifests that all follow the same one, and relabel their issuer."""
    own = held.member(issuer.key)
    assert own is not None
    return [
        sign_manifest(held.changing(replace(own, label=f"rival {number}")), issuer.identity).raw
        for number in range(count)
    ]


def _relabelling(device: Device) -> Edit:
    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        own = draft.member(device.key)
        assert own is not None
        return draft.changing(replace(own, label="another"))

    return edit


def _send(sender: Device, recipient: Device, group_id: GroupId, manifests: list[bytes]) -> None:
    """Send manifests as a modified agent would: in messages that each carry as many as are taken."""
    while manifests:
        fitting = first_that_fit(manifests)
        manifests = manifests[len(fitting) :]
        body = Bundle(fitting).to_wire()
        with sender.store.transaction():
            sender.node.actions.queue_sends(
                [GroupSend(recipient.key, MessageType.GROUP_MANIFEST, group_id, body)], sender.now
            )
    carry(sender, recipient)


def _maintain(devices: Iterable[Device], rounds: int = 1) -> None:
    """Let enough time pass for a conflict to be ended, and everybody speak."""
    together = list(devices)
    for _ in range(rounds):
        for device in together:
            device.wait(RECONCILE_ANYBODY_US[1] / 1e6 + 1)
            for _ in range(2):  # one to see the conflict, one to end it
                if device.node.has_work(device.now):
                    with device.store.transaction():
                        device.node.maintain(device.now)
                device.wait(RECONCILE_ANYBODY_US[1] / 1e6 + 1)
        carry(*together)


def _remove(remover: Device, target: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def _members(device: Device, group_id: GroupId) -> set[bytes]:
    return {member.keys.signing_public for member in device.node.groups.group(group_id).members}


@pytest.mark.slow
def test_one_issuers_rivals_are_bounded_and_hold_nothing_up(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    held = ann.node.groups.group(group_id)
    for victim in (ann, ben):
        victim.events()
        _send(mal, victim, group_id, _rivals(held, mal, 1_100))
        assert len(victim.node.groups.trust(group_id)) == 1 + RIVALS_OF_ONE
        assert any(isinstance(event, EnvelopeDropped) and event.code == "limit" for event in victim.events())
    _remove(ann, mal, group_id)
    carry(ann, ben, mal)
    assert _members(ben, group_id) == {ann.key, ben.key}


@pytest.mark.slow
def test_different_rivals_for_everybody_come_to_the_same(make: Make) -> None:
    """What somebody else follows is taken beyond the bound: so nobody is left behind."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    rivals = _rivals(ann.node.groups.group(group_id), mal, 4 * RIVALS_OF_ONE)
    _send(mal, ann, group_id, rivals[: 2 * RIVALS_OF_ONE])
    _send(mal, ben, group_id, rivals[2 * RIVALS_OF_ONE :])
    for device in (ann, ben):
        with device.store.transaction():
            device.node.groups.group(group_id)
            device.node.actions.change(group_id, _relabelling(device), device.now)
    _maintain((ann, ben, mal), 3)
    raws = {device.node.groups.group(group_id).raw for device in (ann, ben, mal)}
    assert len(raws) == 1
    assert b"" not in raws


@pytest.mark.slow
def test_a_removed_device_cannot_freeze_those_who_know(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    held = ann.node.groups.group(group_id)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    for _ in range(2):
        _send(mal, ben, group_id, _rivals(held, mal, 600))
        _send(mal, ann, group_id, _rivals(held, mal, 600))
    for device in (ann, ben):
        assert _members(device, group_id) == {ann.key, ben.key}
        assert len(device.node.groups.trust(group_id)) <= 2 + RIVALS_OF_ONE
    _maintain((ann, ben), 2)
    with ben.store.transaction():
        ben.node.actions.leave(group_id, ben.now)
    carry(ann, ben)
    assert _members(ann, group_id) == {ann.key}


@pytest.mark.slow
def test_void_rivals_that_came_in_other_orders_are_the_same_ones_in_the_end(make: Make) -> None:
    """Nobody ends that, as it is no conflict; those who hold other ones would ask each other for good."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    rivals = _rivals(ann.node.groups.group(group_id), mal, 4 * RIVALS_OF_ONE)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    _send(mal, ann, group_id, rivals[: 2 * RIVALS_OF_ONE])
    _send(mal, ben, group_id, rivals[2 * RIVALS_OF_ONE :])
    assert ann.node.groups.trust(group_id).heads() != ben.node.groups.trust(group_id).heads()
    ann.blob(group_id, b"an acknowledgement tells of other heads")
    _maintain((ann, ben), 4)
    for device in (ann, ben):
        lowest = sorted(map(manifest_hash, rivals))[:RIVALS_OF_ONE]
        assert {head.hash for head in device.node.groups.trust(group_id).heads() if head.issuer == mal.key} == {*lowest}
        stored = [read_manifest(raw, verify=False) for raw in device.store.groups.manifests_from(group_id, 1, 100)]
        assert sorted(each.hash for each in stored if each.issuer == mal.key) == lowest
        assert _members(device, group_id) == {ann.key, ben.key}


@pytest.mark.slow
def test_more_heads_than_one_may_follow_do_not_leave_the_removal_out(make: Make) -> None:
    """Of a removed device and of such as it has made up, all newer than its removal (seed 7311484)."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    held = ann.node.groups.group(group_id)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    accomplices = [make(f"made up {number}") for number in range(3)]
    adding = held
    for each in accomplices:
        adding = adding.adding(Member(each.identity.keys))
    with_them = sign_manifest(adding, mal.identity)
    rivals = [raw for each in accomplices for raw in _rivals(with_them, each, RIVALS_OF_ONE)]
    _send(mal, ben, group_id, [with_them.raw, *rivals])
    assert len(ben.node.groups.trust(group_id).heads()) > MAXIMUM_HEADS
    for _ in range(4):
        _maintain([ben])
    issued = [each for each in ben.node.groups.trust(group_id).held() if each.issuer == ben.key]
    assert issued, "the conflict was ended"
    assert not [each for each in issued if each.member(mal.key) is not None]
    waiting = ben.store.outbox.control_messages(mal.key)
    bundles = [Bundle.from_wire(read_message(raw, verify=False).body) for _, raw in waiting]
    assert not [each for each in bundles if each.secrets]
    assert _members(ben, group_id) == {ann.key, ben.key}


@pytest.mark.slow
def test_rivals_that_say_the_same_are_a_conflict_when_nothing_can_follow_them_all(make: Make) -> None:
    ann, *others = [make(f"device {number}") for number in range(5)]
    group_id = found(ann, *others)
    held = ann.node.groups.group(group_id)
    for issuer in others[:3]:
        rivals = []
        for number in range(RIVALS_OF_ONE):
            unsigned = replace(held.draft(), votes=(bytes([number]),))  # nothing is changed
            rivals.append(sign_manifest(unsigned, issuer.identity).raw)
        _send(issuer, ann, group_id, rivals)
    assert len(ann.node.groups.trust(group_id).heads()) == 3 * RIVALS_OF_ONE > MAXIMUM_HEADS
    assert not ann.node.groups.group(group_id).raw
    _maintain([ann])
    assert len(ann.node.groups.trust(group_id).heads()) <= MAXIMUM_HEADS
    assert ann.node.groups.group(group_id).raw


@pytest.mark.slow
def test_a_group_whose_store_is_full_of_rivals_recovers(make: Make) -> None:
    """As many as a device holds, which takes nothing more then."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    held = ann.node.groups.group(group_id)
    rivals = _rivals(held, mal, MAXIMUM_OPEN_MANIFESTS)
    for device in (ann, ben):
        with device.store.transaction():
            for raw in rivals:
                manifest = replace(held, raw=raw)
                device.store.groups.save_manifest(group_id, manifest.hash, held.version + 1, raw, 0)
        device.restart()
        assert not device.node.groups.group(group_id).raw, "a conflict, and told as one"
    _remove(ann, mal, group_id)
    carry(ann, ben)
    assert _members(ben, group_id) == {ann.key, ben.key}
    for _ in range(80):
        _maintain([ann])
        if ann.node.groups.group(group_id).raw:
            break
    _maintain((ann, ben), 12)
    assert ann.node.groups.group(group_id).raw
    assert ann.node.groups.group(group_id) == ben.node.groups.group(group_id)
    with ann.store.transaction():
        ann.node.actions.change(group_id, _relabelling(ann), ann.now)
    carry(ann, ben)
    for device in (ann, ben):
        device.restart()
        assert len(device.node.groups.trust(group_id)) == 1


@pytest.mark.slow
def test_issuers_made_up_by_a_member_fill_no_graph(make: Make) -> None:
    """Each device that a member lets in has rivals of its own: beyond a bound only what removes or merges is taken."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    sybils = [identity(f"sybil {number}") for number in range(MAXIMUM_OPEN_MANIFESTS // RIVALS_OF_ONE + 1)]
    with mal.store.transaction():

        def adding(draft: GroupManifest, _: bytes) -> GroupManifest:
            for sybil in sybils:
                draft = draft.adding(Member(sybil.keys))
            return draft

        mal.node.actions.change(group_id, adding, mal.now)
    carry(ann, ben, mal)
    held = ann.node.groups.group(group_id)
    rivals = []
    for sybil in sybils:
        own = held.member(sybil.signing_public)
        assert own is not None
        rivals += [
            sign_manifest(held.changing(replace(own, label=f"{number}")), sybil).raw for number in range(RIVALS_OF_ONE)
        ]
    _send(mal, ann, group_id, rivals)
    trust = ann.node.groups.trust(group_id)
    assert len(trust) == MAXIMUM_OPEN_MANIFESTS
    assert not ann.node.groups.group(group_id).raw
    _remove(ann, mal, group_id)
    assert mal.key not in _members(ann, group_id)
    heads = len(trust.heads())
    _maintain([ann])
    assert len(trust.heads()) < heads


@pytest.mark.slow
def test_whatever_members_list_at_the_same_time_can_be_merged(make: Make) -> None:
    """Three rivals with one noise key for two devices, and two that overfill the group: the outcome can be signed."""
    ann, mal, joe, jim = make("ann"), make("mal"), make("joe"), make("jim")
    group_id = found(ann, mal, joe, jim)
    held = ann.node.groups.group(group_id)
    one, two = identity("one"), identity("two")
    shared = replace(two.keys, noise_public=one.keys.noise_public)
    for issuer, keys in ((mal, one.keys), (joe, shared), (jim, shared)):
        _send(issuer, ann, group_id, [sign_manifest(held.adding(Member(keys)), issuer.identity).raw])
    for number, issuer in enumerate((mal, joe)):
        draft = held
        crowd = [Member(identity(f"{number} {place}").keys) for place in range(600)]
        members = sorted((*held.members, *crowd), key=lambda each: each.keys.signing_public)
        since = held.version + 1
        listed = tuple(
            each if held.member(each.keys.signing_public) else replace(each, since=since) for each in members
        )
        draft = replace(held.draft(), members=listed)
        _send(issuer, ann, group_id, [sign_manifest(draft, issuer.identity).raw])
    group = ann.node.groups.group(group_id)
    assert not group.raw
    noise = [member.keys.noise_public for member in group.members]
    assert len(noise) == len(set(noise)) == 1_000
    _maintain([ann])
    assert ann.node.groups.group(group_id).raw
    assert secret_id(ann.node.groups.secret(group_id) or b"") == ann.node.groups.group(group_id).epoch_id
