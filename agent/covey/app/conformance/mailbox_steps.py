"""The steps of a mailbox: two members that push, pull and delete.

The companion pushes for the other member. What a mailbox keeps is seen from outside by what it hands out.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, TypeVar

from covey.app.conformance.sensor_steps import QUIET_S, ConformanceStep
from covey.app.conformance.session import StepError
from covey.core.group.messages import Bundle
from covey.core.ids import LinkSeq
from covey.core.mailbox.messages import (
    BLOB_ID_BYTES,
    NO_BLOB,
    VERSION,
    Delete,
    DeviceRevoked,
    Error,
    Hello,
    MailboxMessage,
    MailboxWelcome,
    Notify,
    Pull,
    PullResponse,
    Push,
    PushAck,
    RevokeDevice,
    read_mailbox_message,
)
from covey.core.wire.message import MessageType
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.app.conformance.peers import Companion
    from covey.app.conformance.session import DeviceTest

_ALL = Pull(0, 0)
_LARGE_BYTES = 50_000
"""A blob of which few fill a mailbox of 1 MiB, and which every relay of the test carries."""
_MOST_LARGE = 30
"""More of them than a mailbox of 1 MiB keeps."""

_Answer = TypeVar("_Answer", bound=MailboxMessage)


# -- what members say, and what comes back -----------------------------------------------------------------------------


def _say(test: DeviceTest, member: Companion, said: MailboxMessage) -> float:
    """Say something to the mailbox; return when."""
    after, device = time.monotonic(), test.device()
    body = said.to_wire()
    message = member.write(MessageType.MAILBOX, device.signing_public, body, LinkSeq(0), group_id=test.group_id)
    member.send(device, message)
    return after


def _said_to(test: DeviceTest, member: Companion, after: float) -> list[MailboxMessage]:
    """Return what the mailbox has said to a member after a moment."""
    answers: list[MailboxMessage] = []
    for each in test.seen.received:
        if each.at > after and each.message.type is MessageType.MAILBOX and each.message.recipient == member.key:
            try:
                answers.append(read_mailbox_message(each.message.body))
            except RemoteError as error:
                test.findings.fails("messages", f"the body of its MAILBOX was refused ({error.code}): {error}")
    return answers


def _await(test: DeviceTest, member: Companion, kind: type[_Answer], after: float) -> _Answer | None:
    """Wait for the first answer of a kind; an ERROR ends the wait, too."""

    def found() -> list[MailboxMessage]:
        return [each for each in _said_to(test, member, after) if isinstance(each, kind | Error)]

    test.until(lambda: bool(found()))
    return next((each for each in found() if isinstance(each, kind)), None)


def _ask(test: DeviceTest, member: Companion, said: MailboxMessage, kind: type[_Answer]) -> _Answer | None:
    return _await(test, member, kind, _say(test, member, said))


def _blob(test: DeviceTest, sender: Companion, recipient: Companion, padding: int = 0) -> Push:
    """Return a PUSH of an envelope, as a sender writes it."""
    body = secrets.token_bytes(padding or 40)
    message = sender.write(MessageType.BLOB, recipient.key, body, LinkSeq(1), group_id=test.group_id)
    sealed = sender.sealed(message, recipient.identity.keys)
    return Push(secrets.token_bytes(BLOB_ID_BYTES), sealed, 0, recipient.key)


def _push(test: DeviceTest, sender: Companion, push: Push) -> int:
    """Push a blob; return its cursor, 0 where it was not acknowledged."""
    after = _say(test, sender, push)

    def answer() -> PushAck | Error | None:
        answers = [each for each in _said_to(test, sender, after) if isinstance(each, PushAck | Error)]
        return next((each for each in answers if each.blob_id == push.blob_id), None)

    test.until(lambda: answer() is not None)
    found = answer()
    return found.cursor if isinstance(found, PushAck) else 0


def _pulled(test: DeviceTest, member: Companion, pull: Pull = _ALL) -> PullResponse:
    found = _ask(test, member, pull, PullResponse)
    if found is None:
        test.findings.fails("pull", "it did not answer PULL with a PULL_RESPONSE")
        raise StepError
    return found


def _cursors(response: PullResponse) -> list[int]:
    return [each.cursor for each in response.blobs]


def _greeted(test: DeviceTest, member: Companion, last_cursor: int = 0) -> MailboxWelcome:
    found = _ask(test, member, Hello(VERSION, "conformance", last_cursor), MailboxWelcome)
    if found is None:
        test.findings.fails("greeting", "it did not answer HELLO with a WELCOME of version 1")
        raise StepError
    return found


def _refuses(test: DeviceTest, said: MailboxMessage, code: str, what: str, blob_id: bytes = NO_BLOB) -> bool:
    """Say something that it must refuse; return whether it did."""
    found = _ask(test, test.companion, said, Error)
    wrong = (
        f"it sent no ERROR about {what}"
        if found is None
        else f"it called {what} `{found.code}`, not `{code}`"
        if found.code != code
        else f"its ERROR about {what} names another blob"
        if found.blob_id != blob_id
        else ""
    )
    return test.findings.holds("refuses", seen=not wrong, failed=wrong)


# -- the steps ---------------------------------------------------------------------------------------------------------


def _greet(test: DeviceTest) -> None:
    test.add_member(test.other.member("conformance sleeper"))
    found = _ask(test, test.companion, _ALL, Error)
    right = found is not None and found.code == "session"
    failed = "it did not answer a PULL without a session with an ERROR `session`"
    test.findings.holds("greeting", seen=right, failed=failed)
    for member in (test.companion, test.other):
        welcome = _greeted(test, member)
        wrong = (
            "its WELCOME names no relay-id"
            if not welcome.relay_id
            else "its WELCOME to a device for which nothing came names cursors or blobs"
            if welcome.max_cursor or welcome.pending_count
            else ""
        )
        test.findings.holds("greeting", seen=not wrong, failed=wrong)


def _push_two(test: DeviceTest) -> None:
    first, second = (_blob(test, test.companion, test.other) for _ in range(2))
    after = time.monotonic()
    cursor = _push(test, test.companion, first)
    if not test.findings.holds("push", seen=cursor > 0, failed="it sent no PUSH_ACK for a blob"):
        raise StepError
    news = _await(test, test.other, Notify, after)
    right = news is not None and (news.blob_id, news.sender_id) == (first.blob_id, test.companion.key)
    test.findings.holds("notify", seen=right, failed="it sent the recipient, which had greeted it, no NOTIFY of a blob")
    repeated = _push(test, test.companion, first)
    failed = f"it gave a blob that was pushed again cursor {repeated}, where it had {cursor}"
    test.findings.holds("push-again", seen=repeated == cursor, failed=failed)
    later = _push(test, test.companion, second)
    failed = f"its first two cursors of an inbox are {cursor} and {later}, not 1 and 2"
    test.findings.holds("cursors", seen=(cursor, later) == (1, 2), failed=failed)
    _pull_two(test, first, second)


def _pull_two(test: DeviceTest, first: Push, second: Push) -> None:
    after, findings = time.monotonic(), test.findings
    one = _pulled(test, test.other, Pull(0, 1))
    rest = _pulled(test, test.other, Pull(_cursors(one)[-1] if one.blobs else 0, 0))
    came = [(each.blob_id, each.payload, each.sender_id) for each in (*one.blobs, *rest.blobs)]
    sent = [(each.blob_id, each.payload, test.companion.key) for each in (first, second)]
    wrong = (
        f"it answered a PULL with limit 1 with {len(one.blobs)} blobs"
        if len(one.blobs) != 1
        else "it handed out other blobs than were pushed, or with another sender"
        if came != sent
        else "its `has-more` does not say whether more cursors were given"
        if not one.has_more or rest.has_more
        else ""
    )
    findings.holds("pull", seen=not wrong, failed=wrong)
    kept = _cursors(_pulled(test, test.other))
    failed = f"it handed out two blobs, and has only {len(kept)} of them when it is asked again: nobody has deleted any"
    findings.holds("keeps", seen=len(kept) == len(came), failed=failed)
    others = [each for each in _said_to(test, test.companion, after) if not isinstance(each, PushAck)]
    what = type(others[0]).__name__ if others else ""
    findings.holds("discreet", seen=not others, failed=f"it sent {what} to the sender when the recipient asked")


def _touch_others(test: DeviceTest) -> None:
    """Have the companion pull, and delete, where only the other member may."""
    response = _pulled(test, test.companion)
    _say(test, test.companion, Delete(((1, 2),)))
    left = _cursors(_pulled(test, test.other))
    wrong = (
        "it handed out blobs of another device's inbox"
        if response.blobs
        else "it deleted blobs of another device's inbox"
        if not left
        else ""
    )
    test.findings.holds("own-inbox", seen=not wrong, failed=wrong)


def _delete(test: DeviceTest) -> None:
    _say(test, test.other, Delete(((1, 1),)))
    left = _cursors(_pulled(test, test.other))
    failed = "it handed out a blob again that its recipient had deleted"
    test.findings.holds("deletes", seen=1 not in left, failed=failed)
    if left and left != [2]:
        test.findings.fails("deletes", "it deleted other blobs than it was told to")
    _say(test, test.other, Delete(((2, 2),)))
    cursor = _push(test, test.companion, _blob(test, test.companion, test.other))
    failed = f"after cursors 1 and 2, which were deleted, it gave cursor {cursor}, not 3"
    test.findings.holds("cursors", seen=cursor == 3, failed=failed)


def _ask_wrongly(test: DeviceTest) -> None:
    stray = _blob(test, test.companion, test.stranger)
    _refuses(test, stray, "not_a_member", "a blob for a device that is not in the group", stray.blob_id)
    _refuses(test, Hello(VERSION + 1, "conformance", 0), "limit", "a HELLO of another version")
    raw = test.peer.node.groups.group(test.group_id).raw
    claim = RevokeDevice(test.other.key, Bundle((raw,)).to_wire())
    _refuses(test, claim, "not_a_member", "the claim that a member was removed")
    after = _say(test, test.companion, Error("limit", "an ERROR that wants no answer"))
    test.until(lambda: not test.seen.owed)
    test.pass_time(QUIET_S)
    answered = any(isinstance(each, Error) for each in _said_to(test, test.companion, after))
    test.findings.holds("silent-errors", seen=not answered, failed="it answered an ERROR with an ERROR")


def _fill(test: DeviceTest) -> None:
    """Have one sender push until it is refused; the other one must still have its share."""
    count = 0
    while count < _MOST_LARGE and _push(test, test.companion, _blob(test, test.companion, test.other, _LARGE_BYTES)):
        count += 1
    if count == _MOST_LARGE:
        kept = count * _LARGE_BYTES
        test.findings.fails("shares", f"it took {kept} bytes of one sender; have it keep 1 MiB at most for this test")
        return
    refused = [each for each in _said_to(test, test.companion, 0.0) if isinstance(each, Error)]
    if not refused or refused[-1].code != "limit":
        test.findings.fails("shares", f"it did not refuse blob {count + 1} of {_LARGE_BYTES} bytes with `limit`")
        return
    cursor = _push(test, test.other, _blob(test, test.other, test.companion, _LARGE_BYTES))
    failed = f"it took {count} blobs of one sender, and then had no room for the first one of another member"
    test.findings.holds("shares", seen=cursor > 0, failed=failed)


def _kill(test: DeviceTest) -> None:
    """Kill the mailbox as soon as it has acknowledged a blob, and look whether it still has it."""
    push = _blob(test, test.other, test.companion)
    before = _greeted(test, test.other)
    cursor = _push(test, test.other, push)
    if not cursor:
        test.findings.not_seen("durable", "it acknowledged no blob before SIGKILL")
        raise StepError
    connections, subscribed = test.seen.connections, test.seen.subscribed
    test.restart_program()
    if not test.connects_after(connections) or not test.until(lambda: test.seen.subscribed > subscribed):
        test.findings.not_seen("durable", "it was not started again")
        raise StepError
    welcome = _greeted(test, test.companion)
    held = {each.blob_id for each in _pulled(test, test.companion, Pull(cursor - 1, 0)).blobs}
    wrong = (
        "after SIGKILL it lacks a blob that it had acknowledged"
        if push.blob_id not in held
        else f"after SIGKILL its WELCOME names cursor {welcome.max_cursor}, where it had given {cursor}"
        if welcome.max_cursor != cursor
        else "after SIGKILL it has another relay-id, as if its state had been restored"
        if welcome.relay_id != before.relay_id
        else ""
    )
    test.findings.holds("durable", seen=not wrong, failed=wrong)


def _confirm_removal(test: DeviceTest) -> None:
    """Tell the mailbox of the removal, as its issuer does; then have the removed companion greet it."""
    _greeted(test, test.other)
    raw = test.peer.node.groups.group(test.group_id).raw
    after = _say(test, test.other, RevokeDevice(test.companion.key, Bundle((raw,)).to_wire()))
    found = _await(test, test.other, DeviceRevoked, after)
    confirmed = found is not None and found.device == test.companion.key
    after = _say(test, test.companion, Hello(VERSION, "conformance", 0))
    test.until(lambda: not test.seen.owed)
    test.pass_time(QUIET_S)
    answered = any(isinstance(each, MailboxWelcome) for each in _said_to(test, test.companion, after))
    wrong = (
        "it did not confirm a removal with DEVICE_REVOKED"
        if not confirmed
        else "it welcomed a device that was removed from the group"
        if answered
        else ""
    )
    test.findings.holds("revocation", seen=not wrong, failed=wrong)


KEEPING: tuple[ConformanceStep, ...] = (
    ConformanceStep(_greet, "greeting the mailbox", ("greeting",), ("manifests",)),
    ConformanceStep(
        _push_two,
        "pushing and pulling blobs",
        ("push", "push-again", "notify", "cursors", "pull", "keeps", "discreet"),
        ("greeting",),
    ),
    ConformanceStep(_touch_others, "touching another device's inbox", ("own-inbox",), ("push",)),
    ConformanceStep(_delete, "deleting blobs", ("deletes", "cursors"), ("push",)),
    ConformanceStep(
        _ask_wrongly, "asking the mailbox for what it must refuse", ("refuses", "silent-errors"), ("greeting",)
    ),
    ConformanceStep(_fill, "filling the mailbox", ("shares",), ("greeting",)),
)
RESTARTS: tuple[ConformanceStep, ...] = (
    ConformanceStep(_kill, "killing the mailbox after an acknowledgement", ("durable",), ("greeting",)),
)
REMOVED: tuple[ConformanceStep, ...] = (
    ConformanceStep(_confirm_removal, "telling the mailbox of the removal", ("revocation",), ("greeting", "removal")),
)
