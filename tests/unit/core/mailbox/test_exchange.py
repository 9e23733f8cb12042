"""Devices with mailboxes, through `Node`: what waits for a sleeper comes to it once and in order, whoever is away."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from covey.core.mailbox.messages import (
    VERSION,
    Error,
    Hello,
    Notify,
    Pull,
)
from covey.limits.mailbox import (
    MAXIMUM_CURSOR_GAP,
    PULL_BLOBS,
    SILENT_RETRIES,
)
from tests.fleet import Device, admit
from tests.mailbox_fleet import MailboxFleet, dropped_codes


# accepts: 002.03, 002.04, 002.05, 002.06, 002.07, 002.08, 002.09, 002.12, 002.39, 002.40, 002.41
@pytest.mark.slow
def test_messages_of_a_dead_sender_arrive_once_and_in_order(
    fleet: MailboxFleet,
) -> None:
    fleet.asleep = {"ben"}
    said = [b"word %d" % number for number in range(250)]
    for each in said:
        fleet.ann.blob(fleet.group_id, each)
    fleet.hand_over(fleet.ann, fleet.ben)
    for _ in range(10):
        fleet.carry()
        fleet.wait(6)
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 250
    assert fleet.ann.store.outbox.totals()[0] >= 250, "a mailbox's word frees nothing"
    fleet.asleep = {"ann"}
    fleet.ben.restart()
    for _ in range(4):
        fleet.carry()
        fleet.wait(1)
    assert fleet.ben.inbox() == said
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 0
    assert fleet.post.store.mailbox.state(fleet.ben.key).max_cursor == 250


def test_a_message_by_mailbox_and_directly_is_taken_once(fleet: MailboxFleet) -> None:
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"one")
    fleet.hand_over(fleet.ann, fleet.ben)
    fleet.carry()
    fleet.asleep = set()
    fleet.ben.restart()
    fleet.ann.wait(6)
    fleet.carry()
    fleet.carry()
    assert fleet.ben.inbox() == [b"one"]
    assert fleet.ann.store.outbox.totals()[0] == 0


def test_a_recipient_that_is_silent_is_pushed_for_by_itself(fleet: MailboxFleet) -> None:
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"one")
    fleet.carry()
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 0
    for _ in range(3 * SILENT_RETRIES):
        fleet.wait(20)
        fleet.carry()
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 1


def test_a_relay_that_knows_nobody_there_has_messages_pushed_at_once(fleet: MailboxFleet) -> None:
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"one")
    fleet.carry()
    fleet.ann.node.nobody_listens(fleet.ben.key)
    fleet.carry()
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 1


def test_an_error_is_never_answered_with_one(fleet: MailboxFleet) -> None:
    fleet.say(fleet.ben, fleet.post, Error("malformed", "so you say"))
    assert not [each for each in fleet.answers(fleet.post) if isinstance(each, Error)]


def test_a_device_greets_a_mailbox_again_that_lost_its_sessions(fleet: MailboxFleet) -> None:
    fleet.post.restart()
    fleet.serve(fleet.post)
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"one")
    fleet.hand_over(fleet.ann, fleet.ben)
    fleet.carry()
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 1


def test_a_sleeper_comes_past_a_gap_of_expired_cursors(fleet: MailboxFleet) -> None:
    with fleet.post.store.transaction():
        fleet.post.store.database.run("DELETE FROM mailbox_inbox")
    fleet.fill(fleet.ben, 1)
    with fleet.post.store.transaction():
        fleet.post.store.mailbox.empty(fleet.ben.key)
        fleet.post.store.database.run(
            "UPDATE mailbox_inbox SET next_cursor = next_cursor + ?", (3 * MAXIMUM_CURSOR_GAP,)
        )
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"after all")
    fleet.hand_over(fleet.ann, fleet.ben)
    fleet.carry()
    fleet.asleep = {"ann"}
    fleet.ben.restart()
    fleet.carry()
    assert fleet.ben.inbox() == [b"after all"]


def test_a_mailbox_that_does_not_answer_is_greeted_again_with_pauses(fleet: MailboxFleet) -> None:  # accepts: 002.28
    fleet.ben.restart()
    greeted_at = []
    for second in range(200):
        if any(isinstance(each, Hello) for each in fleet.answers(fleet.ben)):
            greeted_at.append(second)
        fleet.ben.wait(1)
    pauses = [after - before for before, after in pairwise(greeted_at)]
    assert pauses[:3] == [20, 30, 50], "10 s for an answer, then 10, 20, 40 s"


def test_a_notify_has_the_rest_pulled(fleet: MailboxFleet) -> None:
    fleet.asleep = {"ann"}
    fleet.say(fleet.post, fleet.ben, Notify(bytes(16), 5, fleet.ann.key, 0, 1))
    assert [each for each in fleet.answers(fleet.ben) if isinstance(each, Pull)] == [Pull(0, PULL_BLOBS)]


def test_a_newcomers_message_waits_for_its_manifest(tmp_path: Path) -> None:
    """A sleeper that does not know of a member yet loses nothing of what that one has written, though it is gone."""
    fleet = MailboxFleet(tmp_path)
    fleet.carry()
    new = Device("new", tmp_path)
    fleet.devices["new"] = new
    fleet.asleep = {"ben"}
    admit(fleet.ann, new, fleet.group_id, fleet.post)
    new.blob(fleet.group_id, b"i am new")
    fleet.hand_over(new, fleet.ben)
    for _ in range(3):
        fleet.carry()
        fleet.wait(6)
    fleet.asleep = {"ann", "new"}
    fleet.ben.restart()
    fleet.carry()
    assert fleet.ben.inbox() == []
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs, "it is kept"
    fleet.asleep = {"new"}
    for _ in range(8):
        fleet.carry()
        fleet.wait(20)
    assert fleet.ben.inbox() == [b"i am new"]


def test_two_mailboxes_are_used_at_once_and_one_of_them_may_vanish(tmp_path: Path) -> None:
    fleet = MailboxFleet(tmp_path, mailboxes=("post", "office", "third"))
    fleet.carry()
    fleet.asleep = {"ben"}
    fleet.ann.blob(fleet.group_id, b"twice")
    fleet.hand_over(fleet.ann, fleet.ben)
    fleet.carry()
    keeping = [each for each in fleet.mailboxes if each.store.mailbox.state(fleet.ben.key).blobs]
    assert len(keeping) == 2
    fleet.asleep = {"ann", keeping[0].name}
    fleet.ben.restart()
    fleet.carry()
    assert fleet.ben.inbox() == [b"twice"]


def test_a_device_without_mailboxes_answers_nobody_and_has_no_exchange(tmp_path: Path) -> None:
    fleet = MailboxFleet(tmp_path)
    lone = Device("lone", tmp_path)
    assert lone.node.mailboxes.exchange is None
    with lone.store.transaction():
        group_id = lone.node.membership.create("lone", (), lone.now.wall_us).group_id
    assert lone.node.mailboxes.exchange is None
    fleet.say(fleet.ann, lone, Hello(VERSION, "ann", 0), group_id)
    assert dropped_codes(lone) == ["not_a_member"]
