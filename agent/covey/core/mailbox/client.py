"""A device's side of a mailbox: it greets, asks for waiting messages, and deletes what it has processed (ADR 76).

1. A message from a mailbox is processed as if a relay had delivered it: the link handles order, repetition and forgery.
   So a mailbox that drops, repeats, reorders or invents messages only causes delay.
2. Cursors ascend, lie above the requested one, and within `MAXIMUM_CURSOR_GAP` of it. A mailbox that sends others is
   faulty: its session ends, with a pause.
3. Processing is committed before the blobs are deleted. If a DELETE is lost, the blobs arrive again.
4. A message that cannot be accepted yet (its author is not yet a member, there is no room, its author exceeds a rate)
   stays in the mailbox, and is requested again after a group has changed, or after a while.
5. A mailbox that reports another state id, or a last cursor below what was processed, was restored: it is asked from
   the first cursor on.

A mailbox that does not answer in `HELLO_US` is greeted again after a pause that doubles. Session state is in memory
only: after a start it begins again, without loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId
from covey.core.mailbox.messages import (
    VERSION,
    Delete,
    Hello,
    MailboxMessage,
    MailboxWelcome,
    Notify,
    Pull,
    PullResponse,
)
from covey.core.now import Now
from covey.core.transitions import Transitions, follow
from covey.core.wire.sequences import SequenceSet
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.mailbox import (
    GREETING_US,
    GREETING_US_MAX,
    HELD_BACK_US,
    HELLO_US,
    MAXIMUM_CURSOR_GAP,
    PULL_BLOBS,
)

if TYPE_CHECKING:
    from covey.core.records.content import MailboxRecords


@dataclass(frozen=True, slots=True)
class Away:
    """The mailbox does not know of this device; it is greeted when the time has come."""

    greet_at_us: int = 0


@dataclass(frozen=True, slots=True)
class Greeting:
    """It was greeted, and has not answered yet."""

    since_us: int


@dataclass(frozen=True, slots=True)
class Open:
    """It has answered; it is greeted again when the time has come."""

    greet_at_us: int


@dataclass(frozen=True, slots=True)
class Asking:
    """What follows a cursor is to be asked for."""

    after: int


@dataclass(frozen=True, slots=True)
class Pulling:
    """What follows a cursor was asked for, and has not come yet."""

    after: int
    since_us: int


@dataclass(frozen=True, slots=True)
class Closed:
    """No group names the mailbox any more."""


State = Away | Greeting | Open | Asking | Pulling | Closed


class SessionEvent(Enum):
    """What happens to a session."""

    GREETED = "we greet it"
    WELCOMED = "it answers, with none waiting"
    WAITS = "it reports waiting messages"
    ASKED = "we ask for the next part"
    MORE = "it sends a part"
    EMPTY = "it sends the last part"
    SILENT = "no answer in time"
    ENDED = "session forgotten, wrong answer or connection lost"
    DROPPED = "no group lists it any longer"


SESSION: Transitions[SessionEvent] = {
    Away: {
        SessionEvent.GREETED: Greeting,
        SessionEvent.ENDED: Away,
        SessionEvent.WAITS: Away,
        SessionEvent.DROPPED: Closed,
    },
    Greeting: {
        SessionEvent.WELCOMED: Open,
        SessionEvent.WAITS: Asking,
        SessionEvent.SILENT: Away,
        SessionEvent.ENDED: Away,
        SessionEvent.DROPPED: Closed,
    },
    Open: {
        SessionEvent.GREETED: Greeting,
        SessionEvent.WELCOMED: Open,
        SessionEvent.WAITS: Asking,
        SessionEvent.ENDED: Away,
        SessionEvent.DROPPED: Closed,
    },
    Asking: {
        SessionEvent.ASKED: Pulling,
        SessionEvent.WAITS: Asking,
        SessionEvent.WELCOMED: Asking,
        SessionEvent.ENDED: Away,
        SessionEvent.DROPPED: Closed,
    },
    Pulling: {
        SessionEvent.MORE: Asking,
        SessionEvent.EMPTY: Open,
        SessionEvent.WAITS: Pulling,
        SessionEvent.WELCOMED: Pulling,
        SessionEvent.SILENT: Away,
        SessionEvent.ENDED: Away,
        SessionEvent.DROPPED: Closed,
    },
    Closed: {},
}


_EMPTY_PULLS = 128
"""Parts without a blob in a row, each a gap of expired cursors, before the rest waits for the next greeting."""


class MailboxSession:
    """This device with one mailbox, by a group that both are in."""

    def __init__(self, mailbox: DeviceKey, group_id: GroupId, name: str, records: MailboxRecords) -> None:
        self.mailbox = mailbox
        self.group_id = group_id
        self._name = name
        self._records = records
        self.relay_id, self._position = records.position(mailbox)
        self._state: State = Away()
        self._tries = 0
        self.welcomes = 0
        """How often the mailbox has welcomed this device in this run."""
        self._through: int | None = None
        """Up to which cursor was asked in this run; None before it was."""
        self._held_back: int | None = None
        """The lowest cursor of this series that could not be taken."""
        self._took = False
        self._empty_pulls = 0
        self._looked: tuple[int, int] | None = None
        """(generation of the groups, time) when all that waited had been looked at."""
        self._deletes = SequenceSet()

    @property
    def is_open(self) -> bool:
        """Whether the mailbox has welcomed this device."""
        return isinstance(self._state, Open | Asking | Pulling)

    def _follow(self, event: SessionEvent, state: State) -> None:
        self._state = follow(SESSION, self._state, event, state)

    # -- what is sent -------------------------------------------------------------------------------------------------

    def due(self, now: Now) -> Iterator[MailboxMessage]:
        """Yield what is to be said now. Where the caller stops, that one is yielded once more."""
        self._end_waiting(now)
        state = self._state
        if isinstance(state, Away | Open) and now.monotonic_us >= state.greet_at_us:
            yield Hello(VERSION, self._name, self._position)
            self._follow(SessionEvent.GREETED, Greeting(now.monotonic_us))
        if self.is_open and self._deletes.count():
            yield Delete(tuple(self._deletes.spans()))
            self._deletes = SequenceSet()
        if isinstance(self._state, Asking):
            after = self._state.after
            yield Pull(after, PULL_BLOBS)
            self._follow(SessionEvent.ASKED, Pulling(after, now.monotonic_us))

    def _end_waiting(self, now: Now) -> None:
        state = self._state
        if isinstance(state, Greeting | Pulling) and now.monotonic_us >= state.since_us + HELLO_US:
            self._follow(SessionEvent.SILENT, self._pause(now))

    def _pause(self, now: Now) -> Away:
        pause_us = min(GREETING_US_MAX, HELLO_US << min(self._tries, 16))
        self._tries += 1
        return Away(now.monotonic_us + pause_us)

    def next_deadline(self) -> int | None:
        """Return when `due` has something to say, if nothing comes before, in monotonic microseconds."""
        state = self._state
        if isinstance(state, Away | Open):
            return state.greet_at_us
        if isinstance(state, Greeting | Pulling):
            return state.since_us + HELLO_US
        return 0 if isinstance(state, Asking) else None

    # -- what happens -------------------------------------------------------------------------------------------------

    def connected(self, now: Now) -> None:
        """Greet the mailbox: a relay is reached, perhaps after a long time."""
        self._follow(SessionEvent.ENDED, Away(now.monotonic_us))
        self._tries = 0

    def end(self, now: Now) -> None:
        """Start again after a pause: the mailbox is faulty, or knows of no session."""
        self._follow(SessionEvent.ENDED, self._pause(now))

    def greet_soon(self, now: Now) -> None:
        """Greet the mailbox, which has forgotten the session; soon at first, then with pauses."""
        if isinstance(self._state, Away):  # it is to be greeted anyhow
            return
        pause = self._pause(now) if self._tries else Away(now.monotonic_us)
        self._tries += 1
        self._follow(SessionEvent.ENDED, pause)

    def close(self) -> None:
        """End it: no group names the mailbox any more."""
        self._follow(SessionEvent.DROPPED, Closed())

    def groups_changed(self, now: Now) -> None:
        """Look soon whether what could not be taken can be now (rule 4)."""
        if self._held_back is not None and isinstance(self._state, Open):
            self._follow(SessionEvent.WELCOMED, Open(min(self._state.greet_at_us, now.monotonic_us + HELLO_US)))

    def look_once_more(self, now: Now) -> None:
        """Look at once whether what could not be taken can be now (rule 4)."""
        self._looked = None
        if self._held_back is not None and isinstance(self._state, Open):
            self._follow(SessionEvent.WELCOMED, Open(now.monotonic_us))

    def receive_welcome(self, welcome: MailboxWelcome, generation: int, now: Now) -> bool:
        """Take the answer to a greeting; return whether it was one. Inside a transaction."""
        if not isinstance(self._state, Greeting):
            return False
        if welcome.relay_id != self.relay_id or welcome.max_cursor < self._position:  # rule 5
            self.relay_id, self._position, self._through, self._looked = welcome.relay_id, 0, None, None
            self._records.set_position(self.mailbox, self.relay_id, 0)
        self._tries = 0
        self.welcomes += 1
        after = self._wanted_after(welcome, generation, now)
        if after is None:
            self._follow(SessionEvent.WELCOMED, Open(now.monotonic_us + GREETING_US))
        else:
            self._begin_series(after)
            self._follow(SessionEvent.WAITS, Asking(after))
        return True

    def _wanted_after(self, welcome: MailboxWelcome, generation: int, now: Now) -> int | None:
        through = self._position if self._through is None else self._through
        if welcome.max_cursor > through:
            return through
        if not welcome.pending_count:
            return None
        is_known = self._looked is not None and (
            self._looked[0] == generation and now.monotonic_us < self._looked[1] + HELD_BACK_US
        )
        return None if is_known else 0

    def _begin_series(self, after: int) -> None:
        self._took, self._empty_pulls = False, 0
        if self._held_back is not None and after < self._held_back:  # it comes once more
            self._held_back = None

    def receive_notify(self, notify: Notify, now: Now) -> bool:
        """Ask for what is new; return whether it may be."""
        through = self._position if self._through is None else self._through
        if isinstance(self._state, Away):
            if self._tries:
                return False
            self._follow(SessionEvent.WAITS, Away(now.monotonic_us))
            return True
        if notify.cursor <= through or not isinstance(self._state, Open):
            return False
        self._begin_series(through)
        self._follow(SessionEvent.WAITS, Asking(through))
        return True

    def receive_response(
        self, response: PullResponse, take: Callable[[bytes], bool], generation: int, now: Now
    ) -> bool:
        """Deal with what waited, each by `take`, which says whether it is dealt with; return whether it was asked for.

        Inside a transaction.

        Raises:
            RemoteError: the mailbox lies; the session is over.
        """
        if not isinstance(self._state, Pulling):
            return False
        after = self._state.after
        upto = self._checked(response, after, now)
        self._tries = 0
        dealt_with = []
        for entry in response.blobs:
            if take(entry.payload):
                dealt_with.append((entry.cursor, entry.cursor))
            elif self._held_back is None:
                self._held_back = entry.cursor
        self._took = self._took or bool(dealt_with)
        self._deletes = self._deletes.including(dealt_with)
        self._empty_pulls = 0 if response.blobs else self._empty_pulls + 1
        self._through = max(upto, self._through or 0)
        self._move(upto if self._held_back is None else min(upto, self._held_back - 1))
        if response.has_more and self._empty_pulls < _EMPTY_PULLS:
            self._follow(SessionEvent.MORE, Asking(upto))
            return True
        repeats = self._held_back is not None and self._took  # what was taken may let the rest be taken
        soon = repeats or response.has_more
        self._looked = None if soon else (generation, now.monotonic_us)
        self._follow(SessionEvent.EMPTY, Open(now.monotonic_us + (HELLO_US if soon else GREETING_US)))
        return True

    def _checked(self, response: PullResponse, after: int, now: Now) -> int:
        """Return the cursor up to which an answer covers the request (rule 2)."""
        last = response.blobs[-1].cursor if response.blobs else after
        lie: RemoteError | None = None
        if response.blobs and response.blobs[0].cursor <= after:
            lie = MalformedError("the mailbox sent cursors that were not requested")
        elif last > after + MAXIMUM_CURSOR_GAP:
            lie = LimitError(f"the mailbox sent cursors more than {MAXIMUM_CURSOR_GAP} above the requested ones")
        elif last > max(after, response.max_cursor) or (response.has_more and last >= response.max_cursor):
            lie = MalformedError("the mailbox sent cursors above its last one")
        if lie is not None:
            self.end(now)
            raise lie
        if response.blobs and response.has_more:
            return last
        return max(last, min(response.max_cursor, after + MAXIMUM_CURSOR_GAP))

    def _move(self, cursor: int) -> None:
        if cursor > self._position:
            self._position = cursor
            self._records.set_position(self.mailbox, self.relay_id, cursor)
