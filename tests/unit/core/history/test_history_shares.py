"""What members share in a group's history: no member, and no two members together, take anything from another one.

Each test plays an attack that once kept everybody else from writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from covey.core.crypto import Identity
from covey.core.history.operation import Operation
from covey.core.ids import GroupId, OperationId
from covey.limits.history import HEADS_AT_ONCE, LOGS_BEHIND, LOGS_OF_ONE, MAXIMUM_AUTHOR_BYTES, MAXIMUM_PARENTS
from tests.fleet import Device, Make, carry, found, identity, settled
from tests.unit.core.history.conduct import (
    forge,
    forge_as,
    let_in,
    maintain,
    meet,
    read_notes,
    remove,
    write_note,
)


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


def _ids(device: Device, group_id: GroupId) -> set[OperationId]:
    return {each.id for each in device.store.operations.in_order(group_id)}


def _logs_heads(device: Device, author: Device, group_id: GroupId) -> set[OperationId]:
    heads = {each: device.store.operations.held(group_id, each) for each in device.store.operations.heads(group_id)}
    return {each for each, held in heads.items() if held is not None and held.log.author == author.key}


def _logs_of(device: Device, author: Device, group_id: GroupId) -> int:
    return sum(log.author == author.key for log, _ in device.store.operations.logs(group_id))


@pytest.mark.slow
def test_two_members_that_lift_each_others_limits_take_no_room_from_a_newcomer(make: Make) -> None:
    """They once filled a group's 2,048 logs with 0.7 MB, after which a device without a log could not write."""
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = GroupId(settled(ann, ben, mallory, eve))
    for one, other in ((mallory, eve), (eve, mallory)):
        for bundle in _lifted(one, other, group_id, range(240)):
            _take(ann, group_id, *bundle)
    for liar in (mallory, eve):
        assert _logs_of(ann, liar, group_id) <= LOGS_BEHIND, "its share, and what the other one follows"
    written = write_note(ben, group_id, "ben has written nothing before")
    carry(ann, ben)
    assert ann.store.operations.held(group_id, written.id) is not None
    write_note(ann, group_id, "nor has ann")
    carry(ann, ben)


def _one_log_each(liar: Device, group_id: GroupId, incarnations: Iterable[int]) -> list[Operation]:
    return [forge(liar, group_id, 1, "spam", life=incarnation) for incarnation in incarnations]


def _show_each_other_logs(ann: Device, ben: Device, liars: Sequence[Device], group_id: GroupId) -> Operation:
    """Have liars show two members other logs each, as many as anybody takes; return what one of these writes then."""
    mallory, eve = liars
    for one, other in ((mallory, eve), (eve, mallory)):
        for bundle in _lifted(one, other, group_id, range(120)):
            _take(ann, group_id, *bundle)
        for bundle in _lifted(one, other, group_id, range(120, 240)):
            _take(ben, group_id, *bundle)
    return write_note(ben, group_id, "after all that")


@pytest.mark.slow
def test_two_liars_that_show_each_member_other_logs_silence_nobody(make: Make) -> None:
    """Whose logs counted once depended on the order of arrival: ben's note never reached ann's history."""
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = GroupId(settled(ann, ben, mallory, eve))
    written = _show_each_other_logs(ann, ben, (mallory, eve), group_id)
    meet(ann, ben)
    assert ann.store.operations.held(group_id, written.id) is not None
    answer = write_note(ann, group_id, "to that")
    meet(ann, ben)
    assert ben.store.operations.held(group_id, answer.id) is not None
    assert _ids(ann, group_id) == _ids(ben, group_id), "they agree on what the liars wrote, too"
    assert ann.node.history.digest(group_id) == ben.node.history.digest(group_id)


@pytest.mark.slow
def test_what_an_honest_note_follows_is_fetched_over_many_messages(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs that it follows are beyond their author's share at the recipient, and longer than one message."""
    monkeypatch.setattr("covey.core.history.exchange.BUNDLE_OPERATIONS", 8)
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    _take(ann, group_id, *_one_log_each(mallory, group_id, range(LOGS_OF_ONE)))
    long = [forge(mallory, group_id, 1, "for ben alone", life=200)]
    for number in range(2, 40):
        long.append(forge(mallory, group_id, number, "for ben alone", long[-1], life=200))
    _take(ben, group_id, *long)
    written = write_note(ben, group_id, "follows all of it")
    assert written.parents == (long[-1].id,)
    meet(ann, ben, seconds=240)
    assert ann.store.operations.held(group_id, written.id) is not None
    assert _ids(ann, group_id) == _ids(ben, group_id)


@pytest.mark.slow
def test_of_an_authors_logs_the_lowest_ones_are_kept_in_whatever_order_they_come(make: Make) -> None:
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    logs = _one_log_each(mallory, group_id, range(3 * LOGS_OF_ONE))
    for each in logs:
        _take(ann, group_id, each)
    for each in reversed(logs):
        _take(ben, group_id, each)
    assert _ids(ann, group_id) == _ids(ben, group_id) == {each.id for each in logs[:LOGS_OF_ONE]}
    assert set(ann.store.operations.heads(group_id)) == set(ben.store.operations.heads(group_id))


def test_what_is_dropped_uncovers_what_it_followed(make: Make) -> None:
    ann, mallory = make("ann"), make("mallory")
    group_id = found(ann, mallory)
    note = write_note(ann, group_id, "ann's own")
    high = [forge(mallory, group_id, 1, "high", note, life=100 + number) for number in range(LOGS_OF_ONE)]
    _take(ann, group_id, *high)
    assert note.id not in ann.store.operations.heads(group_id)
    _take(ann, group_id, *_one_log_each(mallory, group_id, range(LOGS_OF_ONE)))
    assert note.id in ann.store.operations.heads(group_id)
    assert not _ids(ann, group_id) & {each.id for each in high}


@pytest.mark.slow
def test_nobody_follows_more_logs_of_one_author_than_others_take(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.history.shares.LOGS_BEHIND", LOGS_OF_ONE + 4)
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    for incarnations, followed in ((range(100, 100 + LOGS_OF_ONE), LOGS_OF_ONE), (range(LOGS_OF_ONE), 4)):
        _take(ann, group_id, *_one_log_each(mallory, group_id, incarnations))
        heads = set(ann.store.operations.heads(group_id))
        written = write_note(ann, group_id, "follows what it may")
        assert len(heads & _logs_heads(ann, mallory, group_id)) == LOGS_OF_ONE - followed
        meet(ann, ben)
        assert ben.store.operations.held(group_id, written.id) is not None
    more = _one_log_each(mallory, group_id, range(30, 30 + LOGS_OF_ONE + 5))
    too_much = list[Operation]()
    for number, first in enumerate(range(0, len(more), MAXIMUM_PARENTS - 1), 1):
        followed_ones = (*too_much[-1:], *more[first : first + MAXIMUM_PARENTS - 1])
        too_much.append(forge(ben, group_id, number, "all of them", *followed_ones))
    before = _ids(ann, group_id)
    _take(ann, group_id, *more, *too_much)
    assert too_much[0].id in _ids(ann, group_id)
    assert too_much[-1].id not in _ids(ann, group_id) - before


def test_what_a_former_member_said_in_vain_is_dropped_beyond_a_small_share(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    known = forge(mallory, group_id, 1, "ann knows it")
    _take(ann, group_id, known)
    late = [forge(mallory, group_id, 1, "too late", life=incarnation) for incarnation in (10, 11)]
    room = len(known.raw) + len(late[0].raw)
    monkeypatch.setattr("covey.core.history.shares.VOID_PART", MAXIMUM_AUTHOR_BYTES // room)
    monkeypatch.setattr("covey.core.history.shares.FAMILY_BYTES_BEHIND", MAXIMUM_AUTHOR_BYTES)
    remove(ann, mallory, group_id)
    _take(ann, group_id, *late)
    assert known.id in _ids(ann, group_id), "what the remover follows stays"
    assert _ids(ann, group_id) & {each.id for each in late} == {late[0].id}, "the rest is void, and gives its room back"


def _bound_families(monkeypatch: pytest.MonkeyPatch, length: int, former: int = MAXIMUM_AUTHOR_BYTES) -> None:
    for name in ("FAMILY_BYTES_BEHIND", "BYTES_BEHIND"):
        monkeypatch.setattr(f"covey.core.history.shares.{name}", length)
    monkeypatch.setattr("covey.core.history.shares.MAXIMUM_AUTHOR_BYTES", former)


def _bytes_of(device: Device, authors: Iterable[Identity], group_id: GroupId) -> int:
    lengths = device.store.operations.author_lengths(group_id)
    return sum(lengths.get(each.signing_public, 0) for each in authors)


@pytest.mark.slow
def test_a_member_that_lets_in_and_removes_devices_makes_others_keep_a_bounded_total(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them once cost every other member a whole share, without end."""
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    guests, one = [identity(f"guest {number}") for number in range(12)], 1_100
    _bound_families(monkeypatch, 4 * one, 8 * one)
    written = []
    for guest in guests:
        let_in(mallory, guest, group_id)
        carry(ann, ben, mallory)
        said = forge_as(guest, mallory, group_id, "x" * 700)
        assert one // 2 < len(said.raw) < one
        for each in (ann, ben):
            _take(each, group_id, said)
            assert said.id in _ids(each, group_id), "a member has its share, whoever let it in"
        written.append(write_note(ann, group_id, f"beside {guest.signing_public.hex()}"))
        remove(mallory, guest, group_id)
        meet(ann, ben, mallory, seconds=20)
    assert 2 * one < _bytes_of(ann, guests, group_id) <= 6 * one
    assert _ids(ann, group_id) == _ids(ben, group_id)
    assert _ids(ben, group_id) >= {each.id for each in written}
    _check_that_a_newcomer_is_followed(ann, ben, group_id)


@pytest.mark.slow
def test_a_founder_that_lets_in_and_removes_devices_silences_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    mallory, ann, ben = (make(name) for name in ("mallory", "ann", "ben"))
    group_id = found(mallory, ann, ben)
    guests, one = [identity(f"guest {number}") for number in range(8)], 1_100
    monkeypatch.setattr("covey.core.history.shares.GROUP_BYTES_BEHIND", 4 * one)
    written = []
    for guest in guests:
        let_in(mallory, guest, group_id)
        carry(ann, ben, mallory)
        said = forge_as(guest, mallory, group_id, "x" * 700)
        for each in (ann, ben):
            _take(each, group_id, said)
        written += [write_note(each, group_id, "beside it") for each in (ann, ben)]
        remove(mallory, guest, group_id)
        meet(ann, ben, mallory, seconds=20)
    assert _bytes_of(ann, guests, group_id) <= 4 * one
    for each in (ann, ben):
        assert _ids(each, group_id) >= {note.id for note in written}


def _check_that_a_newcomer_is_followed(ann: Device, ben: Device, group_id: GroupId) -> None:
    newcomer = identity("newcomer")
    let_in(ann, newcomer, group_id)
    carry(ann, ben)
    said = forge_as(newcomer, ann, group_id, "hello")
    _take(ben, group_id, said)
    heads = set(ben.store.operations.heads(group_id))
    assert said.id in heads
    write_note(ben, group_id, "hello, newcomer")
    assert said.id not in ben.store.operations.heads(group_id)


@pytest.mark.slow
def test_what_is_not_followed_for_its_sponsors_sake_is_dropped_when_its_author_leaves(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    guests = [identity(f"guest {number}") for number in range(2)]
    for guest in guests:
        let_in(mallory, guest, group_id)
    carry(ann, ben, mallory)
    followed, other = (forge_as(guest, mallory, group_id, "x" * 700) for guest in guests)
    _bound_families(monkeypatch, len(followed.raw))
    _take(ann, group_id, followed, other)
    write_note(ann, group_id, "follows one of them")
    [left] = {followed.id, other.id} & set(ann.store.operations.heads(group_id))
    for guest in guests:
        remove(ann, guest, group_id)
    for author in (ann, ben):
        write_note(author, group_id, "knows of the removal")
        meet(ann, ben, mallory)
    for each in (ann, ben):
        assert _ids(each, group_id) & {followed.id, other.id} == {followed.id, other.id} - {left}


def test_who_has_written_a_whole_family_s_bytes_goes_on_writing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = make("ann"), make("ben")
    group_id = found(ann, ben)
    written = [write_note(ben, group_id, "x" * 700) for _ in range(3)]
    _bound_families(monkeypatch, sum(len(each.raw) for each in written) - 1)
    monkeypatch.setattr("covey.core.history.shares.BYTES_BEHIND", MAXIMUM_AUTHOR_BYTES)
    written.append(write_note(ben, group_id, "and more"))
    meet(ann, ben)
    assert _ids(ann, group_id) >= {each.id for each in written}


@pytest.mark.slow
def test_former_members_of_a_family_have_room_together_for_what_nobody_follows(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member could once let in others and remove them, without end, each with a whole share of last words."""
    ann, ben, mallory = (make(name) for name in ("ann", "ben", "mallory"))
    group_id = found(ann, ben, mallory)
    guests, said = [identity(f"guest {number}") for number in range(6)], list[Operation]()
    for guest in guests:
        let_in(mallory, guest, group_id)
    said = [forge_as(guest, mallory, group_id, "x" * 700) for guest in guests]
    for guest in guests:
        remove(mallory, guest, group_id)
    carry(ann, mallory)
    _bound_families(monkeypatch, 2 * len(said[0].raw) + 10)
    monkeypatch.setattr("covey.core.history.shares.VOID_PART", 1)
    legitimate = identity("let in by ann")
    let_in(ann, legitimate, group_id)
    last_words = forge_as(legitimate, ann, group_id, "goodbye")
    _take(ann, group_id, last_words)
    remove(ann, legitimate, group_id)
    _take(ann, group_id, *said)
    assert 0 < _bytes_of(ann, guests, group_id) <= 2 * len(said[0].raw) + 10
    assert last_words.id in _ids(ann, group_id), "others have room of their own"


def test_nobody_takes_what_follows_more_of_a_family_than_others_follow(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, ben, mallory, eve = (make(name) for name in ("ann", "ben", "mallory", "eve"))
    group_id = found(ann, ben, mallory, eve)
    guests = [identity(f"guest {number}") for number in range(3)]
    for guest in guests:
        let_in(mallory, guest, group_id)
    carry(ann, ben, mallory, eve)
    said = [forge_as(guest, mallory, group_id, "x" * 700) for guest in guests]
    _bound_families(monkeypatch, 2 * len(said[0].raw) + 10)
    _take(ann, group_id, *said)
    within, beyond = forge(eve, group_id, 1, "two", *said[:2]), forge(eve, group_id, 1, "three", *said, life=8)
    _take(ann, group_id, within, beyond)
    assert _ids(ann, group_id) & {within.id, beyond.id} == {within.id}
    own = forge(mallory, group_id, 1, "of its own family", *said)
    _take(ann, group_id, own)
    assert own.id not in _ids(ann, group_id), "nor does the sponsor itself lift it"


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


@pytest.mark.slow
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
