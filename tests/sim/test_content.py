"""Files among members of whom one lies, over a relay that loses and repeats, to a device that crashes at any commit.

Whatever happens: a file that is here is what its author put; nobody who is honest is taken for a liar; what was kept is
never asked for again; who is no member is given nothing; and in the end the file is here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.content_files import ContentFiles
from covey.adapters.sqlite.content import ContentState
from covey.core.content.exchange import ContentExchange
from covey.core.content.fetch import Fetch
from covey.core.content.messages import ContentPart, ContentPull
from covey.core.content.progress import FileProgress
from covey.core.events import EnvelopeDropped
from covey.core.history.files import FileOffer
from covey.core.ids import Incarnation, LinkSeq
from covey.core.link.link_keys import open_envelope
from covey.core.link.sealer import Outgoing
from covey.core.now import Now
from covey.core.wire.envelope import seal
from covey.core.wire.message import Message, MessageType, read_message, write_message
from covey.errors import RemoteError, WrongContentError
from covey.limits.content import CHUNK_BYTES, CONTENT_EXPIRY_S, CONTENT_PULL_US
from tests.content import opened, put, want
from tests.examples import parameters
from tests.fleet import Device, carry, found
from tests.proof import a_world_notices

_SIZE = 4 * CHUNK_BYTES + 77
_STEPS = 40
_QUIET_STEPS = 200
_WRONG = WrongContentError.code
_FILES = frozenset({MessageType.CONTENT_PULL, MessageType.CONTENT_PART})


class _PowerCutError(Exception):
    """The device ends before its commit."""


class _World:
    """Ann offers a file, cat has it too, mal says so; ben wants it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.content = self.chance.randbytes(_SIZE)
        self.all = [Device(name, folder) for name in ("ann", "ben", "cat", "mal")]
        self.ann, self.ben, self.cat, self.mal = self.all
        self.group_id = found(*self.all)
        for each in self.all:
            each.compares_on_contact_only()
        self._settle()
        self.offer: FileOffer = put(self.ann, self.group_id, self.content, folder)
        self._settle()
        want(self.cat, self.group_id, self.offer.content, self.ann)
        carry(self.ann, self.cat)
        self.is_hostile, self.is_lossy, self.is_member = True, True, True
        self.given_to_former = 0
        author = self.chance.choice((self.ann, self.mal))  # who is asked first: also a liar, if it had put the file
        want(self.ben, self.group_id, self.offer.content, author)

    def _settle(self) -> None:
        for _ in range(3):
            carry(*self.all)
            for each in self.all:
                each.maintain()

    @property
    def state(self) -> ContentState:
        """What has become of the file at ben."""
        kept = self.ben.store.content.of(self.offer.content.hash)
        assert kept is not None
        return kept.state

    def step(self) -> None:
        """Let time pass, and everybody say what is due; the relay brings what it likes."""
        seconds = self.chance.choice((0.0, 0.1, 1.0, 2.0 * CONTENT_PULL_US / 1e6))
        for each in self.all:
            each.wait(seconds)
            each.maintain()
        if self.is_hostile and self.chance.random() < 0.3:
            self._lie(self.chance.choice((self.offer.content.hash, self.offer.content.index)), None)
        for author in self.all:
            for outgoing in [*author.sends()]:
                self._carry(author, outgoing)
        self._check()

    def _carry(self, author: Device, outgoing: Outgoing) -> None:
        to = next(each for each in self.all if each.key == outgoing.recipient)
        message = self._read(to, outgoing)
        if author is self.ben and message is not None and message.type is MessageType.CONTENT_PULL:
            self._check_pull(ContentPull.from_wire(message.body))
        if to is self.mal and not self.is_member and outgoing.lifetime_s == CONTENT_EXPIRY_S:
            self.given_to_former += 1
        if message is not None and to is self.mal and self.is_hostile and message.type is MessageType.CONTENT_PULL:
            self._lie(ContentPull.from_wire(message.body).hash, ContentPull.from_wire(message.body))
            return
        is_file = message is not None and message.type in _FILES
        if self.is_lossy and is_file and self.chance.random() < 0.1:
            return
        for _ in range(2 if self.is_lossy and self.chance.random() < 0.1 else 1):
            self._bring(to, outgoing.envelope)

    def _read(self, to: Device, outgoing: Outgoing) -> Message | None:
        with suppress(RemoteError):
            return read_message(open_envelope(outgoing.envelope, to.identity, to.store.link_keys.find).message)
        return None

    def _bring(self, to: Device, envelope: bytes) -> None:
        if to is self.ben and self.is_lossy and self.chance.random() < 0.25:
            with suppress(_PowerCutError), to.store.transaction():
                to.node.receive_envelope(envelope, to.now)
                raise _PowerCutError
            to.restart()
            to.compares_on_contact_only()
            return
        to.receive(envelope)

    def _lie(self, content: Any, pull: ContentPull | None) -> None:
        """Have mal answer as it likes, asked or not: wrong, endless, early, late, or nothing at all."""
        position = self.chance.choice((0, 0, CHUNK_BYTES, 7)) if pull is None else pull.position
        if pull is not None and (pull.hash == self.offer.content.index or self.chance.random() < 0.2):
            self._answer_truly(pull)
            return
        for _ in range(self.chance.choice((0, 1, 3, 40))):
            size = self.chance.choice((1, 32 * 5, 1_000, CHUNK_BYTES))
            self._say(ContentPart(content, position, self.chance.choice((None, self.chance.randbytes(size)))))
            position += size

    def _answer_truly(self, pull: ContentPull) -> None:
        """Have mal win trust: the index, and sometimes a chunk, are right, or only nearly so."""
        end = min(pull.position + pull.size, pull.position + CHUNK_BYTES)
        right = self.ann.store.content.read(self.group_id, pull.hash, pull.position, end - pull.position) or b""
        if self.chance.random() < 0.3:
            right = right[:-1] + bytes([right[-1] ^ 1]) if right else b""
        self._say(ContentPart(pull.hash, pull.position, right or None))

    def _say(self, part: ContentPart) -> None:
        words = MessageType.CONTENT_PART, self.ben.key, self.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0)
        raw = write_message(self.mal.identity, *words, self.ben.now.wall_us, part.to_wire())
        self.ben.receive(seal(raw, self.ben.identity.noise_public, self.mal.rng(32), self.mal.rng(24)))

    def _check_pull(self, pull: ContentPull) -> None:
        content = self.ben.store.content
        wanted = [each for each in content.all_wanted() if each.hash == pull.hash]
        if wanted:
            assert pull.position >= content.parts.fetched(wanted[0]), "what was kept is asked for again"

    def _check(self) -> None:
        assert self.state is not ContentState.REFUSED, "an honest author is taken for a liar"
        if self.state is ContentState.HERE:
            assert opened(self.ben, self.group_id, self.offer, self.folder) == self.content, "another file"
        assert not self.given_to_former, "given to who is no member"
        liars = {each.author for each in self.ben.events() if isinstance(each, EnvelopeDropped) and each.code == _WRONG}
        assert liars <= {self.mal.key}, "an honest member is taken for a liar"

    def remove(self) -> None:
        """Remove mal, which goes on to ask."""
        with self.ann.store.transaction():
            self.ann.node.actions.change(
                self.group_id, lambda draft, epoch: draft.removing(self.mal.key, epoch), self.ann.now
            )
        for _ in range(2):
            carry(self.ann, self.ben, self.cat)
            for each in (self.ann, self.ben, self.cat):
                each.maintain()
        self.is_member, self.is_hostile = False, False
        for to in (self.ann, self.cat):
            pull = ContentPull(self.offer.content.hash, 0, CHUNK_BYTES)
            words = MessageType.CONTENT_PULL, to.key, self.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0)
            raw = write_message(self.mal.identity, *words, to.now.wall_us, pull.to_wire())
            to.receive(seal(raw, to.identity.noise_public, self.mal.rng(32), self.mal.rng(24)))

    def end(self) -> None:
        """Let the relay behave, and wait until the file is here."""
        self.is_lossy = False
        for _ in range(_QUIET_STEPS):
            if self.state is ContentState.HERE:
                return
            self.step()
        raise AssertionError("the file never came")


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have room: how much this machine's disk has just then is not of the seed, and without any no file comes."""
    monkeypatch.setattr(ContentFiles, "need_room", lambda *_: None)


def _run(folder: Path, seed: int) -> None:
    world = _World(folder, seed)
    try:
        for number in range(_STEPS):
            world.step()
            if number == _STEPS // 2 and seed % 2:
                world.remove()
        world.end()
    finally:
        for each in world.all:
            each.stop()


@pytest.mark.parametrize("seed", parameters(range(12), quick=2, plain=3))
# accepts: 003.71, 003.72, 003.73, 003.74, 003.75
def test_a_file_comes_whole_past_a_liar_and_a_bad_relay(tmp_path: Path, seed: int) -> None:
    _run(tmp_path, seed)


def _believes_what_comes(self: FileProgress, pieces: list[bytes]) -> list[tuple[list[bytes], bytes]]:
    return [(pieces, self._hash_at(self.position))]


_TAKE = Fetch.take


def _takes_any_position(self: Fetch, part: ContentPart, now: Now) -> bool:
    at = self._position + len(self._open)
    return _TAKE(self, replace(part, position=at), now)


def _ends_no_turn(self: Fetch) -> None:
    self._waits_until_us = 2**62


MISTAKES: dict[str, tuple[tuple[object, str], Callable[..., Any]]] = {
    "a chunk is kept unverified": ((FileProgress, "_chunks"), _believes_what_comes),
    "a part is taken for the next one wherever it begins": ((Fetch, "take"), _takes_any_position),
    "a liar's turn never ends": ((Fetch, "end_turn"), _ends_no_turn),
    "a restart forgets what was kept": ((Fetch, "_position"), property(lambda _: 0)),  # type: ignore[dict-item]
    "what came last before a crash is never taken for whole": ((ContentExchange, "maintain"), lambda *_: []),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_content_is_caught(mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (owner, name), replacement = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, replacement)
    a_world_notices(mistake, _run, tmp_path, range(24), (AssertionError, RemoteError))
