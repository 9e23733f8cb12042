"""The session of a device with one mailbox: greeted, then asked for what waits, as long as more of it comes.

A mailbox that does not answer in `HELLO_US` is greeted again after a pause that doubles. What a session is in the
middle of is in memory alone: after a start it begins anew, and nothing is lost by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from covey.core.transitions import Transitions


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

    GREETED = "it is greeted"
    WELCOMED = "it answers, and nothing waits"
    WAITS = "it says that something waits"
    ASKED = "it is asked for what follows a cursor"
    MORE = "it gives a part"
    EMPTY = "it gives the last part"
    SILENT = "no answer in time"
    ENDED = "it has forgotten the session, or lies, or the connection was lost"
    DROPPED = "no group names it any more"


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
