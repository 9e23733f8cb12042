"""What a removed member has written counts as far as others built on it, and what comes late changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from covey.core.group.manifest import Member
from covey.core.history.bodies import Note, read_body
from covey.core.history.messages import OperationBundle
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import GroupId
from covey.core.wire.message import MessageType
from tests.fleet import Device, Make, admit, carry, found


def _write(device: Device, group_id: GroupId, text: str) -> Operation:
    with device.store.transaction():
        return device.node.history.write(group_id, Note("text/plain", text.encode()), device.now)


def _remove(remover: Device, target: Device, group_id: GroupId) -> None:
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def _hand_over(giver: Device, taker: Device, group_id: GroupId) -> None:
    """Give a device everything that another one holds, by a member that means no harm."""
    raws = [stored.raw for stored in giver.store.operations.in_order(group_id)]
    with taker.store.transaction():
        taker.node.history.take(group_id, raws, taker.now)


def _take_manifests(giver: Device, taker: Device, group_id: GroupId) -> None:
    """Give a device the removals alone, and not yet what the remover says of them."""
    with taker.store.transaction():
        manifests = tuple(giver.store.groups.manifests_from(group_id, 1))
        taker.node.history_import.take_manifests(group_id, manifests, taker.now)


def _notes(device: Device, group_id: GroupId) -> dict[str, bool]:
    """Return what the notes say, and whether each counts."""
    void = device.node.history.standing(group_id).void
    operations = [read_operation(stored.raw) for stored in device.store.operations.in_order(group_id)]
    notes = [(each, read_body(each)) for each in operations]
    return {body.content.decode(): each.id not in void for each, body in notes if isinstance(body, Note)}


def test_operations_known_to_the_remover_count_and_late_ones_do_not(make: Make) -> None:  # accepts: 003.57
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _write(mal, group_id, "known")
    carry(ann, ben, mal)
    _remove(ann, mal, group_id)
    late = _write(mal, group_id, "late")
    _hand_over(mal, ben, group_id)
    assert _notes(ben, group_id) == {"known": True, "late": True}, "ben has not heard of it"
    carry(ann, ben)
    _hand_over(ben, ann, group_id)
    for device in (ann, ben):
        assert _notes(device, group_id) == {"known": True, "late": False}
        assert late.id in device.store.operations.heads(group_id), "kept as a proof"
    after = _write(ben, group_id, "after")
    assert late.id not in after.parents


def test_nobody_who_knows_of_a_removal_vouches_for_what_comes_after_it(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _write(ben, group_id, "before")
    _write(mal, group_id, "known")
    carry(ann, ben, mal)
    _write(ben, group_id, "meanwhile")
    carry(ben, mal)
    late = _write(mal, group_id, "late")
    latest = _write(mal, group_id, "latest")
    _remove(ann, mal, group_id)
    _take_manifests(ann, ben, group_id)
    _hand_over(mal, ben, group_id)
    ben.restart()
    after = _write(ben, group_id, "after")
    assert not {late.id, latest.id} & set(after.parents)
    carry(ann, ben)
    _hand_over(ben, ann, group_id)
    for device in (ann, ben):
        counts = _notes(device, group_id)
        assert [text for text in counts if not counts[text]] == ["late", "latest"]


def test_a_removal_holds_in_a_group_that_has_said_nothing_before(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    backdated = _write(mal, group_id, "backdated")
    _hand_over(mal, ben, group_id)
    assert _notes(ben, group_id) == {"backdated": False}
    assert backdated.id not in ben.node.history.standing(group_id).heads


def test_operations_a_member_built_upon_count(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    _write(mal, group_id, "late")
    _hand_over(mal, ben, group_id)
    _write(ben, group_id, "about that, knowing nothing")
    carry(ann, ben)
    for device in (ann, ben):
        assert _notes(device, group_id) == {"late": False, "about that, knowing nothing": True}
    _write(ann, group_id, "all this")
    carry(ann, ben)
    for device in (ann, ben):
        assert set(_notes(device, group_id).values()) == {True}


def test_operations_of_a_member_that_left_count(make: Make) -> None:
    ann, ben, cem = make("ann"), make("ben"), make("cem")
    group_id = found(ann, ben, cem)
    _write(cem, group_id, "farewell")
    carry(ann, ben, cem)
    with cem.store.transaction():
        cem.node.actions.leave(group_id, cem.now)
    carry(ann, ben, cem)
    assert _notes(ann, group_id) == {"farewell": True}
    _write(ben, group_id, "she is gone")
    carry(ann, ben)
    assert _notes(ann, group_id) == _notes(ben, group_id) == {"farewell": True, "she is gone": True}


@pytest.mark.slow
def test_a_removal_counts_after_the_remover_has_left(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _write(mal, group_id, "known")
    carry(ann, ben, mal)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    with ann.store.transaction():
        ann.node.actions.leave(group_id, ann.now)
    carry(ann, ben)
    _write(mal, group_id, "late")
    _hand_over(mal, ben, group_id)
    assert _notes(ben, group_id) == {"known": True, "late": False}


def test_a_readmitted_member_writes_again(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    _write(mal, group_id, "late")
    _hand_over(mal, ann, group_id)
    assert _notes(ann, group_id) == {"late": False}
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(Member(mal.identity.keys, "mal")), ann.now)
    assert _notes(ann, group_id) == {"late": True}


def test_an_earlier_removal_makes_nothing_void_that_a_later_stay_said(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    carry(ann, ben, mal)
    admit(ann, mal, group_id, ben)
    _write(mal, group_id, "again")
    carry(ann, ben, mal)
    _remove(ann, mal, group_id)
    _take_manifests(ann, ben, group_id)
    assert _notes(ben, group_id) == {"again": True}, "of the second removal nobody has said anything yet"


def test_a_former_member_whose_words_are_void_removes_nobody(make: Make) -> None:
    ann, cem, mal = make("ann"), make("cem"), make("mal")
    group_id = found(ann, cem, mal)
    _write(cem, group_id, "early")
    carry(ann, cem)
    _remove(mal, cem, group_id)  # with a word about it, which comes too late
    _take_manifests(mal, ann, group_id)
    with ann.store.transaction():
        ann.node.actions.change(group_id, lambda draft, _: draft.adding(Member(cem.identity.keys)), ann.now)
    _remove(ann, mal, group_id)
    _take_manifests(ann, cem, group_id)
    with cem.store.transaction():
        cem.node.actions.leave(group_id, cem.now)
    _take_manifests(cem, ann, group_id)
    _hand_over(mal, ann, group_id)
    assert ann.node.groups.group(group_id).member(cem.key) is None
    assert _notes(ann, group_id) == {"early": True}, "mal alone has ever said that he was out"


def test_operations_under_a_rival_of_the_removal_are_void(make: Make) -> None:
    """It names a version as high as the removal's, and no higher one."""
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    own = ben.node.groups.group(group_id).member(ben.key)
    assert own is not None
    with ben.store.transaction():
        ben.node.actions.change(group_id, lambda draft, _: draft.changing(replace(own, label="Ben")), ben.now)
    _take_manifests(ben, mal, group_id)
    _write(mal, group_id, "late")
    _take_manifests(ann, ben, group_id)
    for giver in (ann, mal):
        _hand_over(giver, ben, group_id)
    assert _notes(ben, group_id) == {"late": False}


@pytest.mark.slow
def test_members_are_in_step_whatever_each_of_them_keeps_of_a_removed_one(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _write(mal, group_id, "known")
    _write(ben, group_id, "before")
    carry(ann, ben, mal)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    _write(mal, group_id, "late")
    _hand_over(mal, ben, group_id)
    assert _notes(ann, group_id).keys() != _notes(ben, group_id).keys()
    assert ann.node.heads.said_to(ben.key) == ben.node.heads.said_to(ann.key)
    _write(ann, group_id, "ben lacks this")
    assert ann.node.heads.said_to(ben.key) != ben.node.heads.said_to(ann.key)
    ben.restart()
    carry(ann, ben)
    ann.restart()
    assert ann.node.heads.said_to(ben.key) == ben.node.heads.said_to(ann.key)


def test_a_bundle_of_a_removed_member_itself_is_not_taken(make: Make) -> None:
    ann, ben, mal = make("ann"), make("ben"), make("mal")
    group_id = found(ann, ben, mal)
    _remove(ann, mal, group_id)
    carry(ann, ben)
    late = _write(mal, group_id, "late")
    with mal.store.transaction():
        body = OperationBundle((late.raw,)).to_wire()
        mal.node._queue.queue(ann.key, MessageType.OPERATIONS, group_id, body, mal.now)
    carry(mal, ann)
    assert _notes(ann, group_id) == {}
