"""The mailbox service: store envelopes that it cannot open, and deliver them to their recipients (ADR 76).

1. Only members of its groups may use it, and only after a HELLO (`session`). It has at most `MAILBOX_SESSIONS`
   sessions. When full, it ends a session that has requested nothing `HELLO_US` after its greeting, or else the one
   silent for longest, if for that long; otherwise it refuses the newcomer (`limit`).
2. A blob's recipient is a member of the group by which it is pushed, and no board. The blob is stored once, by sender
   and blob_id, under the next cursor of its recipient's inbox. The PUSH_ACK goes out after the commit.
3. Cursors of an inbox have no gaps and only define an order; no clock decides anything. A blob expires after its time,
   counted while the mailbox runs.
4. Limits apply to an inbox, the whole mailbox, and the rate of pushes, for one inbox and for all. Of each, every member
   that may push has a guaranteed share, and the rest is first come, first served (`core/link/shares.py`): whatever one
   sender pushes, every other one can push, too. The pending answers for one device are limited, too.
5. Only the owner of an inbox gets its blobs and deletes them.
6. A device removed from the last group that it shared with the mailbox has no inbox, and its messages are ignored. What
   it pushed is deleted, because members drop it and its share is no longer counted: else members that come and go would
   fill the disk.
7. A NOTIFY informs a device with a session that something waits. A wake hook calls a device without one, or one that
   has been silent for `HELLO_US` after a NOTIFY for blobs that are still there: its session is over then. Neither says
   what waits. Blobs that arrive within `WAKE_US` after a call cause their own call when that time is over, unless the
   device greets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId
from covey.core.link.carriage import Carriage
from covey.core.link.rates import TokenBucket
from covey.core.link.shares import share_of
from covey.core.mailbox.messages import (
    VERSION,
    BlobRefusal,
    Delete,
    DeviceRevoked,
    Hello,
    MailboxMessage,
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
    fits_relay,
)
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.wire.message import Message
from covey.errors import LimitError, MailboxSessionError, NotAMemberError, RateError
from covey.limits.mailbox import (
    ANSWERS_OF_ONE,
    ANSWERS_WAITING,
    BLOB_TTL_S,
    EXPIRED_BLOBS_AT_ONCE,
    HELLO_US,
    INBOX_PUSHES_PER_SECOND,
    INBOX_PUSHES_SAVED,
    MAILBOX_SESSIONS,
    MAXIMUM_BLOB_TTL_S,
    MAXIMUM_CURSOR_GAP,
    MAXIMUM_PULL_BLOBS,
    NOTIFY_US,
    PULL_BLOBS,
    PULL_BYTES,
    PUSHES_PER_SECOND,
    PUSHES_SAVED,
    SESSION_US,
    WAKE_US,
    WAKES_WAITING,
)

if TYPE_CHECKING:
    from covey.core.records.content import MailboxRecords


@dataclass(slots=True)
class _Session:
    """A device that has greeted."""

    group_id: GroupId
    greeted_at_us: int
    spoke_at_us: int
    asked: bool = False
    notified_at_us: int | None = None
    """Since when a NOTIFY waits for a word; None: none does."""


@dataclass(frozen=True, slots=True)
class Wake:
    """A device is to be woken."""

    device: DeviceKey
    hooks: tuple[WakeHook, ...]


_Answer = tuple[DeviceKey, GroupId, MailboxMessage]


@dataclass(slots=True)
class _Calls:
    """When a device was notified and woken last, what it is to be notified of, and whether it is to be woken."""

    notified_us: int = -NOTIFY_US
    woken_us: int = -WAKE_US
    news: Notify | None = None
    to_wake: bool = False


@dataclass(slots=True)
class MailboxRates:
    """How fast blobs may come: for each inbox, and in all; each sender has tokens that nobody else uses (rule 4)."""

    all: TokenBucket = field(default_factory=lambda: TokenBucket(PUSHES_PER_SECOND, PUSHES_SAVED))
    inboxes: dict[DeviceKey, TokenBucket] = field(default_factory=dict)
    senders: dict[DeviceKey, TokenBucket] = field(default_factory=dict)

    def spend(self, sender: DeviceKey, recipient: DeviceKey, senders: int, now_us: int) -> None:
        """Let one blob in; `senders` is how many may push.

        Raises:
            RateError: too many come.
        """
        own = self.senders.get(sender)
        if own is None:
            self.senders = {key: each for key, each in self.senders.items() if not each.is_full(now_us)}
            own = self.senders[sender] = TokenBucket(
                max(1, share_of(PUSHES_PER_SECOND, senders)), max(1, share_of(INBOX_PUSHES_SAVED, senders))
            )
        if not own.wait_us(now_us):
            own.spend(1, now_us)
            return
        bucket = self.inboxes.get(recipient)
        if bucket is None:
            self.inboxes = {key: each for key, each in self.inboxes.items() if not each.is_full(now_us)}
            bucket = self.inboxes[recipient] = TokenBucket(INBOX_PUSHES_PER_SECOND, INBOX_PUSHES_SAVED)
        if self.all.wait_us(now_us) or bucket.wait_us(now_us):
            raise RateError("the sender stores blobs too fast")
        self.all.spend(1, now_us)
        bucket.spend(1, now_us)


class MailboxService:
    """The inboxes of one mailbox. All but what `records` keeps is in memory, and bounded.

    `take_manifests` deals with a body of GROUP_MANIFEST as if its author had sent it so.
    """

    def __init__(
        self,
        own: DeviceKey,
        groups: Groups,
        records: MailboxRecords,
        carriage: Carriage,
        maximum_bytes: int,
        take_manifests: Callable[[Message, bytes, Now], None],
    ) -> None:
        self._own = own
        self._groups = groups
        self._records = records
        self._carriage = carriage
        self._maximum_bytes = maximum_bytes
        self._take_manifests = take_manifests
        self._sessions: dict[DeviceKey, _Session] = {}
        self._answers: deque[_Answer] = deque(maxlen=ANSWERS_WAITING)
        self.rates = MailboxRates()
        self._senders_of = -1, 0
        """How many members may push, and in which generation of the groups that was counted."""
        self._calls: dict[DeviceKey, _Calls] = {}

    @property
    def sessions(self) -> int:
        """With how many devices it speaks."""
        return len(self._sessions)

    # -- what comes ---------------------------------------------------------------------------------------------------

    def receive(self, message: Message, said: MailboxMessage, now: Now) -> bool:
        """Deal with what a member says to a mailbox; return whether it was such. Inside a transaction.

        Raises:
            RemoteError: a rule is broken.
        """
        if isinstance(said, Hello):
            self._greet(message, now)
            return True
        if not isinstance(said, Push | Pull | Delete | RevokeDevice | RegisterPush | UnregisterPush):
            return False
        session = self._sessions.get(message.author)
        if session is None:
            raise MailboxSessionError("the sender has no session with this mailbox")
        session.spoke_at_us, session.asked, session.notified_at_us = now.monotonic_us, True, None
        if isinstance(said, Push):
            self._push(message, said, now)
        elif isinstance(said, Pull):
            self._answer(message, said)
        elif isinstance(said, Delete):
            for cursors in said.cursors:
                self._records.delete(message.author, cursors)
        elif isinstance(said, RevokeDevice):
            self._revoke(message, said, now)
        else:
            self._hook(message.author, said)
        return True

    def _senders(self) -> int:
        if self._senders_of[0] != self._groups.generation:
            members = {member.keys.signing_public for group in self._groups.joined() for member in group.members}
            self._senders_of = self._groups.generation, len(members - {self._own})
        return self._senders_of[1]

    def _answer(self, message: Message, said: MailboxMessage) -> None:
        own = [each for each in self._answers if each[0] == message.author]
        if len(own) >= ANSWERS_OF_ONE:
            self._answers.remove(own[0])
        self._answers.append((message.author, message.group_id, said))

    def _greet(self, message: Message, now: Now) -> None:
        session = self._sessions.pop(message.author, None)
        if session is None:
            self._make_place(now)
            session = _Session(message.group_id, now.monotonic_us, now.monotonic_us)
        session.spoke_at_us, session.group_id, session.notified_at_us = now.monotonic_us, message.group_id, None
        self._sessions[message.author] = session  # the one that spoke last
        if (calls := self._calls.get(message.author)) is not None:
            calls.to_wake = False
        state = self._records.state(message.author)
        self._answer(message, MailboxWelcome(VERSION, self._records.relay_id(), state.max_cursor, state.blobs))

    def _make_place(self, now: Now) -> None:
        """End a session where there are too many (rule 1).

        Raises:
            LimitError: all of them are in use.
        """
        if len(self._sessions) < MAILBOX_SESSIONS:
            return
        for device, session in self._sessions.items():
            if not session.asked and now.monotonic_us >= session.greeted_at_us + HELLO_US:
                del self._sessions[device]
                return
        device, session = next(iter(self._sessions.items()))
        if now.monotonic_us < session.spoke_at_us + HELLO_US:
            raise LimitError(f"the mailbox already has {MAILBOX_SESSIONS} sessions, the maximum")
        del self._sessions[device]

    def _push(self, message: Message, push: Push, now: Now) -> None:
        group = self._groups.group(message.group_id)
        member = group.member(push.recipient)
        if member is None or member.is_board or push.recipient == self._own:
            raise NotAMemberError("this mailbox keeps nothing for the blob's recipient")
        if not fits_relay(len(push.payload), self._carriage.maximum_payload):
            raise LimitError("the blob is larger than every relay of this mailbox accepts")
        senders = self._senders()
        self.rates.spend(message.author, push.recipient, senders, now.monotonic_us)
        ttl_us = min(push.ttl or BLOB_TTL_S, MAXIMUM_BLOB_TTL_S) * 1_000_000
        kept = self._records.put(message.author, push, ttl_us, now.wall_us, self._maximum_bytes, senders)
        if isinstance(kept, BlobRefusal):
            raise LimitError(kept.value)
        self._answer(message, PushAck(push.blob_id, kept.cursor, now.wall_us))
        if kept.is_new:
            size = len(push.payload)
            self._call(Notify(push.blob_id, kept.cursor, message.author, now.wall_us, size), push.recipient)

    def _call(self, news: Notify, recipient: DeviceKey) -> None:
        calls = self._calls.setdefault(recipient, _Calls())
        if recipient in self._sessions:
            calls.news = news
        else:
            calls.to_wake = True

    def _revoke(self, message: Message, said: RevokeDevice, now: Now) -> None:
        self._take_manifests(message, said.manifests, now)
        if self._groups.group(message.group_id).member(said.device) is not None:
            raise NotAMemberError("the group's manifests do not show this removal")
        self.forget_strangers()
        self._answer(message, DeviceRevoked(said.device))

    def _hook(self, device: DeviceKey, said: RegisterPush | UnregisterPush) -> None:
        hook = WakeHook(said.hook, said.target)
        if isinstance(said, UnregisterPush):
            for each in [hook] if said.target else self._records.hooks(device):
                self._records.remove_hook(device, each)
        elif not self._records.add_hook(device, hook):
            raise LimitError("the device has too many wake hooks")

    # -- what is due --------------------------------------------------------------------------------------------------

    def due(self, now: Now) -> Iterator[_Answer]:
        """Yield (device, group, message) of what is to be said. Where the caller stops, that one comes once more."""
        self._end_silent(now)
        while self._answers:
            device, group_id, said = self._answers[0]
            yield device, group_id, self._response(device, said) if isinstance(said, Pull) else said
            self._answers.popleft()
        for device, calls in self._calls.items():
            session = self._sessions.get(device)
            if calls.news is not None and session is not None and now.monotonic_us >= calls.notified_us + NOTIFY_US:
                yield device, session.group_id, calls.news
                calls.news, calls.notified_us = None, now.monotonic_us
                if session.notified_at_us is None:
                    session.notified_at_us = now.monotonic_us

    def _response(self, device: DeviceKey, pull: Pull) -> PullResponse:
        limit = min(pull.limit or PULL_BLOBS, MAXIMUM_PULL_BLOBS)
        size = min(PULL_BYTES, self._carriage.maximum_payload // 2)
        last = pull.after_cursor + MAXIMUM_CURSOR_GAP
        blobs, is_cut = self._records.after(device, pull.after_cursor, last, limit, size)
        highest = self._records.state(device).max_cursor
        upto = blobs[-1].cursor if blobs and (is_cut or last < highest) else last
        return PullResponse(tuple(blobs), upto < highest, highest)

    def next_deadline(self) -> int | None:
        """Return when `due` has something to say, if nothing comes before, in monotonic microseconds."""
        if self._answers:
            return 0
        found = [
            calls.notified_us + NOTIFY_US
            for device, calls in self._calls.items()
            if calls.news is not None and device in self._sessions
        ]
        found += [each.notified_at_us + HELLO_US for each in self._sessions.values() if each.notified_at_us is not None]
        return min(found, default=None)

    def next_wake_us(self) -> int | None:
        """Return when `take_wakes` has somebody, if nothing comes before, in monotonic microseconds."""
        return min((calls.woken_us + WAKE_US for calls in self._calls.values() if calls.to_wake), default=None)

    def take_wakes(self, now: Now) -> list[Wake]:
        """Return, once, who is to be woken: `WAKES_WAITING` at most, others with the next call (rule 7)."""
        self._end_silent(now)
        due = (device for device, calls in self._calls.items() if calls.to_wake and _may_wake(calls, now))
        found: list[Wake] = []
        for device in [*islice(due, WAKES_WAITING)]:
            calls, hooks = self._calls[device], self._records.hooks(device)
            calls.to_wake, calls.woken_us = False, now.monotonic_us
            if hooks:
                found.append(Wake(device, tuple(hooks)))
        return found

    def _end_silent(self, now: Now) -> None:
        for device, session in [*self._sessions.items()]:
            if session.notified_at_us is None or now.monotonic_us < session.notified_at_us + HELLO_US:
                continue
            session.notified_at_us = None
            if self._records.state(device).blobs:
                del self._sessions[device]
                self._calls.setdefault(device, _Calls()).to_wake = True

    def maintain(self, now: Now) -> int:
        """Let expire what has outlived its time, and forget who has been silent; return how many blobs went."""
        for device in [
            key for key, each in self._sessions.items() if now.monotonic_us >= each.spoke_at_us + SESSION_US
        ]:
            del self._sessions[device]
        self._calls = {
            device: calls
            for device, calls in self._calls.items()
            if (calls.news is not None and device in self._sessions)
            or calls.to_wake
            or now.monotonic_us < max(calls.woken_us + WAKE_US, calls.notified_us + NOTIFY_US)
        }
        return self._records.expire()

    def forget_strangers(self) -> tuple[list[DeviceKey], int]:
        """Delete the inboxes of devices that no longer share a group with this mailbox, and some of what they pushed.

        Return those whose inbox is deleted, and the number of blobs that were pushed (rule 6).
        """
        members = {each.keys.signing_public for group in self._groups.joined() for each in group.members}
        gone = [device for device in self._records.devices() if device not in members]
        for device in gone:
            self._records.forget(device)
        dropped = 0
        for device in self._records.senders():
            if device not in members and dropped < EXPIRED_BLOBS_AT_ONCE:
                dropped += self._records.forget_sender(device)
        for device in [key for key in self._sessions if key not in members]:
            del self._sessions[device]
        return gone, dropped


def _may_wake(calls: _Calls, now: Now) -> bool:
    return now.monotonic_us >= calls.woken_us + WAKE_US
