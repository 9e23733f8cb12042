"""Results of message handlers, as values: handlers return them and the receiver applies them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.crypto import NoiseKey
from covey.core.events import EnvelopeDropped, Event
from covey.core.group.messages import GroupSend
from covey.core.ids import DeviceKey
from covey.core.link.receiver import ReceiveLink
from covey.core.now import Now
from covey.core.pairing.pending import OpenInvite
from covey.core.wire.message import Message
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.core.records.link import CounterRecords

UNFORESEEN = "unforeseen"
"""The code of a message that brought out a defect of ours, instead of an error's."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A new message that its author may send.

    `sealed_for` is the noise key that opened its envelope, None for one that came by a link key; `invite` is the open
    invite that a JOIN bears.
    """

    message: Message
    link: ReceiveLink
    invite: OpenInvite | None = None
    sealed_for: NoiseKey | None = None


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """A message's consequences: `sends` are to be queued, `events` are for the node's caller."""

    taken: bool = True
    """False where there is no room for the message now: then it is not acknowledged, and comes again."""
    sends: tuple[GroupSend, ...] = ()
    events: tuple[Event, ...] = ()
    lands_later: bool = False
    """Whether the acknowledgement waits until a role has put the message into a vault."""


Handler = Callable[[Delivery, Now], HandlerOutcome]
"""Deals with a message of one type; raises `RemoteError` where it breaks the type's rules."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A device that an envelope came from; `news` says that it brought something new."""

    device: DeviceKey
    news: bool


@dataclass(frozen=True, slots=True)
class Reception:
    """The result of an envelope: `taken` is false if there was no room for its content.

    `useful` ones had news: they cost their author little. `later`: it may be accepted later, when its author may speak,
    has tokens again, or a board is there.
    """

    taken: bool = True
    seen: Seen | None = None
    useful: bool = False
    later: bool = False


class Drops:
    """Counts dropped envelopes by the broken rule, and reports them to the node's caller."""

    def __init__(self, counters: CounterRecords, events: deque[Event]) -> None:
        self._counters = counters
        self._events = events

    def note(self, error: RemoteError, author: DeviceKey | None, counter: str = "dropped") -> None:
        """Note what was dropped and why; `author` is None where nobody can be held to it."""
        self._counters.count(f"{counter}_{error.code}")
        self._events.append(EnvelopeDropped(error.code, str(error), author))
