"""Files between members, through `Node`: who gives them, part by part, and what a liar, a cut and a full disk cost."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from unittest.mock import patch

import pytest

from covey.adapters.sqlite.content import ContentState
from covey.core.content.events import FileArrived, FileRefused
from covey.core.content.messages import ContentPart, ContentPull
from covey.core.events import EnvelopeDropped
from covey.core.history.bodies import Note
from covey.core.history.files import ContentReference, FileOffer, bound_to, content_key
from covey.core.history.kinds import OperationKind
from covey.core.ids import ContentHash, DeviceKey, Incarnation, LinkSeq
from covey.core.link.link_keys import open_envelope
from covey.core.wire.envelope import seal
from covey.core.wire.message import Message, MessageType, read_message, write_message
from covey.limits.content import (
    CHUNK_BYTES,
    CHUNK_PATIENCE_US,
    CONTENT_PULL_BYTES,
    CONTENT_PULL_US,
    FETCH_REST_US,
    PARTS_AT_ONCE,
    PARTS_PER_SECOND,
    SERVED_MEMBERS,
)
from tests.fleet import Device, Make, carry, found


class Members:
    """Members who have settled everything else, the first of whom may offer files."""

    def __init__(self, make: Make, folder: Path, *names: str) -> None:
        self.all = [make(name) for name in names]
        self.ann = self.all[0]
        self.group_id = found(*self.all)
        self._folder = folder
        for device in self.all:
            device.compares_on_contact_only()
        self.settle()

    def settle(self) -> None:
        """Carry what there is, and forget what happened."""
        carry(*self.all)
        for device in self.all:
            device.maintain()
        carry(*self.all)
        for device in self.all:
            device.events()

    def put(self, content: bytes, by: Device | None = None) -> FileOffer:
        """Let a member offer a file."""
        device = by or self.ann
        path = self._folder / "original"
        path.write_bytes(content)
        manifest = device.node.groups.group(self.group_id)
        secret = device.store.groups.secret(self.group_id, manifest.epoch_id)
        assert secret is not None
        file_id, nonce = device.rng(16), device.rng(24)
        key, associated = content_key(secret, file_id), bound_to(self.group_id, file_id)
        files = device.store.content.files
        with files.locked(), path.open("rb") as source:
            reference = files.seal(source.fileno(), len(content), key, nonce, associated, lambda _: None)
        offer = FileOffer("original", file_id, manifest.epoch_id, reference)
        with device.store.transaction():
            device.node.history.write(self.group_id, offer, device.now)
            device.store.content.put(self.group_id, device.key, reference, device.now.wall_us)
        return offer

    def want(self, device: Device, reference: ContentReference, author: Device | None = None) -> None:
        """Let a member ask for a file."""
        with device.store.transaction():
            device.store.content.want(self.group_id, (author or self.ann).key, reference, device.now.wall_us)
        device.node.content.refresh()

    def opened(self, device: Device, offer: FileOffer) -> bytes:
        """Return what a file holds, as a member opens it."""
        secret = device.store.groups.secret(self.group_id, offer.epoch_id)
        assert secret is not None
        target = self._folder / f"of {device.name}"
        key, associated = content_key(secret, offer.file_id), bound_to(self.group_id, offer.file_id)
        device.store.content.files.open_into(offer.content, key, associated, target, replace=True)
        return target.read_bytes()

    def state(self, device: Device, offer: FileOffer) -> ContentState | None:
        """Return what has become of a file."""
        kept = device.store.content.of(offer.content.hash)
        return None if kept is None else kept.state

    def wait(self, seconds: float) -> None:
        """Let time pass for all."""
        for device in self.all:
            device.wait(seconds)


@pytest.fixture
def members(make: Make, tmp_path: Path) -> Members:
    return Members(make, tmp_path, "ann", "ben", "cat")


def _bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def _said(device: Device, to: Device, members: Members, kind: MessageType, body: bytes) -> None:
    """Let a member say something of files as no rule would have it."""
    message = write_message(
        device.identity, kind, to.key, members.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0), 0, body
    )
    to.receive(seal(message, to.identity.noise_public, device.rng(32), device.rng(24)))


def _codes(device: Device) -> list[str]:
    return [each.code for each in device.events() if isinstance(each, EnvelopeDropped)]


def _sent(device: Device, members: Members) -> list[Message]:
    """Return what a member says of files now; nobody hears it."""
    by_key = {each.key: each for each in members.all}
    found = []
    for each in device.sends():
        to = by_key[each.recipient]
        message = read_message(open_envelope(each.envelope, to.identity.noise, to.store.link_keys).message)
        if message.type in {MessageType.CONTENT_PULL, MessageType.CONTENT_PART}:
            found.append(message)
    return found


def _asked(device: Device, members: Members) -> list[DeviceKey]:
    return [each.recipient for each in _sent(device, members) if each.type is MessageType.CONTENT_PULL]


def _given(device: Device, members: Members) -> list[DeviceKey]:
    return [each.recipient for each in _sent(device, members) if each.type is MessageType.CONTENT_PART]


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 16, CHUNK_BYTES - 15, 3 * CHUNK_BYTES, 20 * CHUNK_BYTES + 5])
# accepts: 002.17, 002.18, 002.20, 002.21, 002.22, 002.23, 002.24, 003.69, 003.71, 003.74
def test_a_member_gets_a_file_whole_and_its_author_learns_of_it(members: Members, size: int) -> None:
    ann, ben = members.all[:2]
    content = _bytes(size)
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
def test_who_has_fetched_a_file_gives_it_to_others(members: Members) -> None:
    """Any holder serves; who offers it need not be there any more."""
    _ann, ben, cat = members.all
    offer = members.put(_bytes(100_000))
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    members.want(cat, offer.content)
    carry(ben, cat)  # ann is away
    assert members.state(cat, offer) is ContentState.WANTED
    members.wait(CONTENT_PULL_US / 1e6)
    carry(ben, cat)
    assert members.state(cat, offer) is ContentState.HERE
    assert members.opened(cat, offer) == _bytes(100_000)


def test_who_has_no_file_says_so_and_the_next_one_is_asked_at_once(members: Members) -> None:
    _ann, ben, cat = members.all
    offer = members.put(_bytes(1_000))
    members.settle()
    members.want(cat, offer.content)
    carry(*members.all)
    members.want(ben, offer.content, author=cat)
    with cat.store.transaction():
        cat.store.content.drop(offer.content.hash)
    carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE


# accepts: 003.72
def test_what_is_damaged_at_who_has_it_is_not_given_and_the_next_one_is_asked(members: Members) -> None:
    """A chunk is compared with the index before it is given, so nobody is taken for a liar by a bad card."""
    ann, ben, cat = members.all
    offer = members.put(_bytes(3 * CHUNK_BYTES))
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
    assert not _codes(ben), "nobody gave anything wrong"


def test_a_restart_goes_on_where_it_was(members: Members) -> None:
    ann, ben = members.all[:2]
    offer = members.put(_bytes(5 * CHUNK_BYTES))
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
    pulls = [ContentPull.from_wire(each.body) for each in _sent(ben, members)]
    assert [each.position for each in pulls] == [come]


# accepts: 003.71, 003.74
def test_who_has_put_a_file_that_its_disk_changed_has_the_rest_from_who_has_it(members: Members) -> None:
    """What is sound of it, up to the first chunk that is not, stays."""
    ann, ben, _ = members.all
    content = _bytes(3 * CHUNK_BYTES)
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
    [pull] = [each for each in _sent(ann, members) if each.type is MessageType.CONTENT_PULL]
    assert pull.recipient != ann.key
    assert ContentPull.from_wire(pull.body).position == CHUNK_BYTES
    for _ in range(3):
        members.wait(CONTENT_PULL_US / 1e6)
        carry(*members.all)
    assert members.state(ann, offer) is ContentState.HERE
    assert members.opened(ann, offer) == content


def test_a_torn_end_is_fetched_anew(members: Members) -> None:
    """What a power cut leaves of a chunk is cut off: at most one chunk comes twice."""
    ann, ben = members.all[:2]
    offer = members.put(_bytes(3 * CHUNK_BYTES))
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
    assert members.opened(ben, offer) == _bytes(3 * CHUNK_BYTES)


@pytest.mark.parametrize("suffix", ["", ".part"])
def test_a_file_whose_last_commit_the_power_cut_took_is_taken_for_whole(members: Members, suffix: str) -> None:
    """All chunks are on the disk, and nothing is to be asked for any more: it stayed asked for, for good."""
    ann, ben = members.all[:2]
    offer = members.put(_bytes(3 * CHUNK_BYTES))
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


def test_what_a_power_cut_left_at_the_end_is_never_cut_off(members: Members) -> None:
    """A command of this device looks at the part while its agent writes the next chunk."""
    ben = members.all[1]
    offer = members.put(_bytes(3 * CHUNK_BYTES))
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
    offer = members.put(_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    ben.sends()  # asks ann
    lie = ContentPart(offer.content.index, 0, bytes(32)).to_wire()
    _said(ann, ben, members, MessageType.CONTENT_PART, lie)
    assert _codes(ben) == ["wrong_content"]
    assert _asked(ben, members) == [cat.key]
    assert not list(ben.path.parent.glob("ben.content/*"))


def _asked_in_vain(device: Device, members: Members) -> None:
    """Let a member ask all others, none of whom hears it."""
    device.wait(CONTENT_PULL_US / 1e6)
    while _asked(device, members):
        device.wait(CONTENT_PULL_US / 1e6)


def test_who_drips_has_one_turn_too(members: Members) -> None:
    """Slow bytes: one whenever the turn would end kept others from being asked for days."""
    ann, ben, cat = members.all
    offer = members.put(_bytes(CHUNK_BYTES))
    members.settle()
    members.want(cat, offer.content)
    members.settle()
    members.want(ben, offer.content)
    index = ann.store.content.read(members.group_id, offer.content.index, 0, offer.content.index_size)
    begun, position = ben.now.monotonic_us, 0
    while ben.now.monotonic_us < begun + 2 * CHUNK_PATIENCE_US:
        pulls = [each for each in _sent(ben, members) if each.type is MessageType.CONTENT_PULL]
        if cat.key in {each.recipient for each in pulls}:
            return
        if offer.content.index in {ContentPull.from_wire(each.body).hash for each in pulls}:
            _said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(offer.content.index, 0, index).to_wire())
            continue
        position = 0 if pulls else position
        _said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(offer.content.hash, position, b"x").to_wire())
        position += 1
        members.wait(CONTENT_PULL_US / 1e6 * 0.9)
    raise AssertionError("nobody else was asked")


def test_what_nobody_asked_for_is_dropped(members: Members) -> None:
    ann, ben, cat = members.all
    offer = members.put(_bytes(1_000))
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
        _said(author, ben, members, MessageType.CONTENT_PART, part.to_wire())
    assert ben.node.content.next_deadline() == ben.now.monotonic_us + CONTENT_PULL_US, "the holder's turn goes on"
    for _ in range(2):  # cat is asked, then nobody, and then ann
        members.wait(CONTENT_PULL_US / 1e6)
        carry(*members.all)
    assert members.state(ben, offer) is ContentState.HERE


# accepts: 003.74
def test_a_file_that_is_not_what_its_author_says_is_deleted(members: Members) -> None:
    """Each part agrees with the index, and the index is not that of the file."""
    ann, ben = members.all[:2]
    real = members.put(_bytes(100_000))
    other = members.put(_bytes(100_001))
    members.settle()
    false = ContentReference(ContentHash(bytes(31) + b"1"), real.content.index, real.content.nonce, real.content.size)
    sealed = (ann.path.parent / "ann.content" / real.content.hash.hex()).read_bytes()
    index = ann.store.content.read(members.group_id, real.content.index, 0, real.content.index_size)
    assert index is not None
    members.want(ben, false)
    ben.sends()
    _said(ann, ben, members, MessageType.CONTENT_PART, ContentPart(false.index, 0, index).to_wire())
    ben.sends()
    for at in range(0, len(sealed), CHUNK_BYTES):
        part = ContentPart(false.hash, at, sealed[at : at + CHUNK_BYTES])
        _said(ann, ben, members, MessageType.CONTENT_PART, part.to_wire())
    assert [type(each) for each in ben.events()] == [FileRefused]
    kept = ben.store.content.of(false.hash)
    assert kept is not None
    assert kept.state is ContentState.REFUSED
    assert not list(ben.path.parent.glob("ben.content/*"))
    assert _sent(ben, members) == [], "it is not asked for again"
    members.want(ben, other.content)
    carry(*members.all)
    assert members.state(ben, other) is ContentState.HERE, "the next one is none the worse"


def test_a_disk_that_fills_during_a_fetch_ends_it_and_costs_nothing_else_anything(members: Members) -> None:
    """What is measured meanwhile is queued, sent and taken; the file goes on where it was when there is room."""
    ann, ben, _ = members.all
    offer = members.put(_bytes(4 * CHUNK_BYTES))
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


# accepts: 003.72
def test_nobody_who_is_no_member_is_given_anything(members: Members, make: Make) -> None:
    """The membership is checked before anything is served, and once more with each part."""
    ann, _ben, cat = members.all
    offer = members.put(_bytes(4 * CHUNK_BYTES))
    members.settle()
    stranger = make("stranger")
    pull = ContentPull(offer.content.index, 0, 32).to_wire()
    _said(stranger, ann, members, MessageType.CONTENT_PULL, pull)
    assert _codes(ann) == ["not_a_member"]
    members.want(cat, offer.content)
    for each in cat.sends():
        ann.receive(each.envelope)
    with ann.store.transaction():
        ann.node.actions.change(members.group_id, lambda draft, epoch_id: draft.removing(cat.key, epoch_id), ann.now)
    assert cat.key not in _given(ann, members)


def test_nobody_who_is_no_member_any_more_is_asked_for_anything(members: Members) -> None:
    """Whoever offered the file and was removed gives nothing, and learns nothing of who lacks it."""
    ann, ben, cat = members.all
    offer = members.put(_bytes(4 * CHUNK_BYTES), by=cat)
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    members.want(ann, offer.content, cat)
    assert _asked(ann, members) == [cat.key], "it offers the file"
    with ann.store.transaction():
        ann.node.actions.change(members.group_id, lambda draft, epoch_id: draft.removing(cat.key, epoch_id), ann.now)
    assert _asked(ann, members) == [ben.key]
    for _ in range(4):
        members.wait(FETCH_REST_US / 1e6)
        assert cat.key not in _asked(ann, members)


def test_what_a_member_is_owed_is_bounded(members: Members) -> None:
    ann, ben, cat = members.all
    offer = members.put(_bytes(40 * CHUNK_BYTES))
    members.settle()
    for number in range(6):
        body = ContentPull(offer.content.hash, number * CHUNK_BYTES, CONTENT_PULL_BYTES).to_wire()
        _said(ben, ann, members, MessageType.CONTENT_PULL, body)
    assert _codes(ann) == ["rate", "rate"]
    members.want(cat, offer.content)
    for each in cat.sends():
        ann.receive(each.envelope)
    first = _given(ann, members)
    assert set(first) == {ben.key, cat.key}, "members take turns"


def test_so_many_members_are_served_at_once(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more has its turn when another one has had all that it asked for."""
    assert SERVED_MEMBERS >= 64
    monkeypatch.setattr("covey.core.content.exchange.SERVED_MEMBERS", 2)
    members = Members(make, tmp_path, "ann", "ben", "cat", "dan")
    ann, *others = members.all
    body = ContentPull(ContentHash(bytes(32)), 0, 1).to_wire()
    for each in others:
        _said(each, ann, members, MessageType.CONTENT_PULL, body)
    assert _codes(ann) == ["rate"]
    answers = _sent(ann, members)
    assert [ContentPart.from_wire(each.body).content for each in answers] == [None, None], "it has no such file"
    assert _sent(ann, members) == []
    ann.wait(1)
    _sent(ann, members)
    _said(others[-1], ann, members, MessageType.CONTENT_PULL, body)
    assert _given(ann, members) == [others[-1].key]


def test_a_member_is_given_so_much_in_a_second_for_ever(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.content.exchange.PARTS_SAVED", 4)
    ann, ben, _cat = members.all
    offer = members.put(_bytes(40 * CHUNK_BYTES))
    members.settle()
    body = ContentPull(offer.content.hash, 0, 40 * CHUNK_BYTES).to_wire()
    _said(ben, ann, members, MessageType.CONTENT_PULL, body)
    given = []
    for _ in range(3):
        given.append(sum(len(_given(ann, members)) for _ in range(5)))
        ann.wait(2 / PARTS_PER_SECOND)
    assert given == [4, 2, 2]


def test_a_few_parts_go_in_a_turn_of_the_agent(members: Members) -> None:
    """After all else that waits: what is measured comes first."""
    ann, ben, _cat = members.all
    offer = members.put(_bytes(40 * CHUNK_BYTES))
    members.settle()
    body = ContentPull(offer.content.hash, 0, 40 * CHUNK_BYTES).to_wire()
    _said(ben, ann, members, MessageType.CONTENT_PULL, body)
    ann.blob(members.group_id, b"a reading")
    kinds = [
        read_message(open_envelope(each.envelope, ben.identity.noise, ben.store.link_keys).message).type
        for each in ann.sends()
        if each.recipient == ben.key
    ]
    assert kinds.count(MessageType.CONTENT_PART) == PARTS_AT_ONCE
    assert set(kinds[-PARTS_AT_ONCE:]) == {MessageType.CONTENT_PART}, "the reading went before"


def test_a_fetch_rests_after_some_members_and_goes_on_with_others(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.core.content.fetch.HOLDERS_TRIED", 2)
    members = Members(make, tmp_path, "ann", "ben", "cat", "dan", "eve")
    ben = members.all[1]
    offer = members.put(_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    rounds = []
    for _ in range(7):
        rounds.append(_asked(ben, members))
        ben.wait(CONTENT_PULL_US / 1e6)
    assert [len(each) for each in rounds] == [1, 1, 0, 1, 1, 0, 0], "each rest is longer"
    assert {each for asked in rounds for each in asked} == {each.key for each in members.all if each is not ben}


# accepts: 003.75
def test_who_is_heard_is_asked_again_and_others_later(members: Members) -> None:
    """What waits is asked for again when who offers it is heard."""
    ann, ben, _cat = members.all
    offer = members.put(_bytes(1_000))
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


def test_a_relay_with_a_small_bound_carries_small_parts(members: Members) -> None:
    ann, ben = members.all[:2]
    offer = members.put(_bytes(3 * CHUNK_BYTES))
    members.settle()
    ann.node.state.carriage.maximum_payload = 10_000
    members.want(ben, offer.content)
    largest = 0
    while sent := [*ben.sends(), *ann.sends()]:
        largest = max(largest, *(len(each.envelope) for each in sent))
        for each in sent:
            (ann if each.recipient == ann.key else ben).receive(each.envelope)
    assert largest <= 10_000
    assert members.opened(ben, offer) == _bytes(3 * CHUNK_BYTES)


def test_a_group_that_is_left_takes_its_files_along(members: Members) -> None:
    ben = members.all[1]
    offer = members.put(_bytes(1_000))
    members.settle()
    members.want(ben, offer.content)
    carry(*members.all)
    with ben.store.transaction():
        ben.store.groups.erase_content(members.group_id)
    assert ben.store.content.all() == []
    assert not list(ben.path.parent.glob("ben.content/*"))
