"""The states of one connection to an MQTT 5 broker, and its transition table.

A connection goes through them once: whatever comes after its end is ignored, and the first reason to end counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from covey.core.transitions import Transitions


CONNECTION_LOST = "the connection was lost"
"""The reason of an ending of which nothing more is known."""


@dataclass(frozen=True, slots=True)
class ConnectionEnding:
    """Why a connection ended, in plain words; whether the server said no; how long we were up.

    `taken_over`: somebody else has signed in with our name and credential. `too_large`: over the size of a packet.
    `error`: what TCP or TLS failed with.
    """

    reason: str
    refused: bool = False
    up_s: float = 0.0
    taken_over: bool = False
    too_large: bool = False
    error: OSError | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """TCP and TLS are being set up, for as long as paho lets them; deadlines are monotonic time."""

    AWAITED: ClassVar[str] = "open the connection"
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Accepting:
    """CONNECT was sent."""

    AWAITED: ClassVar[str] = "accept the connection"
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Subscribing:
    """The server has let us in, and the first SUBSCRIBE was sent."""

    AWAITED: ClassVar[str] = "answer our subscription"
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Up:
    """The inbox is granted: publishes go, and at the deadline the subscription is renewed."""

    AWAITED: ClassVar[str] = "up"
    deadline_s: float
    since_s: float


@dataclass(frozen=True, slots=True)
class Closing:
    """DISCONNECT was sent after what was posted before."""

    AWAITED: ClassVar[str] = "take our leave"
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """It is over."""

    AWAITED: ClassVar[str] = "end"
    ending: ConnectionEnding
    deadline_s: float = math.inf


State = Opening | Accepting | Subscribing | Up | Closing | Ended


class Event(Enum):
    """What happens to a connection."""

    OPENED = "TCP and TLS are open"
    ACCEPTED = "CONNACK accepts us"
    GRANTED = "SUBACK grants the inbox"
    RENEW = "asked to subscribe again"
    DUE = "the deadline passes"
    CLOSE = "asked to close"
    END = "refused, lost or ended by the server"


CONNECTION: Transitions[Event] = {
    Opening: {Event.OPENED: Accepting, Event.END: Ended},
    Accepting: {
        Event.ACCEPTED: Subscribing,
        Event.GRANTED: Accepting,  # of a server that answers what was not asked: ignored
        Event.RENEW: Accepting,  # ignored: the first subscription is still to come
        Event.DUE: Ended,
        Event.CLOSE: Closing,
        Event.END: Ended,
    },
    Subscribing: {
        Event.ACCEPTED: Subscribing,  # a second CONNACK: its bounds count, no more
        Event.GRANTED: Up,
        Event.RENEW: Subscribing,  # ignored
        Event.DUE: Ended,
        Event.CLOSE: Closing,
        Event.END: Ended,
    },
    Up: {
        Event.ACCEPTED: Up,
        Event.GRANTED: Up,  # of a renewal
        Event.RENEW: Up,
        Event.DUE: Up,  # renews the subscription
        Event.CLOSE: Closing,
        Event.END: Ended,
    },
    Closing: {
        Event.ACCEPTED: Closing,
        Event.GRANTED: Closing,
        Event.RENEW: Closing,  # ignored
        Event.DUE: Ended,
        Event.CLOSE: Closing,
        Event.END: Ended,
    },
    Ended: dict.fromkeys((Event.ACCEPTED, Event.GRANTED, Event.RENEW, Event.CLOSE, Event.END), Ended),
}
