"""What dealing with a message comes to, as values: a handler returns them, and the receiver carries them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from covey.core.crypto import NoiseKey
from covey.core.events import Event
from covey.core.group.messages import GroupSend
from covey.core.ids import DeviceKey
from covey.core.link.receiver import ReceiveLink
from covey.core.now import Now
from covey.core.pairing.pending import OpenInvite
from covey.core.wire.message import Message

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
    """What a message leaves to be done: `sends` are to be queued, `events` for whoever runs the node."""

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
