"""A file that a member fetches: whom it asks, and what a liar, a cut, and a full disk cost it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from covey.adapters.sqlite.content import ContentState
from covey.core.content.events import FileRefused
from covey.core.content.messages import ContentPart, ContentPull
from covey.core.history.bodies import Note
from covey.core.history.files import ContentReference
from covey.core.history.kinds import OperationKind
from covey.core.ids import ContentHash
from covey.core.wire.message import MessageType
from covey.limits.content import (
    CHUNK_BYTES,
    CHUNK_PATIENCE_US,
    CONTENT_PULL_US,
    FETCH_REST_US,
)
from tests.content_members import Members, asked_by, codes, said, sent_by, some_bytes
from tests.fleet import Device, Make, carry


def test_a_restart_goes_on_where_it_was(members: Members) -> None:
    ann, ben = members.all[:2]
    offer = members.put(some_bytes(5 * CHUNK_BYTES))
    members.settle()
    members.want(ben, offer.content)
    for _ in range(3):  # index, and a first portion of which half is lost
        for each in [*ben.sends()]:
            ann.receive(each.envelope)
        for each in [*ann.sends()][:3]:
            ben.receive(each.envelope)
    come = ben.store.content.come(offer.content.hash)
    assert 0 < come < offer.content.sealed_size
    ben.restart()
    pulls = [ContentPull.from_wire(each.body) for each in sent_by(ben, members)]
    assert [each.position for each in pulls] == [come]


# accepts: 003.71, 003.74
def test_a_file_that_the_disk_changed_is_repaired_from_others(members: Members) -> None:
    """What is sound of it, up to the first chunk that is not, stays."""
    ann, ben, _ = members.all
    content = some_bytes(3 * CHUNK_BYTES)
    offer = members.put(content)
    members.settle()
    members.want(ben, offer.content)
    members.settle()
    files = ann.store.content.files
    sealed = bytearray(files.path(offer.content.hash).read_bytes())
    sealed[CHUNK_BYTES] ^= 1
    files.path(offer.content.hash).write_bytes(sealed + b"more")
    with files.locked():
        files.make_part(offer.content)
    members.want(ann, offer.content)
    [pull] = [each for each in sent_by(ann, members) if each.type is MessageType.CONTENT_PULL]
    assert pull.recipient != ann.key
    assert ContentPull.from_wire(pull.body).position == CHUNK_BYTES
    for _ in range(3):
        members.wait(CONTENT_PULL_US / 1e6)
        carry(*members.all)
    assert members.state(ann, offer) is ContentState.HERE
    assert members.opened(ann, offer) == content


def test_a_torn_end_is_fetched_again(members: Members) -> None:
    """What a power cut leaves of a chunk is cut off: at most one chunk comes twice."""
    ann, ben = members.all[:2]
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    members.want(ben, offer.content)
    for _ in range(2):
        for each in [*ben.sends()]:
            ann.receive(each.envelope)
        for each in [*ann.sends()][:2]:
            ben.receive(each.envelope)
    part = next(ben.path.parent.glob("ben.content/*.part"))
    whole_chunks = part.stat().st_size
    assert whole_chunks
    with part.open("ab") as torn:
        torn.write(bytes(1_000))
    ben.restart()
    carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE
    assert members.opened(ben, offer) == some_bytes(3 * CHUNK_BYTES)


@pytest.mark.parametrize("suffix", ["", ".part"])
def test_a_file_whose_last_commit_the_power_cut_took_is_taken_for_whole(members: Members, suffix: str) -> None:
    """All chunks are on the disk, and nothing is to be asked for any more: it stayed asked for, for good."""
    ann, ben = members.all[:2]
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    members.want(ben, offer.content)
    there, here = ann.path.parent / "ann.content", ben.path.parent / "ben.content"
    here.mkdir(mode=0o700, exist_ok=True)
    name = offer.content.hash.hex()
    (here / f"{name}.index").write_bytes((there / f"{name}.index").read_bytes())
    (here / f"{name}{suffix}").write_bytes((there / name).read_bytes())
    ben.restart()
    ben.maintain()
    carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE
    assert ann.store.content.holders(offer.content.hash) == [ben.key]


def test_another_process_never_truncates_a_part(members: Members) -> None:
    """A command of this device looks at the part while its agent writes the next chunk."""
    ben = members.all[1]
    offer = members.put(some_bytes(3 * CHUNK_BYTES))
    members.settle()
    members.want(ben, offer.content)
    content = ben.store.content
    wanted = content.wanted()[0]
    index = members.ann.store.content.read(members.group_id, offer.content.index, 0, 4 * 32)
    assert index is not None
    assert content.parts.save_index(wanted, index)
    part = ben.path.parent / "ben.content" / f"{offer.content.hash.hex()}.part"
    part.write_bytes(bytes(1_000))
    assert content.parts.fetched(wanted) == 0
    assert part.stat().st_size == 1_000


# accepts: 003.72, 003.74
def test_a_liar_has_one_turn(members: Members) -> None:
    """A wrong part is not kept, and another member is asked."""
    ann, ben, cat = members.all
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    ben.sends()  # asks ann
    lie = ContentPart(offer.content.index, 0, bytes(32)).to_wire()
    said(ann, ben, members, MessageType.CONTENT_PART, lie)
    assert codes(ben) == ["wrong_content"]
    assert asked_by(ben, members) == [cat.key]
    assert not list(ben.path.parent.glob("ben.content/*"))


def _asked_in_vain(device: Device, members: Members) -> None:
    """Let a member ask all others, none of whom hears it."""
    device.wait(CONTENT_PULL_US / 1e6)
    while asked_by(device, members):
        device.wait(CONTENT_PULL_US / 1e6)


def test_a_slow_holder_has_one_turn_only(members: Members) -> None:
    """Slow bytes: one whenever the turn would end kept others from being asked for days."""
    ann, ben, cat = members.all
    offer = members.put(some_bytes(CHUNK_BYTES))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    members.want(ben, offer.content)
    index = ann.store.content.read(members.group_id, offer.content.index, 0, offer.content.index_size)
    begun, position = ben.now.monotonic_us, 0
    while ben.now.monotonic_us < begun + 2 * CHUNK_PATIENCE_US:
        pulls = [each for each in sent_by(ben, members) if each.type is MessageType.CONTENT_PULL]
        if cat.key in {each.recipient for each in pulls}:
            return
        if offer.content.index in {ContentPull.from_wire(each.body).hash for each in pulls}:
            said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(offer.content.index, 0, index).to_wire())
            continue
        position = 0 if pulls else position
        said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(offer.content.hash, position, b"x").to_wire())
        position += 1
        members.wait(CONTENT_PULL_US / 1e6 * 0.9)
    raise AssertionError("nobody else was asked")


# accepts: 003.74
def test_a_file_that_is_not_what_its_author_says_is_deleted(members: Members) -> None:
    """Each part agrees with the index, and the index is not that of the file."""
    ann, ben = members.all[:2]
    real = members.put(some_bytes(100_000))
    other = members.put(some_bytes(100_001))
    members.settle()
    false = ContentReference(ContentHash(bytes(31) + b"1"), real.content.index, real.content.nonce, real.content.size)
    sealed = (ann.path.parent / "ann.content" / real.content.hash.hex()).read_bytes()
    index = ann.store.content.read(members.group_id, real.content.index, 0, real.content.index_size)
    assert index is not None
    members.want(ben, false)
    ben.sends()
    said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(false.index, 0, index).to_wire())
    ben.sends()
    for at in range(0, len(sealed), CHUNK_BYTES):
        part = ContentPart(false.hash, at, sealed[at : at + CHUNK_BYTES])
        said(ann, ben, members, MessageType.CONTENT_PART, part.to_wire())
    assert [type(each) for each in ben.events()] == [FileRefused]
    kept = ben.store.content.of(false.hash)
    assert kept is not None
    assert kept.state is ContentState.REFUSED
    assert not list(ben.path.parent.glob("ben.content/*"))
    assert sent_by(ben, members) == [], "it is not asked for again"
    members.want(ben, other.content)
    carry(*members.all)
    assert members.state(ben, other) is ContentState.HERE, "the next one is none the worse"


def test_a_disk_that_fills_during_a_fetch_ends_it_and_costs_nothing_else_anything(members: Members) -> None:
    """What is measured meanwhile is queued, sent and taken; the file goes on where it was when there is room."""
    ann, ben, _ = members.all
    offer = members.put(some_bytes(4 * CHUNK_BYTES))
    members.settle()
    members.want(ben, offer.content)
    real, room = os.pwrite, [2 * CHUNK_BYTES]

    def full(descriptor: int, content: bytes, offset: int) -> int:
        if offset + len(content) > room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content, offset)

    with patch("os.pwrite", full):
        for _ in range(3):
            carry(*members.all)
        assert members.state(ben, offer) is ContentState.WANTED
        wanted = ben.store.content.wanted()[0]
        assert ben.store.content.parts.fetched(wanted) == 2 * CHUNK_BYTES
        with ben.store.transaction():
            ben.node.history.write(members.group_id, Note("text/plain", b"still here"), ben.now)
        carry(ben, ann)
        notes = ann.store.operations.of_kind(members.group_id, OperationKind.NOTE, newest_first=True)
        assert len([*notes]) == 1, "what is queued goes"
    members.wait(CONTENT_PULL_US / 1e6)
    for _ in range(3):
        carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE


def test_nobody_who_is_no_member_any_more_is_asked_for_anything(members: Members) -> None:
    """Whoever offered the file and was removed gives nothing, and learns nothing of who lacks it."""
    ann, ben, cat = members.all
    offer = members.put(some_bytes(4 * CHUNK_BYTES), by=cat)
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    members.want(ann, offer.content, cat)
    assert asked_by(ann, members) == [cat.key], "it offers the file"
    with ann.store.transaction():
        ann.node.actions.change(members.group_id, lambda draft, epoch_id: draft.removing(cat.key, epoch_id), ann.now)
    assert asked_by(ann, members) == [ben.key]
    for _ in range(4):
        members.wait(FETCH_REST_US / 1e6)
        assert cat.key not in asked_by(ann, members)


def test_a_fetch_rests_after_some_members_and_goes_on_with_others(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.core.content.fetch.HOLDERS_TRIED", 2)
    members = Members(make, tmp_path, "ann", "ben", "cat", "dan", "eve")
    ben = members.all[1]
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    rounds = []
    for _ in range(7):
        rounds.append(asked_by(ben, members))
        ben.wait(CONTENT_PULL_US / 1e6)
    assert [len(each) for each in rounds] == [1, 1, 0, 1, 1, 0, 0], "each rest is longer"
    assert {each for asked in rounds for each in asked} == {each.key for each in members.all if each is not ben}


# accepts: 003.75
def test_a_file_is_requested_again_when_its_holder_is_seen(members: Members) -> None:
    """What waits is asked for again when who offers it is heard."""
    ann, ben, _cat = members.all
    offer = members.put(some_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    for _ in range(8):
        _asked_in_vain(ben, members)
    deadline = ben.node.content.next_deadline()
    assert deadline is not None
    assert deadline > ben.now.monotonic_us + FETCH_REST_US // 2, "rests grow"
    ben.wait(CONTENT_PULL_US / 1e6)
    ann.blob(members.group_id, b"ann is back")
    carry(ann, ben)
    assert members.state(ben, offer) is ContentState.HERE
