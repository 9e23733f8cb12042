"""Places nearby, as the agent's role asks them: nearest first, liars once, members where none has a file."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sqlite.content import ContentState
from covey.adapters.sqlite.store import SqliteStore
from covey.app.content.nearby import Nearby
from covey.app.content.nearby_files import NearbyFiles, NearbyNotes
from covey.core.history.files import ContentReference, FileOffer, bound_to, content_key
from covey.core.ids import ContentHash
from covey.errors import PeerError
from covey.limits.content import CHUNK_BYTES, LAN_ROUND_US
from covey.ports import ContentPlace, GivenFile
from tests.fleet import Device, carry, found
from tests.waiting import wait_until

CONTENT = random.Random(7).randbytes(3 * CHUNK_BYTES + 5)


class Place:
    """A place that has what it is given, and gives it as it is told."""

    def __init__(self, name: str, objects: Mapping[bytes, bytes], spoil: Callable[[bytes], Iterator[bytes]]) -> None:
        self.name = name
        self.on_this_network = True
        self.asked = 0
        self._objects, self._spoil = objects, spoil

    def read(self, content: bytes, position: int, end: int) -> Iterator[bytes] | None:
        self.asked += 1
        found_ = self._objects.get(content)
        return None if found_ is None else self._spoil(found_[position:end])

    def close(self) -> None:
        """Nothing is open."""


def _as_it_is(content: bytes) -> Iterator[bytes]:
    for begin in range(0, len(content), 10_000):
        yield content[begin : begin + 10_000]


def _wrong(content: bytes) -> Iterator[bytes]:
    yield from _as_it_is(bytes(len(content)))


def _endless(content: bytes) -> Iterator[bytes]:
    del content
    while True:
        yield bytes(10_000)


def _half(content: bytes) -> Iterator[bytes]:
    if len(content) < CHUNK_BYTES:
        yield from _as_it_is(content)
        return
    yield from _as_it_is(content[: len(content) // 2])
    raise PeerError("went away")


def _wrong_after_index(content: bytes) -> Iterator[bytes]:
    return _as_it_is(content) if len(content) < CHUNK_BYTES else _wrong(content)


class Around(Nearby):
    """Places that a test chooses; remembers what is offered to peers."""

    has_peers = False
    store_trouble = ""

    def __init__(self) -> None:
        super().__init__(None, None, [], None)
        self.there: list[ContentPlace] = []
        self.offered: Mapping[ContentHash, GivenFile] = {}

    def places(self) -> list[ContentPlace]:
        return self.there

    def offer(self, files: Mapping[ContentHash, GivenFile]) -> None:
        self.offered = files


class Notes(NearbyNotes):
    """Remembers, too, what it noted."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store, SystemClock())
        self.noted: list[int] = []
        self.counted: list[int] = []
        self.troubles: list[str] = []

    def peers(self, number: int) -> None:
        super().peers(number)
        self.noted.append(number)

    def store(self, trouble: str) -> None:
        super().store(trouble)
        self.troubles.append(trouble)

    def came(self, size: int) -> None:
        super().came(size)
        self.counted.append(size)


class Pair:
    """Ann has put a file, ben wants it; relays bring nothing unless they are carried."""

    def __init__(self, folder: Path) -> None:
        self.ann, self.ben = Device("ann", folder), Device("ben", folder)
        group_id = self.group_id = found(self.ann, self.ben)
        for each in (self.ann, self.ben):
            each.compares_on_contact_only()
        self.settle()
        manifest = self.ann.node.groups.group(group_id)
        secret = self.ann.store.groups.secret(group_id, manifest.epoch_id)
        assert secret is not None
        original = folder / "original"
        original.write_bytes(CONTENT)
        file_id, nonce = self.ann.rng(16), self.ann.rng(24)
        files = self.ann.store.content.files
        with files.locked(), original.open("rb") as source:
            words = content_key(secret, file_id), nonce, bound_to(group_id, file_id)
            self.reference = files.seal(source.fileno(), len(CONTENT), *words, lambda _: None)
        offer = FileOffer("original", file_id, manifest.epoch_id, self.reference)
        with self.ann.store.transaction():
            self.ann.node.history.write(group_id, offer, self.ann.now)
            self.ann.store.content.put(group_id, self.ann.key, self.reference, 0)
        self.settle()
        with self.ben.store.transaction():
            self.ben.store.content.want(group_id, self.ann.key, self.reference, 0)
        self.ben.node.content.refresh()
        self.objects: dict[bytes, bytes] = {
            self.reference.hash: files.path(self.reference.hash).read_bytes(),
            self.reference.index: files.path(self.reference.hash, ".index").read_bytes(),
        }
        self.around = Around()
        self.lines: list[str] = []
        self.notes = Notes(self.ben.store)
        self.role = NearbyFiles(
            self.around,
            self.ben.store.content,
            self.ben.key,
            SystemClock(),
            lambda _level, line: self.lines.append(line),
            self.notes,
            lambda: None,
        )

    def settle(self) -> None:
        """Carry what there is."""
        for _ in range(2):
            carry(self.ann, self.ben)
            for each in (self.ann, self.ben):
                each.maintain()

    def place(self, name: str, spoil: Callable[[bytes], Iterator[bytes]] = _as_it_is) -> Place:
        """Put a place nearby that has the file."""
        made = Place(name, self.objects, spoil)
        self.around.there.append(made)
        return made

    def look(self) -> None:
        """Let the role look around once, and end."""
        self.role.turn(self.ben.node, self.ben.now)

        def ended() -> bool:
            self.role.turn(self.ben.node, self.ben.now)
            return not self.ben.store.content.all_wanted() or bool(self.ben.store.content.wanted())

        wait_until(ended, "places have been asked")
        self.ben.maintain()

    @property
    def state(self) -> ContentState:
        """What has become of the file."""
        kept = self.ben.store.content.of(self.reference.hash)
        assert kept is not None
        return kept.state


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


# accepts: 003.73
def test_the_first_place_that_delivers_is_kept(pair: Pair) -> None:
    empty = Place("empty", {}, _as_it_is)
    pair.around.there.append(empty)
    first, second = pair.place("first"), pair.place("second")
    pair.look()
    assert pair.state is ContentState.HERE
    assert (empty.asked, second.asked) == (1, 0)
    assert first.asked == 2, "the index, then all chunks"
    assert any("bytes from first" in line for line in pair.lines)
    assert (pair.notes.noted, pair.notes.counted) == ([0], [pair.reference.sealed_size])
    pair.settle()
    assert pair.ann.store.content.holders(pair.reference.hash) == [pair.ben.key], "its author hears of it (002.18)"


def test_nothing_is_asked_of_members_while_places_nearby_are(pair: Pair) -> None:
    pair.place("here")
    pair.role.turn(pair.ben.node, pair.ben.now)
    assert pair.ben.store.content.wanted() == []
    assert not [*pair.ben.sends()]


@pytest.mark.parametrize("spoil", [_wrong, _endless, _wrong_after_index])
# accepts: 003.74
def test_a_peer_that_lies_loses_its_turn_and_is_reported(pair: Pair, spoil: Callable[[bytes], Iterator[bytes]]) -> None:
    """Hostile holders of wrong bytes, endless bytes, a wrong index."""
    liar = pair.place("liar", spoil)
    pair.place("honest")
    pair.look()
    assert pair.state is ContentState.HERE
    assert any("liar sent data that is not part of the file" in line for line in pair.lines)
    assert liar.asked <= 2


def test_a_chunk_is_fetched_from_one_place_only(pair: Pair) -> None:
    pair.place("half", _half)
    given: list[int] = []

    def counting(content: bytes) -> Iterator[bytes]:
        given.append(len(content))
        return _as_it_is(content)

    pair.place("rest", counting)
    pair.look()
    assert pair.state is ContentState.HERE
    assert max(given) < len(CONTENT)


def test_members_give_a_file_that_no_place_has(pair: Pair) -> None:
    pair.look()
    assert pair.ben.store.content.all_wanted()
    carry(pair.ann, pair.ben)
    assert pair.state is ContentState.HERE


def test_near_peers_are_asked_before_members(pair: Pair) -> None:
    """A peer that begins a moment later asks at the relay, or has the file by then."""
    pair.around.has_peers = True
    empty = Place("empty", {}, _as_it_is)
    pair.around.there.append(empty)
    pair.role.turn(pair.ben.node, pair.ben.now)
    wait_until(lambda: empty.asked > 1, "it looks again")
    assert not [*pair.ben.sends()], "no member is asked"
    pair.place("later")
    pair.look()
    assert pair.state is ContentState.HERE
    assert any("bytes from later" in line for line in pair.lines)


def test_that_ends_and_then_members_are_asked(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covey.core.content.nearer.NEAR_LOOK_US", 200_000)
    monkeypatch.setattr("covey.core.content.nearer.NEAR_LOOK_SPREAD_US", 1)
    pair.around.has_peers = True
    pair.look()
    carry(pair.ann, pair.ben)
    assert pair.state is ContentState.HERE


def test_a_second_file_is_asked_of_nobody_while_the_first_one_is_looked_for(pair: Pair) -> None:
    pair.around.has_peers = True
    other = ContentReference(ContentHash(b"other" + bytes(27)), ContentHash(bytes(32)), bytes(24), 5)
    pair.role.turn(pair.ben.node, pair.ben.now)
    with pair.ben.store.transaction():
        pair.ben.store.content.want(pair.group_id, pair.ann.key, other, pair.ben.now.wall_us)
    pair.ben.node.content.refresh()
    pair.role.turn(pair.ben.node, pair.ben.now)
    assert len(pair.ben.store.content.all_wanted()) == 2
    assert pair.ben.store.content.wanted() == []
    pair.ben.wait(LAN_ROUND_US / 1e6)
    pair.role.turn(pair.ben.node, pair.ben.now)
    assert [each.hash for each in pair.ben.store.content.wanted()] == [other.hash], "not for ever"


def test_a_file_that_is_dropped_on_its_way_leaves_nothing(pair: Pair) -> None:
    pair.place("endless", lambda content: _as_it_is(content) if len(content) < CHUNK_BYTES else iter(lambda: b"", 1))
    pair.role.turn(pair.ben.node, pair.ben.now)
    folder = pair.ben.path.parent / "ben.content"
    wait_until(lambda: bool([*folder.glob("*.index")]), "it has begun")
    with pair.ben.store.transaction():
        pair.ben.store.content.drop(pair.reference.hash)

    def is_clean() -> bool:
        pair.role.turn(pair.ben.node, pair.ben.now)
        return not [*folder.glob("*")]

    wait_until(is_clean, "nothing is left of it")


def test_files_here_or_arriving_are_offered_to_peers(pair: Pair) -> None:
    pair.role.turn(pair.ben.node, pair.ben.now)
    assert pair.around.offered[pair.reference.hash].looked_for
    pair.place("here")
    pair.look()
    pair.role.stop(pair.ben.node, pair.ben.now)
    assert pair.around.offered.keys() == {pair.reference.hash, pair.reference.index}


def test_a_store_that_refuses_is_noted_and_told_once_with_its_end(pair: Pair) -> None:
    pair.look()
    for trouble in ("it is down, after 1 ms", "it is down, after 2 ms", ""):
        pair.around.store_trouble = trouble
        pair.look()
    assert pair.notes.troubles == ["", "it is down, after 1 ms", ""]
    assert [each for each in pair.lines if "store" in each] == [
        "the object store refuses files: it is down, after 1 ms",
        "the object store works again",
    ]
