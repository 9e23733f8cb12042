"""A mailbox that lies delays at most: it is told, left alone, or asked anew, and costs a bounded number of messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.mailbox.messages import (
    VERSION,
    BlobEntry,
    Delete,
    Error,
    Hello,
    MailboxWelcome,
    Pull,
    PullResponse,
)
from covey.limits.mailbox import (
    MAXIMUM_CURSOR_GAP,
    PULL_BLOBS,
)
from tests.mailbox_fleet import MailboxFleet


class _Liar:
    """A member with the capability that says what it likes instead of being a mailbox."""

    def __init__(self, folder: Path) -> None:
        self.fleet = MailboxFleet(folder)
        self.post, self.ben = self.fleet.post, self.fleet.ben
        self.ben.restart()
        self.sent()

    def sent(self) -> list[object]:
        return [*self.fleet.answers(self.ben, to=self.post)]

    def welcome(self, maximum: int, pending: int = 1, relay_id: str = "liar") -> list[object]:
        self.fleet.say(self.post, self.ben, MailboxWelcome(VERSION, relay_id, maximum, pending))
        return self.sent()

    def respond(self, cursors: list[int], maximum: int, *, more: bool = False) -> list[object]:
        entries = tuple(BlobEntry(each.to_bytes(16), each, self.fleet.ann.key, b"junk", 0) for each in cursors)
        self.fleet.say(self.post, self.ben, PullResponse(entries, more, maximum))
        return self.sent()


@pytest.fixture
def liar(tmp_path: Path) -> _Liar:
    return _Liar(tmp_path)


@pytest.mark.parametrize(
    ("cursors", "maximum", "more", "code"),
    [
        ([MAXIMUM_CURSOR_GAP + 1], 2**39, False, "limit"),
        ([5], 4, False, "malformed"),
        ([5], 5, True, "malformed"),
        ([2, 2], 5, False, "malformed"),
        ([3, 2], 5, False, "malformed"),
    ],
)
def test_a_mailbox_that_invents_cursors_is_reported_and_avoided(
    liar: _Liar, cursors: list[int], maximum: int, code: str, *, more: bool
) -> None:
    assert Pull(0, PULL_BLOBS) in liar.welcome(10)
    said = liar.respond(cursors, maximum, more=more)
    assert [each.code for each in said if isinstance(each, Error)] == [code]
    assert liar.ben.store.mailbox.position(liar.post.key)[1] == 0


def test_unrequested_mailbox_messages_are_dropped(liar: _Liar) -> None:
    assert liar.respond([1], 1) == [], "nothing was asked"
    liar.welcome(0, 0)
    assert liar.respond([1], 1) == []
    assert liar.ben.inbox() == []


@pytest.mark.slow
def test_a_mailbox_that_always_has_more_costs_a_bounded_number_of_pulls(liar: _Liar) -> None:
    said, pulls = liar.welcome(2**39), 0
    while any(isinstance(each, Pull) for each in said):
        pulls += 1
        assert pulls < 1_000
        said = liar.respond([], 2**39, more=True)
    assert pulls > 1


def test_only_messages_that_can_never_open_are_deleted(liar: _Liar) -> None:
    liar.welcome(3, 3)
    said = liar.respond([1, 2], 2)
    assert [each for each in said if isinstance(each, Delete)] == [Delete(((1, 2),))]
    assert liar.ben.store.mailbox.position(liar.post.key) == ("liar", 2)


@pytest.mark.parametrize(("maximum", "relay_id"), [(1, "liar"), (50, "another state")])
def test_a_restored_mailbox_is_asked_from_the_first_cursor_on(liar: _Liar, maximum: int, relay_id: str) -> None:
    liar.welcome(20, 20)
    liar.respond([20], 20)
    assert liar.ben.store.mailbox.position(liar.post.key) == ("liar", 20)
    liar.ben.restart()
    assert liar.sent() == [Hello(VERSION, "", 20)]
    assert Pull(0, PULL_BLOBS) in liar.welcome(maximum, 1, relay_id)
