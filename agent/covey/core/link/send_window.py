"""Sending over one link: which queued messages are in flight to one recipient, and when one is sent again.

The queue itself is in the store; this machine holds a bounded window of it. A recipient has one window for each lane
(control messages, history, everything else, and new telemetry next to a backlog), each with its own pace and clock
(`windows.py`). So messages that a recipient cannot accept yet (telemetry of a group that it has lost) never delay those
that would enable it. Rules (docs/protocol/core.md, "The link"):

    1. A message is deleted once its recipient's acknowledgement covers it. The relay's answer proves only that this
       publish need not be repeated after a reconnection.
    2. Messages go in the order of their places; at most `allowed` of the window are unacknowledged.
    3. If no acknowledgement moves the window within the retry time, everything in flight counts as lost: `allowed`
       falls to one, one message is sent again, and the retry time grows by a factor of one to three, up to five minutes
       or the caller's limit. So an absent recipient costs one message for each retry, however much is waiting. That
       message is the oldest of those tried least: a message that its recipient or the relay always refuses delays no
       other.
    4. An acknowledgement that frees messages doubles `allowed` and adds the number freed: a false alarm costs nothing.
    5. A message that an acknowledgement shows missing below its highest number is sent again, at most once for each
       round trip, and half as often after each try.
    6. A returning recipient does not wait for a retry time that grew in its absence: an acknowledgement for the other
       window, or a request to join, resets the pace. An unsolicited acknowledgement that frees nothing causes one retry
       at once, since it may be a replay. A restored connection resets the retry time to its base. If no answer has come
       for that long, the retry follows `RETRY_US_INITIAL` later: what waits at the relay comes before. So a device that
       connects for half a minute a day repeats what was lost, however slow its recipient once was.
    7. The retry time follows the measured round trip (RFC 6298: smoothed time plus four deviations), at least 1 s. An
       acknowledgement is one measurement, because a whole window of late ones would double the retry time each time.
       One that frees only messages sent more than once measures nothing, and keeps the retry time as it has grown
       (Karn): the path may be that slow, and repetitions make it slower. Nor does one that ends an absence: what was
       tried meanwhile measures that. What is known of the path outlasts the
       window, and of what a retry time has grown by at most `RESTED_RETRY_US`: a device with a batch each minute over a
       path of six seconds would repeat each, for ever, because none is answered before its first retry.
    8. If more bulk messages wait than a window of live messages holds, telemetry queued from then on uses the live
       lane, until all of that backlog is in flight. The backlog is what was queued by then, and whatever is queued
       without a connection or an answer.
    9. If not all waiting messages may be sent, one in eight is the oldest of those that rule 3 holds back: so during a
       backlog some message has always been sent less often, and the messages in flight stay close together.
    10. If more waits than the window holds, and the recipient is heard but leaves a retry time without an answer, the
        message that entered the window first and was tried there leaves it for the next one of the queue. Such messages
        come back when the end of the queue is reached. So messages that a recipient never accepts cannot fill a window,
        however many there are: those of groups that a restored device has lost wait for weeks.

`MESSAGE` is the transition table of one message of the window. A link is as many of these machines as its window has
messages, with one pace and one clock for all of them. A board keeps the same promises with other code:
`covey_boards/device/__init__.py` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from covey.core.ids import DeviceKey, Place
from covey.core.link.queued import Lane
from covey.core.transitions import Transitions, follow
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import (
    LINK_WINDOW_BYTES,
    LINK_WINDOW_LIVE_MESSAGES,
    LINK_WINDOW_RESTART_MESSAGES,
    RESTED_RETRY_US,
    RETRY_US_INITIAL,
    RETRY_US_MAX,
    RETRY_US_MIN,
)

Jitter = Callable[[int, int], int]
"""Returns a uniform integer between two, both included."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is to be sent, for the first time or again."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A relay took it; whether it is stored there is not known."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Relayed:
    """Its relay says that it is stored there."""

    at_us: int


@dataclass(frozen=True, slots=True)
class Gone:
    """It has left the window."""


State = Waiting | Sent | Relayed | Gone


class Event(Enum):
    """What happens to a message of the window."""

    SENT = "handed to a relay"
    RELAYED = "the relay confirms it"
    CUT = "the relay's connection is lost"
    RETRY = "no acknowledgement in time"
    MISSING = "an acknowledgement reports a gap"
    ACKNOWLEDGED = "the recipient acknowledges it"
    WITHDRAWN = "removed from the queue"


MESSAGE: Transitions[Event] = {
    Waiting: {
        Event.SENT: Sent,
        Event.RELAYED: Waiting,  # late, of an earlier try
        Event.CUT: Waiting,
        Event.RETRY: Waiting,
        Event.ACKNOWLEDGED: Gone,
        Event.WITHDRAWN: Gone,
    },
    Sent: {
        Event.SENT: Sent,  # the last time counts
        Event.RELAYED: Relayed,
        Event.CUT: Waiting,
        Event.RETRY: Waiting,
        Event.MISSING: Waiting,
        Event.ACKNOWLEDGED: Gone,
        Event.WITHDRAWN: Gone,
    },
    Relayed: {
        Event.SENT: Sent,
        Event.RELAYED: Relayed,
        Event.CUT: Relayed,  # rule 1
        Event.RETRY: Waiting,
        Event.MISSING: Waiting,
        Event.ACKNOWLEDGED: Gone,
        Event.WITHDRAWN: Gone,
    },
    Gone: {Event.SENT: Gone},  # its acknowledgement was quicker than the relay's word
}

_WAITING, _GONE = Waiting(), Gone()
_BEFORE = 2
"""Sends that a message counts as having when it comes back to the window: it comes after newer ones (rule 3)."""
_ONE_IN = 8
"""Of so many places in what goes, one is for what has gone often (rule 9)."""


@dataclass(slots=True)
class InFlight:
    """One message of the window; `relay` is the one that took it last, `tag` of the link key that it went under."""

    place: Place
    message: bytes = field(repr=False)
    lane: Lane = Lane.BULK
    state: State = _WAITING
    sends: int = 0
    is_tried: bool = False
    """Whether it was sent since it entered the window."""
    relay: str = ""
    tag: bytes = b""

    def follow(self, event: Event, state: State) -> None:
        """Go where the table says."""
        self.state = follow(MESSAGE, self.state, event, state)


class Wanted(NamedTuple):
    """What a link would like to read of its queue: what follows `after`, up to a number of messages, until their bytes
    reach `size`."""

    after: Place
    messages: int
    size: int


@dataclass(slots=True)
class Pace:
    """How long a recipient takes to answer (rule 7): what outlasts the messages of one window."""

    retry_us: int = RETRY_US_INITIAL
    """The next retry time."""
    round_trip_us: float | None = None
    """Smoothed; None before the first measurement."""
    deviation_us: float = 0.0

    def measure(self, round_trip_us: int) -> None:
        """Take a measurement; retries follow at the base of it."""
        if self.round_trip_us is None:
            self.round_trip_us = float(round_trip_us)
            self.deviation_us = round_trip_us / 2
        else:
            self.deviation_us += (abs(round_trip_us - self.round_trip_us) - self.deviation_us) / 4
            self.round_trip_us += (round_trip_us - self.round_trip_us) / 8
        self.reset()

    def reset(self) -> None:
        """Begin at the base again."""
        self.retry_us = self.base_us

    def rest(self) -> None:
        """Let go of most of what a retry time has grown by, as nothing is left to send."""
        self.retry_us = min(self.retry_us, max(self.base_us, RESTED_RETRY_US))

    @property
    def base_us(self) -> int:
        """The retry time before it grows."""
        if self.round_trip_us is None:
            return RETRY_US_INITIAL
        return min(RETRY_US_MAX, max(RETRY_US_MIN, int(self.round_trip_us + 4 * self.deviation_us)))


class SendLink:
    """The sending side of one link."""

    def __init__(self, recipient: DeviceKey, lane: Lane = Lane.BULK, pace: Pace | None = None) -> None:
        self.recipient = recipient
        self.lane = lane
        self.pace = Pace() if pace is None else pace
        self._maximum = lane.window_messages
        self._window: dict[Place, InFlight] = {}
        self._window_bytes = 0
        self._loaded_upto = Place(0)
        self._exhausted = False
        self._passed_over = False
        """Whether something waits before `_loaded_upto` that has left the window (rule 10)."""
        self._is_round = False
        """Whether the queue is read once more from its beginning, so that its messages have been sent before."""
        self._is_seen = False
        """Whether the recipient was heard since the last retry."""
        self._backlog_upto: Place | None = None
        self._allowed = self._maximum
        self._acknowledged_upto = Place(0)
        self._deadline_us: int | None = None
        self._connected_at_us = 0
        self._sent_at_us = 0
        self.retries = 0
        self.turn = 0
        """Its place among those that are served in turn."""

    @property
    def exhausted(self) -> bool:
        """Say whether the window has been offered all that waits."""
        return self._exhausted

    @property
    def idle(self) -> bool:
        """Say whether nothing is left to send or to wait for."""
        return self._exhausted and not self._window

    @property
    def awaits_answer(self) -> bool:
        """Say whether something is in flight, and the recipient has left no retry unanswered."""
        return not self.retries and self._in_flight()

    def wanted(self) -> Wanted | None:
        """Return what to read of the queue where the window has room for more."""
        messages, size = self._maximum - len(self._window), LINK_WINDOW_BYTES - self._window_bytes
        if self._exhausted or messages <= 0 or size <= 0:
            return None
        return Wanted(self._loaded_upto, messages, size)

    def offer(self, rows: list[tuple[Place, bytes]], wanted: Wanted, elsewhere: Container[Place] = ()) -> bool:
        """Take queued messages that `wanted` asked for, in order; where there is room left, they are the last.

        `elsewhere`: places that another window holds. Returns whether the window may want more at once: it holds all of
        these already, or those that it has passed over are next.
        """
        size = taken = 0
        for place, message in rows:
            size += len(message)
            self._loaded_upto = place
            if place not in elsewhere and place not in self._window:
                self._window[place] = InFlight(place, message, self.lane, sends=_BEFORE if self._is_round else 0)
                self._window_bytes += len(message)
                taken += 1
        self._exhausted = len(rows) < wanted.messages and size < wanted.size
        if self._exhausted and self._passed_over:  # rule 10
            self._loaded_upto, self._exhausted, self._passed_over, self._is_round = Place(0), False, False, True
            return True
        self._is_round = self._is_round and not self._exhausted
        return not taken and not self._exhausted

    def note_backlog(self, last: Callable[[], Place]) -> None:
        """Note whether there is a backlog; what it begins with is all up to the queue's last place (rule 8)."""
        unsent = sum(not entry.sends for entry in self._window.values())
        if self._exhausted and not unsent:
            self._backlog_upto = None
        elif self._backlog_upto is None and (not self._exhausted or unsent > LINK_WINDOW_LIVE_MESSAGES):
            self._backlog_upto = last()

    @property
    def backlog_upto(self) -> Place | None:
        """After which place telemetry is live; None: there is no backlog (rule 8)."""
        return None if self._backlog_upto is None else max(self._backlog_upto, self._loaded_upto)

    def begin_after(self, place: Place | None) -> None:
        """Read on after a place, or nothing for now."""
        if place is None:
            self._exhausted = True
        else:
            self._loaded_upto = max(self._loaded_upto, place)

    def places(self) -> SequenceSet:
        """Return the places of the messages in the window."""
        return SequenceSet().including((place, place) for place in self._window)

    def __contains__(self, place: object) -> bool:
        """Say whether the window holds the message of a place."""
        return place in self._window

    def has_gone(self, place: Place) -> bool:
        """Say whether a relay has taken the message of a place, as far as this window remembers."""
        entry = self._window.get(place)
        return entry is not None and entry.sends > 0

    def queue_grew(self) -> None:
        """Note that the store may hold more than was offered."""
        self._exhausted = False

    def messages_to_send(self, at_most: int | None = None) -> Iterator[InFlight]:
        """Yield messages that may go now, in order, where `at_most` so many may be without an answer.

        Call `sent` for each that the relay took.
        """
        waiting = [entry for entry in self._window.values() if isinstance(entry.state, Waiting)]
        allowed = self._allowed if at_most is None else min(self._allowed, at_most)
        room = allowed - (len(self._window) - len(waiting))
        if room < len(waiting):
            waiting.sort(key=lambda entry: max(1, entry.sends))  # rule 3; of as many sends the first of the window
            often = [entry for entry in waiting[max(0, room) :] if entry.sends > 1]
            often = sorted(often, key=lambda entry: entry.place)[: max(0, room) // _ONE_IN]  # rule 9
            waiting = sorted([*waiting[: max(0, room - len(often))], *often], key=lambda entry: entry.place)
        yield from waiting

    def sent(self, entry: InFlight, now_us: int, relay: str = "") -> None:
        """Note that a relay took the message."""
        entry.follow(Event.SENT, _GONE if isinstance(entry.state, Gone) else Sent(now_us))
        entry.relay = relay
        entry.sends += 1
        entry.is_tried = True
        self._sent_at_us = now_us
        if self._deadline_us is None:
            self._deadline_us = now_us + self.pace.retry_us

    def relayed(self, place: Place) -> None:
        """Note that the relay has stored the message, as it says (rule 1)."""
        entry = self._window.get(place)
        if entry is not None:
            entry.follow(Event.RELAYED, Relayed(entry.state.at_us) if isinstance(entry.state, Sent) else entry.state)

    def connection_lost(self, relay: str | None = None) -> None:
        """Send again what a relay had not answered; without a name, what none had: no retry runs without a relay."""
        for entry in self._window.values():
            if relay in {None, entry.relay}:
                entry.follow(Event.CUT, entry.state if isinstance(entry.state, Relayed) else _WAITING)
        if relay is None:
            self._deadline_us = None

    def connected(self, now_us: int) -> None:
        """Let retries run again."""
        self._connected_at_us = now_us
        self._backlog_upto = None
        self.pace.reset()
        if self._in_flight():
            is_overdue = now_us >= self._sent_at_us + self.pace.retry_us
            self._deadline_us = now_us + (
                min(RETRY_US_INITIAL, self.pace.retry_us) if is_overdue else self.pace.retry_us
            )

    def receive_acknowledgement(self, received: SequenceSet, now_us: int) -> bool:
        """Drop what the recipient holds; return whether anything was freed (rules 1, 4, 5)."""
        freed = [place for place in self._window if place in received]
        round_trip_us: int | None = None
        for place in freed:
            entry = self._window.pop(place)
            self._window_bytes -= len(entry.message)
            self._acknowledged_upto = max(self._acknowledged_upto, place)
            state = entry.state
            if entry.sends == 1 and isinstance(state, Sent | Relayed) and state.at_us >= self._connected_at_us:
                round_trip_us = now_us - state.at_us
            entry.follow(Event.ACKNOWLEDGED, _GONE)
        if round_trip_us is not None and not self.retries:
            self.pace.measure(round_trip_us)
        self._resend_holes(now_us)
        if not freed:
            return False
        if self.retries:
            self._backlog_upto = None
        self._allowed = min(self._maximum, 2 * self._allowed + len(freed))
        self.retries = 0
        self._deadline_us = now_us + self.pace.retry_us if self._in_flight() else None
        return True

    def seen(self) -> None:
        """Note that the recipient is there: what it leaves unanswered it may never accept (rule 10)."""
        self._is_seen = True

    def restart(self, now_us: int) -> None:
        """Have what waits in vain go again at once, a few messages at first (rule 6)."""
        if not self.retries:
            return
        self._backlog_upto = None
        for entry in self._window.values():
            entry.follow(Event.RETRY, _WAITING)
        self._allowed = min(self._maximum, max(self._allowed, LINK_WINDOW_RESTART_MESSAGES))
        self.pace.reset()
        self._deadline_us = now_us + self.pace.retry_us if self._window else None
        self.retries = 0

    def retry_now(self, now_us: int) -> None:
        """Begin a retry now: its recipient speaks, and not in answer to the last try (rule 6)."""
        if self.retries and self._deadline_us is not None and now_us - self._sent_at_us >= self.pace.base_us:
            self._deadline_us = now_us
            self.pace.reset()

    def withdraw(self, first: int, last: int) -> None:
        """Drop messages that the queue no longer holds."""
        for place in [each for each in self._window if first <= each <= last]:
            entry = self._window.pop(place)
            self._window_bytes -= len(entry.message)
            entry.follow(Event.WITHDRAWN, _GONE)

    def next_deadline(self) -> int | None:
        """Return when `handle_deadline` wants to be called, in microseconds of the caller's clock."""
        return self._deadline_us

    def is_due(self, now_us: int) -> bool:
        """Say whether a retry is."""
        return self._deadline_us is not None and now_us >= self._deadline_us

    def handle_deadline(self, now_us: int, jitter: Jitter, longest_us: int = RETRY_US_MAX) -> None:
        """Begin a retry if it is due; the one after it is, after the longest wait at the latest (rule 3)."""
        if not self.is_due(now_us):
            return
        for entry in self._window.values():
            entry.follow(Event.RETRY, _WAITING)
        self._pass_over()
        self._allowed = 1
        self.retries += 1
        self.pace.retry_us = min(longest_us, jitter(self.pace.retry_us, 3 * self.pace.retry_us))
        self._deadline_us = now_us + self.pace.retry_us if self._window else None

    def _pass_over(self) -> None:
        """Make room for the next message of the queue if the recipient leaves those in the window (rule 10)."""
        is_full = not self._exhausted and self.wanted() is None
        first = next((each.place for each in self._window.values() if each.is_tried), None)
        if is_full and self._is_seen and first is not None and self.lane is not Lane.LIVE:
            self.withdraw(first, first)
            self._passed_over = True
        self._is_seen = False

    def _in_flight(self) -> bool:
        return any(isinstance(entry.state, Sent | Relayed) for entry in self._window.values())

    def _resend_holes(self, now_us: int) -> None:
        base = self.pace.base_us // 2
        for place, entry in self._window.items():
            if place > self._acknowledged_upto:
                return
            if isinstance(entry.state, Sent | Relayed):
                patience = min(RETRY_US_MAX, base << min(entry.sends - 1, 16))
                if now_us - entry.state.at_us >= patience:
                    entry.follow(Event.MISSING, _WAITING)
