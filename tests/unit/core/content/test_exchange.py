"""Files between members, through `Node`: who gives them to whom, part by part, and how much."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from covey.adapters.content_files import ContentFiles
from covey.adapters.sqlite.content import DAMAGED_FILES, ContentState
from covey.core.content.events import FileArrived, FileDamaged
from covey.core.content.messages import ContentPart, ContentPull
from covey.core.ids import ContentHash
from covey.core.link.link_keys import open_envelope
from covey.core.wire.message import MessageType, read_message
from covey.errors import StorageError
from covey.limits.content import (
    CHUNK_BYTES,
    CONTENT_PULL_BYTES,
    CONTENT_PULL_US,
    PARTS_AT_ONCE,
    PARTS_PER_SECOND,
    REFETCH_US,
    SERVED_MEMBERS,
)
from tests.content_members import Members, codes, given_by, said, sent_by, some_bytes
from tests.fleet import Make, carry


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 16, CHUNK_BYTES - 15, 3 * CHUNK_BYTES, 20 * CHUNK_BYTES + 5])
# accepts: 002.17, 002.18, 002.20, 002.21, 002.22, 002.23, 002.24, 003.69, 003.71, 003.74
def test_a_member_gets_a_file_whole_and_its_author_learns_of_it(members: Members, size: int) -> None:
    ann, ben = members.all[:2]
    content = some_bytes(size)
    offer = members.put(content)
    members.settle()
    assert offer.content.sealed_size == size + 16
    members.want(ben, offer.content)
    carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE
    assert members.opened(ben, offer) == content
    assert [each.holder for each in ben.events() if isinstance(each, FileArrived)] == [ann.key]
    assert ann.store.content.holders(offer.content.hash) == [ben.key]


# accepts: 003.71
def test_a_member_serves_files_that_it_fetched(members: Members) -> None:
    """Any holder serves; who offers it need not be there any more."""
    _ann, ben, cat = members.all
    offer = members.put(some_bytes(100_000))
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    members.want(cat, offer.content)
    carry(ben, cat)  # ann is away
    assert members.state(cat, offer) is ContentState.WANTED
    members.wait(CONTENT_PULL_US / 1e6)
    carry(ben, cat)
    assert members.state(cat, offer) is ContentState.HERE
    assert members.opened(cat, offer) == some_bytes(100_000)


def test_a_member_without_the_file_says_so(members: Members) -> None:
    _ann, ben, cat = members.all
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(cat, offer.content)
    carry(*members.all)
    members.want(ben, offer.content, author=cat)
    with cat.store.transaction():
        cat.store.content.drop(offer.content.hash)
    carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE


# accepts: 003.72
def test_a_damaged_file_is_asked_of_the_next_member(members: Members) -> None:
    """A chunk is compared with the index before it is given, so nobody is taken for a liar by a bad card."""
    ann, ben, cat = members.all
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    sealed = ann.path.parent / "ann.content" / offer.content.hash.hex()
    with sealed.open("r+b") as file:
        file.seek(CHUNK_BYTES + 5)
        file.write(b"bit rot")
    members.want(ben, offer.content)
    for _ in range(3):
        carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE
    assert not codes(ben), "nobody gave anything wrong"


@pytest.mark.parametrize("damage", ["a chunk", "the index", "all of it"])
def test_a_damaged_copy_is_noticed_when_it_is_asked_for_and_fetched_again(members: Members, damage: str) -> None:
    ann, ben, cat = members.all
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    sealed = ann.path.parent / "ann.content" / offer.content.hash.hex()
    if damage == "all of it":
        sealed.unlink()
    else:
        with (sealed.with_suffix(".index") if damage == "the index" else sealed).open("r+b") as file:
            file.seek(5)
            file.write(b"bit rot")
    members.want(ben, offer.content)
    happened = []
    for _ in range(4):
        carry(*members.all)
        for device in members.all:
            device.maintain()
        happened += ann.events()
    assert members.state(ben, offer) is ContentState.HERE
    assert members.state(ann, offer) is ContentState.HERE
    assert ann.store.content.files.verify(offer.content.hash)
    assert [type(each) for each in happened] == [FileDamaged, FileArrived]
    assert ann.store.counters.values()[DAMAGED_FILES] == 1


def test_a_failing_disk_has_a_file_fetched_again_once_an_hour(members: Members) -> None:
    ann, _ben, cat = members.all
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    sealed = ann.path.parent / "ann.content" / offer.content.hash.hex()
    for _ in range(3):
        sealed.write_bytes(b"bit rot")
        with ann.store.transaction():
            ann.store.content.read(members.group_id, offer.content.hash, 0, 1_000)
        for _ in range(3):
            members.settle()
    assert ann.store.counters.values()[DAMAGED_FILES] == 1
    ann.wait(REFETCH_US / 1e6)
    ann.store.content.read(members.group_id, offer.content.hash, 0, 1_000)
    for _ in range(3):
        members.settle()
    assert ann.store.counters.values()[DAMAGED_FILES] == 2
    assert ann.store.content.files.verify(offer.content.hash)


def test_a_file_that_is_whole_before_its_part_is_synced_is_fetched_again_at_once(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever brings its part to the disk finds it gone: that says nothing of the disk."""
    ann, _ben, cat = members.all
    synchronise = ContentFiles.synchronise_part

    def late(files: ContentFiles, content: ContentHash) -> int:
        if threading.current_thread() is not threading.main_thread():
            raise StorageError("the part has gone")
        return synchronise(files, content)

    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    sealed = ann.path.parent / "ann.content" / offer.content.hash.hex()
    monkeypatch.setattr(ContentFiles, "synchronise_part", late)
    for _ in range(2):
        sealed.write_bytes(b"bit rot")
        ann.store.content.read(members.group_id, offer.content.hash, 0, 1_000)
        for _ in range(3):
            members.settle()
        assert ann.store.content.files.verify(offer.content.hash)
        ann.wait(REFETCH_US / 1e6)


def test_unrequested_parts_are_dropped(members: Members) -> None:
    ann, ben, cat = members.all
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    ben.sends()
    index = ann.store.content.read(members.group_id, offer.content.index, 0, 32)
    assert index is not None
    for author, part in (
        (cat, ContentPart(offer.content.index, 0, index)),  # nobody asked cat
        (ann, ContentPart(offer.content.hash, 0, b"early")),
        (ann, ContentPart(offer.content.index, 7, index)),
        (ann, ContentPart(ContentHash(bytes(32)), 0, b"of something else")),
        (ann, ContentPart(offer.content.index, 0, b"")),
    ):
        said(author, ben, members, MessageType.CONTENT_PART, part.to_wire())
    assert ben.node.content.next_deadline() == ben.now.monotonic_us + CONTENT_PULL_US, "the holder's turn goes on"
    for _ in range(2):  # cat is asked, then nobody, and then ann
        members.wait(CONTENT_PULL_US / 1e6)
        carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE


# accepts: 003.72
def test_nobody_who_is_no_member_is_given_anything(members: Members, make: Make) -> None:
    """The membership is checked before anything is served, and once more with each part."""
    ann, _ben, cat = members.all
    offer = members.put(some_bytes(4 * CHUNK_BYTES))
    members.settle()
    stranger = make("stranger")
    pull = ContentPull(offer.content.index, 0, 32).to_wire()
    said(stranger, ann, members, MessageType.CONTENT_PULL, pull)
    assert codes(ann) == ["not_a_member"]
    members.want(cat, offer.content)
    for each in cat.sends():
        ann.receive(each.envelope)
    with ann.store.transaction():
        ann.node.actions.change(members.group_id, lambda draft, epoch_id: draft.removing(cat.key, epoch_id), ann.now)
    assert cat.key not in given_by(ann, members)


def test_parts_queued_for_a_member_are_bounded(members: Members) -> None:
    ann, ben, cat = members.all
    offer = members.put(some_bytes(40 * CHUNK_BYTES))
    members.settle()
    for number in range(6):
        body = ContentPull(offer.content.hash, number * CHUNK_BYTES, CONTENT_PULL_BYTES).to_wire()
        said(ben, ann, members, MessageType.CONTENT_PULL, body)
    assert codes(ann) == ["rate", "rate"]
    members.want(cat, offer.content)
    for each in cat.sends():
        ann.receive(each.envelope)
    first = given_by(ann, members)
    assert set(first) == {ben.key, cat.key}, "members take turns"


def test_so_many_members_are_served_at_once(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more has its turn when another one has had all that it asked for."""
    assert SERVED_MEMBERS >= 64
    monkeypatch.setattr("covey.core.content.exchange.SERVED_MEMBERS", 2)
    members = Members(make, tmp_path, "ann", "ben", "cat", "dan")
    ann, *others = members.all
    body = ContentPull(ContentHash(bytes(32)), 0, 1).to_wire()
    for each in others:
        said(each, ann, members, MessageType.CONTENT_PULL, body)
    assert codes(ann) == ["rate"]
    answers = sent_by(ann, members)
    assert [ContentPart.from_wire(each.body).content for each in answers] == [None, None], "it has no such file"
    assert sent_by(ann, members) == []
    ann.wait(1)
    sent_by(ann, members)
    said(others[-1], ann, members, MessageType.CONTENT_PULL, body)
    assert given_by(ann, members) == [others[-1].key]


def test_a_member_is_given_so_much_in_a_second_for_ever(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.content.exchange.PARTS_SAVED", 4)
    ann, ben, _cat = members.all
    offer = members.put(some_bytes(40 * CHUNK_BYTES))
    members.settle()
    body = ContentPull(offer.content.hash, 0, 40 * CHUNK_BYTES).to_wire()
    said(ben, ann, members, MessageType.CONTENT_PULL, body)
    given = []
    for _ in range(3):
        given.append(sum(len(given_by(ann, members)) for _ in range(5)))
        ann.wait(2 / PARTS_PER_SECOND)
    assert given == [4, 2, 2]


def test_a_few_parts_go_in_a_turn_of_the_agent(members: Members) -> None:
    """After all else that waits: what is measured comes first."""
    ann, ben, _cat = members.all
    offer = members.put(some_bytes(40 * CHUNK_BYTES))
    members.settle()
    body = ContentPull(offer.content.hash, 0, 40 * CHUNK_BYTES).to_wire()
    said(ben, ann, members, MessageType.CONTENT_PULL, body)
    ann.blob(members.group_id, b"a reading")
    kinds = [
        read_message(open_envelope(each.envelope, ben.identity, ben.store.link_keys.find).message).type
        for each in ann.sends()
        if each.recipient == ben.key
    ]
    assert kinds.count(MessageType.CONTENT_PART) == PARTS_AT_ONCE
    assert set(kinds[-PARTS_AT_ONCE:]) == {MessageType.CONTENT_PART}, "the reading went before"


def test_a_relay_with_a_small_bound_carries_small_parts(members: Members) -> None:
    ann, ben = members.all[:2]
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    ann.node.state.carriage.maximum_payload = 10_000
    members.want(ben, offer.content)
    largest = 0
    while sent := [*ben.sends(), *ann.sends()]:
        largest = max(largest, *(len(each.envelope) for each in sent))
        for each in sent:
            (ann if each.recipient == ann.key else ben).receive(each.envelope)
    assert largest <= 10_000
    assert members.opened(ben, offer) == some_bytes(3 * CHUNK_BYTES)


def test_a_group_that_is_left_takes_its_files_along(members: Members) -> None:
    ben = members.all[1]
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    with ben.store.transaction():
        ben.store.groups.erase_content(members.group_id)
    assert ben.store.content.all() == []
    assert not list(ben.path.parent.glob("ben.content/*"))
