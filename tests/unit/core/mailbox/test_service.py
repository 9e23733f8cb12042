"""A mailbox as members speak with it, through `Node`: sessions, inboxes and their bounds, PULL, DELETE, wake hooks."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from covey.adapters.sqlite import mailbox as mailbox_tables
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey
from covey.core.mailbox import service as service_module
from covey.core.mailbox.messages import (
    NO_BLOB,
    VERSION,
    Delete,
    DeviceRevoked,
    Error,
    Hello,
    Hook,
    MailboxWelcome,
    Notify,
    Pull,
    PullResponse,
    Push,
    PushAck,
    RegisterPush,
    RevokeDevice,
    UnregisterPush,
    WakeHook,
)
from covey.core.mailbox.pushing import blob_id_of
from covey.errors import RateError
from covey.limits.mailbox import (
    ANSWERS_WAITING,
    BLOB_TTL_S,
    GREETING_US,
    HELLO_US,
    INBOX_BLOBS,
    INBOX_PUSHES_SAVED,
    MAXIMUM_BLOB_TTL_S,
    MAXIMUM_CURSOR_GAP,
    MAXIMUM_PULL_BLOBS,
    NOTIFY_US,
    PULL_BLOBS,
    PULL_BYTES,
    PUSHES_SAVED,
    SESSION_US,
    WAKE_HOOKS,
    WAKE_US,
)
from tests.fleet import Device
from tests.mailbox_fleet import MailboxFleet, dropped_codes


def _greet(fleet: MailboxFleet, device: Device, last_cursor: int = 0) -> MailboxWelcome:
    fleet.say(device, fleet.post, Hello(VERSION, device.name, last_cursor))
    [welcome] = [each for each in fleet.answers(fleet.post, to=device) if isinstance(each, MailboxWelcome)]
    return welcome


def _push(fleet: MailboxFleet, sender: Device, recipient: Device, number: int, *, ttl: int = 0) -> PushAck | Error:
    fleet.say(sender, fleet.post, Push(number.to_bytes(16), b"envelope %d" % number, ttl, recipient.key))
    [answer] = [each for each in fleet.answers(fleet.post, to=sender) if isinstance(each, PushAck | Error)]
    return answer


def _pull(fleet: MailboxFleet, device: Device, after: int, limit: int = 0) -> PullResponse:
    fleet.say(device, fleet.post, Pull(after, limit))
    [answer] = [each for each in fleet.answers(fleet.post, to=device) if isinstance(each, PullResponse)]
    return answer


def test_a_blob_is_kept_once_and_has_the_id_of_its_message(fleet: MailboxFleet) -> None:  # accepts: 002.05
    """Idempotent by blob_id; of another sender it is another blob."""
    _greet(fleet, fleet.ann)
    _greet(fleet, fleet.ben)
    first = _push(fleet, fleet.ann, fleet.ben, 7)
    assert isinstance(first, PushAck)
    assert (first.cursor, _push(fleet, fleet.ann, fleet.ben, 7)) == (1, first)
    assert getattr(_push(fleet, fleet.ann, fleet.ben, 8), "cursor", 0) == 2
    uuid = blob_id_of(b"message")
    assert (uuid[6] >> 4, uuid[8] >> 6, blob_id_of(b"message")) == (8, 2, uuid)
    assert blob_id_of(b"another") != uuid


def test_a_device_that_has_not_greeted_receives_an_error(fleet: MailboxFleet) -> None:  # accepts: 002.03, 002.19
    """With the code of section 16."""
    fleet.post.restart()
    fleet.serve(fleet.post)
    fleet.say(fleet.ben, fleet.post, Pull(0, 0))
    [error] = [each for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, Error)]
    assert (error.code, error.blob_id) == ("session", NO_BLOB)
    assert dropped_codes(fleet.post) == ["session"]


# accepts: 002.07, 002.08, 002.31, 002.40
@pytest.mark.slow
def test_a_pull_is_exclusive_clamped_and_says_whether_there_is_more(
    fleet: MailboxFleet,
) -> None:
    """After N only > N; 100 without a number, never more than 1,000."""
    fleet.fill(fleet.ben, 2_500)
    assert _greet(fleet, fleet.ben).max_cursor == 2_500
    first = _pull(fleet, fleet.ben, 0)
    assert [each.cursor for each in first.blobs] == [*range(1, PULL_BLOBS + 1)]
    assert (first.has_more, first.max_cursor) == (True, 2_500)
    most = _pull(fleet, fleet.ben, 100, 5_000)
    assert [each.cursor for each in most.blobs] == [*range(101, 101 + MAXIMUM_PULL_BLOBS)]
    last = _pull(fleet, fleet.ben, 2_450)
    assert [each.cursor for each in last.blobs] == [*range(2_451, 2_501)]
    assert not last.has_more
    assert _pull(fleet, fleet.ben, 2_500) == PullResponse((), has_more=False, max_cursor=2_500)


def test_a_pull_covers_so_many_cursors_at_most(fleet: MailboxFleet) -> None:  # accepts: 002.34
    """What lies beyond the gap comes with another PULL."""
    fleet.fill(fleet.ben, 1)
    with fleet.post.store.transaction():
        fleet.post.store.database.run("UPDATE mailbox_inbox SET next_cursor = next_cursor + ?", (MAXIMUM_CURSOR_GAP,))
    fleet.fill(fleet.ben, 1, first=1)
    _greet(fleet, fleet.ben)
    far = _pull(fleet, fleet.ben, 1)
    assert (far.blobs, far.has_more, far.max_cursor) == ((), True, MAXIMUM_CURSOR_GAP + 2)
    assert len(_pull(fleet, fleet.ben, 2).blobs) == 1


def test_only_its_recipient_gets_and_deletes_a_blob(fleet: MailboxFleet) -> None:  # accepts: 002.12
    """A DELETE by another one deletes of that one's own inbox."""
    fleet.fill(fleet.ben, 3)
    for device in (fleet.ann, fleet.ben):
        _greet(fleet, device)
    assert _pull(fleet, fleet.ann, 0).blobs == ()
    fleet.say(fleet.ann, fleet.post, Delete(((1, 3),)))
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 3
    fleet.say(fleet.ben, fleet.post, Delete(((1, 1), (3, 3))))
    assert [each.cursor for each in _pull(fleet, fleet.ben, 0).blobs] == [2]
    assert getattr(_push(fleet, fleet.ann, fleet.ben, 99), "cursor", 0) == 4, "cursors are never given twice"


def test_blobs_end_by_the_time_that_the_mailbox_runs(fleet: MailboxFleet) -> None:  # accepts: 002.05, 002.42
    """0 is the default, and no more than 30 days; no clock of anybody decides."""
    _greet(fleet, fleet.ann)
    for number, ttl in enumerate((3_600, 0, 2**32 - 1), start=1):
        _push(fleet, fleet.ann, fleet.ben, number, ttl=ttl)
    mailbox, age = fleet.post.store.mailbox, fleet.post.store.outbox.grow_older
    service = fleet.serve(fleet.post)

    def left_after(seconds: int) -> int:
        with fleet.post.store.transaction():
            age(seconds * 1_000_000)
            service.maintain(fleet.post.now)
        return mailbox.state(fleet.ben.key).blobs

    assert left_after(3_599) == 3
    assert left_after(1) == 2
    assert left_after(BLOB_TTL_S - 3_600) == 1
    assert left_after(MAXIMUM_BLOB_TTL_S - BLOB_TTL_S) == 0


@pytest.mark.slow
def test_one_sender_that_fills_an_inbox_keeps_no_other_one_out(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    _greet(fleet, fleet.ben)
    fleet.fill(fleet.ben, INBOX_BLOBS // 2 + INBOX_BLOBS // 4)  # the common half, and its own half of the other
    refused = _push(fleet, fleet.ann, fleet.ben, 10**6)
    assert isinstance(refused, Error)
    assert (refused.code, refused.blob_id) == ("limit", (10**6).to_bytes(16))
    assert isinstance(_push(fleet, fleet.ben, fleet.ben, 10**7), PushAck)
    assert getattr(_push(fleet, fleet.ben, fleet.ann, 5), "cursor", 0) == 1, "another inbox has room"


def test_one_sender_that_pushes_all_the_time_keeps_no_other_one_out(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    _greet(fleet, fleet.ben)
    service = fleet.serve(fleet.post)
    pushed = 0
    with suppress(RateError):
        while pushed < 2 * PUSHES_SAVED:
            service.rates.spend(fleet.ann.key, fleet.ben.key, 2, fleet.post.now.monotonic_us)
            pushed += 1
    assert pushed < 2 * PUSHES_SAVED
    assert isinstance(_push(fleet, fleet.ben, fleet.ann, 1), PushAck)


@pytest.mark.slow
def test_one_devices_questions_push_out_no_answers_to_others(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    _greet(fleet, fleet.ben)
    fleet.say(fleet.ben, fleet.post, Pull(0, 0))
    for _ in range(ANSWERS_WAITING + 1):
        fleet.say(fleet.ann, fleet.post, Pull(0, 0))
    assert [each for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, PullResponse)]


def test_the_whole_mailbox_is_bounded_in_bytes(fleet: MailboxFleet) -> None:
    with fleet.post.store.transaction():
        outcome = fleet.post.store.mailbox.put(fleet.ann.key, Push(bytes(16), bytes(100), 0, fleet.ben.key), 1, 0, 99)
    assert getattr(outcome, "value", "") == "the mailbox is full"


def test_a_mailbox_that_is_full_says_so_to_who_pushes(fleet: MailboxFleet) -> None:
    fleet.post.restart()
    fleet.serve(fleet.post, maximum_bytes=15)
    _greet(fleet, fleet.ann)
    assert isinstance(_push(fleet, fleet.ann, fleet.ben, 1), PushAck)
    refused = _push(fleet, fleet.ann, fleet.ben, 2)
    assert isinstance(refused, Error)
    assert (refused.code, refused.message) == ("limit", "the mailbox is full")


def test_a_blob_that_no_relay_would_carry_on_is_not_kept(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    fleet.post.node.state.carriage.maximum_payload = 10_000
    fleet.say(fleet.ann, fleet.post, Push(bytes(16), bytes(10_000), 0, fleet.ben.key))
    [refused] = [each for each in fleet.answers(fleet.post, to=fleet.ann) if isinstance(each, Error)]
    assert refused.code == "limit"
    assert fleet.post.store.mailbox.state(fleet.ben.key).blobs == 0


def test_a_pull_brings_so_many_bytes_at_most_but_for_one_blob(fleet: MailboxFleet) -> None:
    sizes = (PULL_BYTES // 2, PULL_BYTES // 4, PULL_BYTES // 2, PULL_BYTES + 1)
    with fleet.post.store.transaction():
        for number, size in enumerate(sizes):
            push = Push(number.to_bytes(16), bytes(size), 0, fleet.ben.key)
            fleet.post.store.mailbox.put(fleet.ann.key, push, 10**12, 0, 2**40)
    _greet(fleet, fleet.ben)
    came, after = list[list[int]](), 0
    while True:
        response = _pull(fleet, fleet.ben, after)
        came.append([len(each.payload) for each in response.blobs])
        if not response.has_more:
            break
        after = response.blobs[-1].cursor
    assert came == [[*sizes[:2]], [sizes[2]], [sizes[3]]]


def test_blobs_for_one_inbox_come_only_so_fast(fleet: MailboxFleet) -> None:  # accepts: 002.35
    """With a code that has the sender come back later."""
    _greet(fleet, fleet.ann)
    service = fleet.serve(fleet.post)
    for _ in range(INBOX_PUSHES_SAVED + INBOX_PUSHES_SAVED // 2 // 2):  # the common part, and ann's own
        service.rates.spend(fleet.ann.key, fleet.ben.key, 2, fleet.post.now.monotonic_us)
    refused = _push(fleet, fleet.ann, fleet.ben, 1)
    assert isinstance(refused, Error)
    assert refused.code == "rate"
    fleet.wait(1)
    assert isinstance(_push(fleet, fleet.ann, fleet.ben, 1), PushAck)


# accepts: 002.35
def test_blobs_come_only_so_fast_in_all_however_many_inboxes_they_are_for(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    service = fleet.serve(fleet.post)
    for number in range(PUSHES_SAVED + INBOX_PUSHES_SAVED // 2 // 2):
        inbox = DeviceKey((number // INBOX_PUSHES_SAVED).to_bytes(32))
        service.rates.spend(fleet.ann.key, inbox, 2, fleet.post.now.monotonic_us)
    refused = _push(fleet, fleet.ann, fleet.ben, 1)
    assert isinstance(refused, Error)
    assert refused.code == "rate"
    fleet.wait(1)
    assert isinstance(_push(fleet, fleet.ann, fleet.ben, 1), PushAck)


def test_only_members_have_an_inbox(fleet: MailboxFleet, tmp_path: Path) -> None:
    _greet(fleet, fleet.ann)
    stranger = Device("stranger", tmp_path)
    for recipient in (stranger, fleet.post):
        refused = _push(fleet, fleet.ann, recipient, 1)
        assert isinstance(refused, Error)
        assert refused.code == "not_a_member"
    stranger.stop()


# accepts: 002.28, 002.29
def test_sessions_are_bounded_and_the_idle_give_way(fleet: MailboxFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for nothing within 10 s gives its place away; who is in use keeps it."""
    monkeypatch.setattr("covey.core.mailbox.service.MAILBOX_SESSIONS", 1)
    fleet.post.restart()
    service = fleet.serve(fleet.post)
    _greet(fleet, fleet.ann)
    fleet.say(fleet.ben, fleet.post, Hello(VERSION, "ben", 0))
    [error] = [each for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, Error)]
    assert (error.code, service.sessions) == ("limit", 1)
    fleet.wait(HELLO_US / 1e6)
    assert _greet(fleet, fleet.ben).max_cursor == 0
    fleet.say(fleet.ann, fleet.post, Pull(0, 0))
    assert [each.code for each in fleet.answers(fleet.post, to=fleet.ann) if isinstance(each, Error)] == ["session"]
    fleet.wait(SESSION_US / 1e6)
    service.maintain(fleet.post.now)
    assert service.sessions == 0


def test_a_recipient_that_is_there_is_notified_of_what_comes(fleet: MailboxFleet) -> None:  # accepts: 002.11
    """One NOTIFY for all that came in a second, and no content in it."""
    _greet(fleet, fleet.ben)
    _greet(fleet, fleet.ann)
    fleet.wait(NOTIFY_US / 1e6)
    fleet.say(fleet.ann, fleet.post, Push(bytes(16), b"secret", 0, fleet.ben.key))
    [notify] = [each for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, Notify)]
    assert (notify.cursor, notify.sender_id, notify.size) == (1, fleet.ann.key, 6)
    for number in range(1, 4):
        _push(fleet, fleet.ann, fleet.ben, number)
    fleet.wait(NOTIFY_US / 1e6)
    assert [each.cursor for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, Notify)] == [4]
    _push(fleet, fleet.ann, fleet.ben, 3)
    fleet.wait(NOTIFY_US / 1e6)
    repeated = [each for each in fleet.answers(fleet.post, to=fleet.ben) if isinstance(each, Notify)]
    assert repeated == [], "what is kept already is no news"


# accepts: 002.15, 002.16
def test_a_device_without_session_is_woken_by_its_hooks(
    fleet: MailboxFleet,
) -> None:
    exchange = fleet.ben.node.mailboxes.exchange
    assert exchange is not None
    hook = WakeHook(Hook.WEBHOOK, "https://ntfy.example/ben")
    exchange.be_woken((hook,))
    fleet.wait(GREETING_US / 1e6)
    fleet.carry()
    assert fleet.post.store.mailbox.hooks(fleet.ben.key) == [hook]
    fleet.post.restart()
    service = fleet.serve(fleet.post)
    _greet(fleet, fleet.ann)
    for number in range(3):
        _push(fleet, fleet.ann, fleet.ben, number)
    [wake] = service.take_wakes(fleet.post.now)
    assert (wake.device, wake.hooks) == (fleet.ben.key, (hook,))
    assert service.take_wakes(fleet.post.now) == []
    _push(fleet, fleet.ann, fleet.ben, 3)
    assert service.take_wakes(fleet.post.now) == [], "it was called just now"
    assert service.next_wake_us() == fleet.post.now.monotonic_us + WAKE_US
    fleet.wait(WAKE_US / 1e6)
    assert service.take_wakes(fleet.post.now) == [wake], "what came meanwhile has a call of its own"
    _greet(fleet, fleet.ben)
    for number in range(WAKE_HOOKS + 2):
        fleet.say(fleet.ben, fleet.post, RegisterPush(Hook.MQTT, f"wake/{number}"))
    assert len(fleet.post.store.mailbox.hooks(fleet.ben.key)) == WAKE_HOOKS
    fleet.say(fleet.ben, fleet.post, UnregisterPush(Hook.WEBHOOK, hook.target))
    assert hook not in fleet.post.store.mailbox.hooks(fleet.ben.key)
    fleet.say(fleet.ben, fleet.post, UnregisterPush(Hook.MQTT, ""))
    assert fleet.post.store.mailbox.hooks(fleet.ben.key) == []


# accepts: 002.15
@pytest.mark.parametrize("answer", [None, Pull(0, 1), Delete(((1, 1),))])
def test_an_unanswered_notify_wakes_the_device(fleet: MailboxFleet, answer: Pull | Delete | None) -> None:
    """Nobody says good night: its session lasts until it is spoken to in vain."""
    service = fleet.serve(fleet.post)
    hook = WakeHook(Hook.PROGRAM, "program")
    _greet(fleet, fleet.ben)
    _greet(fleet, fleet.ann)
    fleet.say(fleet.ben, fleet.post, RegisterPush(hook.kind, hook.target))
    fleet.wait(NOTIFY_US / 1e6)
    fleet.say(fleet.ann, fleet.post, Push(bytes(16), b"secret", 0, fleet.ben.key))
    assert any(isinstance(each, Notify) for each in fleet.answers(fleet.post, to=fleet.ben))
    assert service.take_wakes(fleet.post.now) == []
    if answer is not None:
        fleet.say(fleet.ben, fleet.post, answer)
    fleet.wait(HELLO_US / 1e6)
    woken = [each.device for each in service.take_wakes(fleet.post.now)]
    assert woken == ([fleet.ben.key] if answer is None else [])
    assert service.sessions == (2 if answer else 1)
    assert service.take_wakes(fleet.post.now) == []


def test_a_removed_device_has_no_inbox_and_is_not_heard(fleet: MailboxFleet) -> None:  # accepts: 002.13, 002.14
    """By the member's signed removal, which is told at once."""
    fleet.fill(fleet.ben, 2)
    said = []

    def revocations(outgoing: object) -> bool:
        said.append(fleet.opened(outgoing))  # type: ignore[arg-type]
        return True

    fleet.ann.node.mailboxes.exchange.due(fleet.ann.now)  # type: ignore[union-attr]
    with fleet.ann.store.transaction():
        fleet.ann.node.actions.change(
            fleet.group_id, lambda draft, epoch: draft.removing(fleet.ben.key, epoch), fleet.ann.now
        )
    fleet.asleep = {"ben"}
    fleet.carry(revocations)
    assert any(isinstance(each, RevokeDevice) for each in said)
    assert any(isinstance(each, DeviceRevoked) and each.device == fleet.ben.key for each in said)
    assert fleet.post.store.mailbox.devices() == []
    fleet.post.events()
    fleet.say(fleet.ben, fleet.post, Hello(VERSION, "ben", 0))
    assert dropped_codes(fleet.post) == ["not_a_member"]


def test_a_removed_devices_share_is_free_again(fleet: MailboxFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else devices that are let in, push and are removed, one after the other, would fill the mailbox's disk."""
    monkeypatch.setattr(service_module, "EXPIRED_BLOBS_AT_ONCE", 3)
    monkeypatch.setattr(mailbox_tables, "EXPIRED_BLOBS_AT_ONCE", 3)
    service = fleet.serve(fleet.post)
    _greet(fleet, fleet.ben)
    for number in range(7):
        assert isinstance(_push(fleet, fleet.ben, fleet.ann, number), PushAck)
    _greet(fleet, fleet.ann)
    assert isinstance(_push(fleet, fleet.ann, fleet.ben, 7), PushAck)
    with fleet.post.store.transaction():
        fleet.post.node.actions.change(
            fleet.group_id, lambda draft, epoch: draft.removing(fleet.ben.key, epoch), fleet.post.now
        )
    kept, dropped = fleet.post.store.mailbox, list[int]()
    while not dropped or dropped[-1]:
        with fleet.post.store.transaction():
            dropped.append(service.forget_strangers()[1])
    assert dropped == [3, 3, 1, 0]
    assert kept.totals() == (0, 0)
    assert kept.senders() == [fleet.ann.key]
    assert [each.blobs for each in kept.all()] == [0]


def test_a_removal_that_is_none_is_refused(fleet: MailboxFleet) -> None:
    _greet(fleet, fleet.ann)
    current = fleet.ann.node.groups.group(fleet.group_id)
    fleet.say(fleet.ann, fleet.post, RevokeDevice(fleet.ben.key, Bundle((current.raw,)).to_wire()))
    assert [each.code for each in fleet.answers(fleet.post, to=fleet.ann) if isinstance(each, Error)]
    assert fleet.post.node.groups.group(fleet.group_id).member(fleet.ben.key) is not None
