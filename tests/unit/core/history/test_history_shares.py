"""What members share in a group's history: no member, and no two members together, take anything from another one.

Each test plays an attack that once kept everybody else from writing.
"""

from __future__ import annotations

import pytest

from covey.core.history.operation import Operation
from covey.core.ids import GroupId
from covey.limits.history import HEADS_AT_ONCE, LOGS_OF_ONE, MAXIMUM_PARENTS
from tests.fleet import Device, Make, carry, found, settled
from tests.unit.core.history.conduct import forge, maintain, meet, read_notes, remove, write_note


def _take(device: Device, group_id: GroupId, *operations: Operation) -> None:
    with device.store.transaction():
        device.node.history.take(group_id, [each.raw for each in operations], device.now)


def _lifted(liar: Device, accomplice: Device, group_id: GroupId, incarnations: range) -> list[list[Operation]]:
    """Return bundles of new logs of one member, each followed by an operation of another one."""
    bundles, before = list[list[Operation]](), list[Operation]()
    logs = [forge(liar, group_id, 1, "spam", life=number) for number in incarnations]
    many = MAXIMUM_PARENTS - 1
    for number, some in enumerate((logs[first : first + many] for first in range(0, len(logs), many)), 1):
        follower = forge(accomplice, group_id, number, "lifted", *before[-1:], *some, life=250)
        bundles.append([*some, follower])
        before.append(follower)
    return bundles


def _logs_of(device: Device, author: Device, group_id: GroupId) -> int:
    return sum(log.author == author.key for log, _ in device.store.operations.logs(group_id))


def test_two_members_that_lift_each_others_limits_take_no_room_from_a_newcomer(make: Make) -> None:
    """They once filled a group's 2,048 logs with 0.7 MB, after which a device without a log could not write."""
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = GroupId(settled(ann, ben, mallory, eve))
    for one, other in ((mallory, eve), (eve, mallory)):
        for bundle in _lifted(one, other, group_id, range(240)):
            _take(ann, group_id, *bundle)
    for liar in (mallory, eve):
        assert _logs_of(ann, liar, group_id) == 2 * LOGS_OF_ONE, "its share, and what the other one pays for"
    written = write_note(ben, group_id, "ben has written nothing before")
    carry(ann, ben)
    assert ann.store.operations.held(group_id, written.id) is not None
    write_note(ann, group_id, "nor has ann")
    carry(ann, ben)


def test_operations_that_an_honest_member_follows_are_accepted_when_liars_have_no_share_left(make: Make) -> None:
    """A liar shows one member other logs than another; neither keeps out what the other one has followed."""
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = GroupId(settled(ann, ben, mallory, eve))
    for bundle in _lifted(mallory, eve, group_id, range(120)):
        _take(ann, group_id, *bundle)
    assert _logs_of(ann, mallory, group_id) == 2 * LOGS_OF_ONE
    for number in range(200, 200 + LOGS_OF_ONE):
        _take(ben, group_id, forge(mallory, group_id, 1, "for ben alone", life=number))
    written = write_note(ben, group_id, "after all that")
    assert ann.store.operations.held(group_id, written.id) is None
    meet(ann, ben)
    assert ann.store.operations.held(group_id, written.id) is not None
    assert _logs_of(ann, mallory, group_id) == 3 * LOGS_OF_ONE, "ben has paid for those that it followed"


def test_thousands_of_heads_cost_one_note_a_bounded_number_of_merges(make: Make) -> None:
    """One note after 1,920 heads once cost 123 members 58 MB."""
    ann, ben, cem, dan = (make(name) for name in ("ann", "ben", "cem", "dan"))
    group_id = GroupId(settled(ann, ben, cem, dan))
    own = write_note(ann, group_id, "own")
    for author in (ben, cem, dan):
        for number in range(LOGS_OF_ONE):
            _take(ann, group_id, *(forge(author, group_id, 1, text, life=number) for text in ("one", "its rival")))
    heads = set(ann.store.operations.heads(group_id))
    assert len(heads) > HEADS_AT_ONCE
    last = write_note(ann, group_id, "after many heads")
    assert last.number - own.number <= 1 + HEADS_AT_ONCE // (MAXIMUM_PARENTS - 1)
    assert len(heads - set(ann.store.operations.heads(group_id))) == HEADS_AT_ONCE
    write_note(ann, group_id, "the others come next")
    assert len(ann.store.operations.heads(group_id)) == 1


def test_of_too_many_heads_each_authors_highest_is_joined_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.history.history.HEADS_AT_ONCE", 4)
    ann, ben, cem = (make(name) for name in ("ann", "ben", "cem"))
    group_id = found(ann, ben, cem)
    for number in range(10):
        _take(ann, group_id, forge(ben, group_id, 1, "one of many", life=number))
    alone = forge(cem, group_id, 1, "one alone")
    _take(ann, group_id, alone)
    last = write_note(ann, group_id, "joins some")
    assert alone.id in last.parents
    assert len(last.parents) == 4


def test_a_removal_joins_the_words_of_the_removed_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.history.history.HEADS_AT_ONCE", 2)
    ann, ben, cem, dan = (make(name) for name in ("ann", "ben", "cem", "dan"))
    group_id = found(ann, ben, cem, dan)
    base = forge(ben, group_id, 1, "high", life=1)
    _take(ann, group_id, base, forge(ben, group_id, 2, "higher", base, life=1))
    _take(ann, group_id, forge(dan, group_id, 1, "beside it"))
    removed = forge(cem, group_id, 1, "last words")
    _take(ann, group_id, removed)
    remove(ann, cem, group_id)
    assert removed.id not in ann.node.history.standing(group_id).void


def test_removing_both_liars_leaves_everybody_its_share(make: Make) -> None:
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = GroupId(settled(ann, ben, mallory, eve))
    for bundle in _lifted(mallory, eve, group_id, range(60)):
        _take(ann, group_id, *bundle)
    for liar in (mallory, eve):
        remove(ann, liar, group_id)
    carry(ann, ben)
    maintain(ann, ben)
    write_note(ben, group_id, "without them")
    meet(ann, ben)
    assert "without them" in read_notes(ann, group_id)
