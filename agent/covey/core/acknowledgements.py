"""Acknowledgements and resumptions: what recipients have, what they will never get, and when to say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from covey.core.collectors import Collectors
from covey.core.events import RollbackDetected
from covey.core.ids import INCARNATION_BYTES, DeviceKey, Incarnation
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.receiver import ReceiveLinks
from covey.core.link.records import IncarnationRecords, ReceivedRecords, SeenRecords
from covey.core.link.send_queue import SendQueue
from covey.core.link.sender import Sender
from covey.core.now import Now
from covey.core.outcome import Seen
from covey.core.wire.message import Acknowledgement, Message, Resumption
from covey.core.wire.sequences import Range, SequenceSet


class HeldPlaces(Protocol):
    """What the outbox does not hold any more."""

    def let_go(self, recipient: DeviceKey, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        """Return the link sequences of a span that its recipient lacks and the outbox does not hold."""


class AcknowledgementRecords(Protocol):
    """What acknowledgements read and write."""

    @property
    def incarnations(self) -> IncarnationRecords:
        """The incarnations of this device."""

    @property
    def outbox(self) -> HeldPlaces:
        """Messages that wait for their recipients."""

    @property
    def received(self) -> ReceivedRecords:
        """What has come over each link."""

    @property
    def presence(self) -> SeenRecords:
        """Signs of life of other devices."""


class Acknowledgements:
    """Frees what recipients have acknowledged, and resumes links whose sender has let something go."""

    def __init__(
        self,
        records: AcknowledgementRecords,
        links: ReceiveLinks,
        queue: SendQueue,
        sender: Sender,
        collectors: Collectors,
        rng: Callable[[int], bytes],
    ) -> None:
        self._records = records
        self._links = links
        self._queue = queue
        self._sender = sender
        self._collectors = collectors
        self._rng = rng
        self._resumptions: dict[tuple[DeviceKey, Incarnation], Resumption] = {}

    def acknowledge(self, message: Message, now: Now, *, hears: bool) -> Seen | RollbackDetected | None:
        """Free what an ACK covers; return its author where that was news, or that this state is an old copy.

        Only of a device that it `hears` does it believe that: one that was removed does not decide what others do.
        """
        author = message.author
        acknowledgement = Acknowledgement.from_wire(message.body)
        spans = self._records.incarnations.spans(author)
        span = next((span for span in spans if span.incarnation == acknowledgement.incarnation), None)
        if span is None:
            return None
        if span is spans[-1] and span.covers_too_much(acknowledgement.received):
            incarnation = Incarnation(self._rng(INCARNATION_BYTES))
            begun = hears and self._sender.begin_incarnation(author, incarnation, now)
            return RollbackDetected(author) if begun else None
        received = acknowledgement.received.up_to(span.last - span.base)  # another life may have sent more of it
        freed = self._queue.free(author, span.places(received), now)
        if freed:
            self._records.presence.seen(author, now.wall_us)
            self._collectors.answered(author, now)
        else:
            self._queue.speaks(author, now)
        gone = self._records.outbox.let_go(author, span, received)
        if gone:
            self._resumptions[author, span.incarnation] = Resumption(tuple(gone))
        return Seen(author, news=True) if freed else None

    def resume(self, message: Message, now: Now) -> bool:
        """Go on without what the sender no longer has: an earlier state of ours had it, or a loss record tells.

        Return whether that changed anything.
        """
        link = self._links.of(message.author, message.incarnation)
        before = link.received
        link.resume(Resumption.from_wire(message.body).ranges)
        if link.received == before:
            return False
        self._records.received.set(message.author, message.incarnation, link.received)
        link.answer_soon(now.monotonic_us)
        return True

    def resumptions(self) -> Iterator[tuple[DeviceKey, Incarnation, bytes]]:
        """Yield (author, incarnation, body) of the resumptions that are due; going on says that one has gone."""
        for author, incarnation in list(self._resumptions):
            yield author, incarnation, self._resumptions[author, incarnation].to_wire()
            del self._resumptions[author, incarnation]
