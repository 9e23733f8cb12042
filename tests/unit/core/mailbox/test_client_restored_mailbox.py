"""A mailbox that was restored from a backup alone: its senders push again what it lacks, and nothing arrives twice."""

from __future__ import annotations

from pathlib import Path

from covey.limits.mailbox import GREETING_US
from tests.mailbox_fleet import MailboxFleet


def _say(fleet: MailboxFleet, *contents: bytes) -> None:
    for content in contents:
        fleet.ann.blob(fleet.group_id, content)
    fleet.hand_over(fleet.ann, fleet.ben)
    _meet(fleet)


def _meet(fleet: MailboxFleet) -> None:
    for _ in range(4):
        fleet.carry()
        fleet.wait(60)
    fleet.carry()


def test_a_restored_mailbox_gets_what_it_lacks_again(tmp_path: Path) -> None:
    fleet = MailboxFleet(tmp_path)
    fleet.asleep = {"ben"}
    _say(fleet, b"before 1", b"before 2")
    backup = fleet.post.copy_state()
    fleet.serve(fleet.post)
    fleet.asleep = {"ann"}
    _meet(fleet)
    assert fleet.ben.inbox() == [b"before 1", b"before 2"]
    fleet.asleep = {"ben"}
    _meet(fleet)
    _say(fleet, b"after 1", b"after 2")

    fleet.post.return_to(backup)
    fleet.serve(fleet.post)
    fleet.wait(GREETING_US / 1e6)
    _meet(fleet)
    fleet.asleep = {"ann"}
    fleet.wait(GREETING_US / 1e6)
    _meet(fleet)
    assert fleet.ben.inbox() == [b"before 1", b"before 2", b"after 1", b"after 2"]
    assert not fleet.post.store.mailbox.state(fleet.ben.key).blobs, "it keeps nothing that was taken"
