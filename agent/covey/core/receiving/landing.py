"""Handlers of telemetry, summaries and loss records: a collector lands them before it acknowledges them.

Reports about orders land too. The acknowledgement waits until a role reports that the vault has the message
(`TelemetryLanding.landed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.receiver import ReceiveLinks
from covey.core.now import Now
from covey.core.receiving.outcome import Delivery, Handler, HandlerOutcome
from covey.core.routing.collectors import read_redirected
from covey.core.wire.message import Loss, Message, MessageType
from covey.errors import LimitError, MalformedError

if TYPE_CHECKING:
    from covey.core.records import Records


class TelemetryLanding:
    """Keeps telemetry for a vault where a collector empties the landing; elsewhere it stays with its sender."""

    def __init__(self, records: Records, links: ReceiveLinks, *, lands: bool) -> None:
        self._records = records
        self._links = links
        self._lands = lands

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.TELEMETRY: self._telemetry,
            MessageType.SUMMARY: self._telemetry,
            MessageType.REDIRECTED: self._redirected,
            MessageType.LOSS: self._loss,
        }

    def landed(self, author: DeviceKey, incarnation: Incarnation, link_seqs: set[LinkSeq], now: Now) -> None:
        """Acknowledge what the collector has put into its vault."""
        link = self._links.of(author, incarnation)
        link.landed(link_seqs)
        link.answer_soon(now.monotonic_us, *link_seqs)
        link.make_due(now.monotonic_us)

    def beside(self, handler: Handler) -> Handler:
        """Return a handler of reports that lands what it has taken, where a collector empties the landing."""
        if not self._lands:
            return handler

        def handle(delivery: Delivery, now: Now) -> HandlerOutcome:
            outcome = handler(delivery, now)
            taken = outcome.taken and self._land(delivery.message, now).taken
            return replace(outcome, taken=taken, lands_later=True)

        return handle

    def _telemetry(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return self._land(delivery.message, now)

    def _redirected(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return self._land(replace(delivery.message, raw=read_redirected(delivery.message)), now)

    def _land(self, message: Message, now: Now) -> HandlerOutcome:
        return HandlerOutcome(taken=self._lands and self._records.landing.land(message, now.wall_us), lands_later=True)

    def _loss(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        loss = Loss.from_wire(message.body)
        if loss.incarnation == message.incarnation:
            raise MalformedError("a loss record must name its own incarnation")
        if loss.incarnation is None and loss.last >= message.link_seq:
            raise LimitError("a loss record must cover only earlier messages")
        if loss.last >= message.seq:  # which counts all of its author's messages, of every incarnation
            raise LimitError("the loss record covers more than its author has sent")
        incarnation = loss.incarnation or message.incarnation
        link = delivery.link if loss.incarnation is None else self._links.of(message.author, incarnation)
        received = link.without(loss.places)
        if self._lands and not self._records.landing.land(message, now.wall_us):
            return HandlerOutcome(taken=False)
        self._count_lost(message.author, incarnation, loss, received.count() - link.received.count())
        link.received = received
        if link is not delivery.link:
            self._records.received.set(message.author, incarnation, link.received)
            link.answer_soon(now.monotonic_us)
        return HandlerOutcome(lands_later=self._lands)

    def _count_lost(self, author: DeviceKey, incarnation: Incarnation, loss: Loss, open_before: int) -> None:
        """Count each lost message once: those that were open before the record, and those that a resumption closed."""
        resumed = self._records.received.resumed(author, incarnation)
        unreported = resumed.excluding(loss.places)
        self._records.counters.count("lost_messages", open_before + resumed.count() - unreported.count())
        if unreported != resumed:
            self._records.received.set_resumed(author, incarnation, unreported)
