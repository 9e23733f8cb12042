"""What senders have mailboxes keep: for how long, and once more where a mailbox may have let go of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.core.mailbox.messages import Push
from covey.core.now import Now
from covey.limits.group import MAINTENANCE_US
from covey.limits.mailbox import BLOB_TTL_S, GREETING_US, HELLO_US, MAXIMUM_BLOB_TTL_S, PUSH_RENEWAL_US
from tests.mailbox_fleet import MailboxFleet

_STORED_S = MAINTENANCE_US // 1_000_000


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MailboxFleet]:
    found = MailboxFleet(tmp_path)
    found.carry()
    found.asleep = {"ben"}
    yield found
    for device in found.devices.values():
        device.stop()


def _say(fleet: MailboxFleet, content: bytes, lifetime_s: int | None = None) -> None:
    ann = fleet.ann
    with ann.store.transaction():
        lifetime_us = None if lifetime_s is None else lifetime_s * 1_000_000
        ann.node.send_blob(fleet.group_id, content, ann.now, fleet.ben.key, lifetime_us)


def _pushed(fleet: MailboxFleet) -> list[Push]:
    """Let what goes to the mailbox come there; return what was pushed."""
    found: list[Push] = []

    def keep(outgoing: object) -> bool:
        said = fleet.opened(outgoing)  # type: ignore[arg-type]
        found.extend([said] if isinstance(said, Push) else [])
        return True

    fleet.carry(keep)
    return found


def _kept(fleet: MailboxFleet) -> int:
    return fleet.post.store.mailbox.state(fleet.ben.key).blobs


def _pass(fleet: MailboxFleet, microseconds: int) -> list[Push]:
    """Let time pass, and whoever greets then do so; return what was pushed."""
    fleet.wait(microseconds / 1e6)
    found = _pushed(fleet)
    for _ in range(3):
        fleet.wait((GREETING_US + HELLO_US) / 1e6)
        found += _pushed(fleet)
    return found


@pytest.mark.parametrize(
    ("lifetime_s", "ttl"),
    [(None, 0), (3_600, 3_600 + _STORED_S), (1, 1 + _STORED_S), (10 * MAXIMUM_BLOB_TTL_S, MAXIMUM_BLOB_TTL_S)],
)
def test_a_message_is_kept_as_long_as_its_sender_lets_it_wait(  # accepts: 002.05
    fleet: MailboxFleet, lifetime_s: int | None, ttl: int
) -> None:
    """`ttl` is the sender's, by the time that agents run, and 0 the mailbox's own."""
    _say(fleet, b"one", lifetime_s)
    fleet.hand_over(fleet.ann, fleet.ben)
    [push] = _pushed(fleet)
    assert push.ttl == ttl
    assert _kept(fleet) == 1
    service, run_s = fleet.serve(fleet.post), min(ttl or BLOB_TTL_S, MAXIMUM_BLOB_TTL_S)
    for seconds, left in ((run_s - 1, 1), (1, 0)):
        with fleet.post.store.transaction():
            fleet.post.store.outbox.grow_older(seconds * 1_000_000)
            service.maintain(fleet.post.now)
        assert _kept(fleet) == left


@pytest.mark.slow
def test_messages_an_emptied_mailbox_lost_are_pushed_again(fleet: MailboxFleet) -> None:
    for number in range(3):
        _say(fleet, b"word %d" % number)
    fleet.hand_over(fleet.ann, fleet.ben)
    assert len(_pushed(fleet)) == 3
    with fleet.post.store.transaction():
        fleet.post.store.mailbox.empty(fleet.ben.key)
    assert _pass(fleet, PUSH_RENEWAL_US // 2) == []
    _say(fleet, b"word 3")
    fleet.hand_over(fleet.ann, fleet.ben)
    assert len(_pass(fleet, 0)) == 1, "what follows puts nothing off"
    second = _pass(fleet, PUSH_RENEWAL_US // 2)
    assert len(second) == len({each.blob_id for each in second}) == 4, "all of it, each once"
    assert _kept(fleet) == 4
    assert _pass(fleet, PUSH_RENEWAL_US // 2) == [], "and then not for as long"
    fleet.asleep = {"ann"}
    fleet.ben.restart()
    fleet.carry()
    fleet.carry()
    assert sorted(fleet.ben.inbox()) == [b"word %d" % number for number in range(4)]


@pytest.mark.slow
def test_messages_a_restored_mailbox_lost_are_pushed_again(fleet: MailboxFleet) -> None:
    _say(fleet, b"one")
    fleet.hand_over(fleet.ann, fleet.ben)
    assert len(_pushed(fleet)) == 1
    before = fleet.post.copy_state()
    fleet.serve(fleet.post)
    _say(fleet, b"two")
    fleet.hand_over(fleet.ann, fleet.ben)
    _pass(fleet, HELLO_US)
    assert _kept(fleet) == 2
    fleet.post.return_to(before)
    fleet.serve(fleet.post)
    assert _kept(fleet) == 1
    assert len({each.blob_id for each in _pass(fleet, GREETING_US)}) == 2
    assert _kept(fleet) == 2


def test_a_wrong_clock_costs_one_more_push(fleet: MailboxFleet) -> None:
    right = fleet.ann.now
    fleet.ann.now = Now(right.monotonic_us, right.wall_us + 10**15)
    _say(fleet, b"one")
    fleet.hand_over(fleet.ann, fleet.ben)
    assert len(_pushed(fleet)) == 1
    fleet.ann.now = right
    assert len(_pass(fleet, HELLO_US)) == 1
    assert _pass(fleet, HELLO_US) == []
