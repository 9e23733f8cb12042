"""Acknowledgements and resumptions: what recipients hold, what they will never receive, and when to report it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from covey.core.events import NotUnderstood, RollbackDetected
from covey.core.ids import INCARNATION_BYTES, DeviceKey, Incarnation, LinkSeq, Place
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.receiver import ReceiveLinks
from covey.core.link.send_queue import SendQueue
from covey.core.now import Now
from covey.core.receiving.outcome import Seen
from covey.core.routing.collectors import Collectors
from covey.core.wire.imprints import NOTHING, UNKNOWN, imprint_of, runs
from covey.core.wire.message import Acknowledgement, Message, Resumption
from covey.core.wire.sequences import Range, SequenceSet
from covey.limits.link import LINK_WINDOW_BYTES, LINK_WINDOW_MESSAGES
from covey.limits.message import MAXIMUM_SEQUENCE

if TYPE_CHECKING:
    from covey.core.records import Records


class Acknowledgements:
    """Frees what recipients have acknowledged, and resumes links whose sender has let something go."""

    def __init__(
        self,
        records: Records,
        links: ReceiveLinks,
        queue: SendQueue,
        collectors: Collectors,
        rng: Callable[[int], bytes],
    ) -> None:
        self._records = records
        self._links = links
        self._queue = queue
        self._collectors = collectors
        self._rng = rng
        self._lacking: dict[tuple[DeviceKey, Incarnation], SequenceSet] = {}
        """What each recipient's last acknowledgement lacked of what had left the queue, as far as it was asked for."""
        self._resumptions: dict[tuple[DeviceKey, Incarnation], Resumption] = {}

    def acknowledge(self, message: Message, now: Now, *, hears: bool) -> Seen | RollbackDetected | NotUnderstood | None:
        """Free what an ACK covers; return its author where that was news, or what it shows.

        That is that this state is an old copy, or that the author could not use messages.

        Only of a device that it `hears` does it believe that: one that was removed does not decide what others do.
        """
        author = message.author
        acknowledgement = Acknowledgement.from_wire(message.body)
        spans = self._records.incarnations.spans(author)
        span = next((span for span in spans if span.incarnation == acknowledgement.incarnation), None)
        if span is None:
            return None
        present = span is spans[-1]
        lived_twice = present and span.covers_too_much(acknowledgement.received)
        received = acknowledgement.received.up_to(span.last - span.base)  # another life may have sent more of it
        if acknowledgement.imprints is None:
            unsure = lived_twice or span.rolled_back
            held, rivals = (SequenceSet(), list(self._waiting(author, span))) if unsure else (received, [])
        else:
            held, rivals = self._compared(author, span, received, acknowledgement.imprints, present=present)
        unusable = self._unusable(author, span, acknowledgement) if hears else 0
        freed = self._queue.free(author, span.places(held), now)
        if freed:
            self._records.presence.seen(author, now.wall_us)
            self._collectors.answered(author, now)
        else:
            self._queue.speaks(author, now)
        begun = False
        if hears and (lived_twice or (present and rivals)):
            incarnation = Incarnation(self._rng(INCARNATION_BYTES))
            begun = self._records.incarnations.replace(author, incarnation, now.wall_us)  # at most once in a while
        if begun or not present:
            for place in rivals:
                self._queue.requeue(author, place, now)
        self._answer_lacking(author, span, received, acknowledgement, now, hears=hears)
        if begun:
            return RollbackDetected(author)
        if unusable:
            self._records.counters.count("not_understood", unusable)
            return NotUnderstood(author, unusable)
        return Seen(author, news=True) if freed else None

    def _unusable(self, author: DeviceKey, span: IncarnationSpan, acknowledgement: Acknowledgement) -> int:
        """Return how many waiting messages a recipient set aside because its build does not know them."""
        return sum(bool(self._waiting(author, span, number, number)) for number in acknowledgement.unsupported)

    def _answer_lacking(
        self,
        author: DeviceKey,
        span: IncarnationSpan,
        received: SequenceSet,
        acknowledgement: Acknowledgement,
        now: Now,
        *,
        hears: bool,
    ) -> None:
        """Tell a recipient to continue without what it lacks and the queue no longer holds; report lost telemetry."""
        gone = self._records.outbox.let_go(author, span, received)
        if hears and acknowledgement.imprints is not None:
            self._note_lost(author, span, received, acknowledgement.imprints, now)
            self._set_lacking(author, span.incarnation, SequenceSet().including(gone))
        if gone:
            self._resumptions[author, span.incarnation] = Resumption(tuple(gone))
            for first, last in gone:
                self._records.sent_reports.note_lacking(author, span.base + first, span.base + last)

    def _note_lost(
        self, author: DeviceKey, span: IncarnationSpan, received: SequenceSet, imprints: Mapping[int, bytes], now: Now
    ) -> None:
        """Handle messages that a recipient had acknowledged, and reports as not received since its state was restored.

        Those still kept are sent again; the others are reported as lost. A late acknowledgement lacks messages too, but
        its author has them and never reports them so, whatever else the resumption that answered it has closed.
        """
        lost, resent = 0, 0
        for lacking in self._known_lacking(author, span.incarnation).spans():
            for first, last in _closed(lacking, imprints) if all(end in received for end in lacking) else ():
                places = Place(span.base + first), Place(span.base + last)
                for message in self._records.outbox.take_acknowledged(author, *places):
                    self._queue.repeat(author, message, now)
                    resent += 1
                lost += self._records.outbox.lost_by_recipient(author, *places)
        if resent:
            self._records.counters.count("resent_to_restored", resent)
        if lost:
            self._records.counters.count("lost_by_recipients", lost)
            self._queue.report_losses(now)

    def _known_lacking(self, recipient: DeviceKey, incarnation: Incarnation) -> SequenceSet:
        key = recipient, incarnation
        if key not in self._lacking:
            self._lacking[key] = SequenceSet().including(self._records.outbox.lacking(*key))
        return self._lacking[key]

    def _set_lacking(self, recipient: DeviceKey, incarnation: Incarnation, lacking: SequenceSet) -> None:
        if self._known_lacking(recipient, incarnation) != lacking:
            self._lacking[recipient, incarnation] = lacking
            self._records.outbox.set_lacking(recipient, incarnation, lacking.spans())

    def _compared(
        self,
        author: DeviceKey,
        span: IncarnationSpan,
        received: SequenceSet,
        imprints: Mapping[int, bytes],
        *,
        present: bool,
    ) -> tuple[SequenceSet, list[Place]]:
        """Return the link sequences that the recipient verifiably holds, and the places whose numbers have other
        messages.

        A held message without a known imprint is ours if only a start ended the incarnation, because everything that
        waits was there before. Otherwise it may belong to another incarnation (docs/protocol/groups.md, section 20).
        """
        trusted = not present and not span.rolled_back
        held, rivals = SequenceSet(), list[Place]()
        for first, last in runs(imprints):
            for place, message in self._waiting(author, span, first, last).items():
                number = place - span.base
                ours, named = imprint_of(message), imprints[number]
                if number not in received:
                    if named == ours:  # it was refused
                        rivals.append(place)
                elif named == ours or (named == UNKNOWN and trusted):
                    held = held.add(number)
                else:
                    rivals.append(place)
        return held, rivals

    def _waiting(
        self, recipient: DeviceKey, span: IncarnationSpan, first: int = 1, last: int = MAXIMUM_SEQUENCE
    ) -> dict[Place, bytes]:
        """Return the messages that wait under some link sequences of a span, signed: one window at most."""
        after, end = Place(span.base + first - 1), min(span.base + last, span.last)
        most = min(LINK_WINDOW_MESSAGES, end - after)  # each row that is read costs, also those behind the end
        rows = self._records.outbox.queued(recipient, after, most, LINK_WINDOW_BYTES)
        return {place: raw for place, raw in rows if place <= end}

    def resume(self, message: Message, now: Now) -> bool:
        """Go on without what the sender no longer has: an earlier state of ours had it, or a loss record tells.

        Return whether that changed anything.
        """
        key = message.author, message.incarnation
        link = self._links.of(*key)
        before = link.received
        link.resume(Resumption.from_wire(message.body).ranges)
        if link.received == before:
            return False
        self._records.received.set(*key, link.received)
        closed = link.received.excluding(before.spans())
        self._records.received.set_resumed(*key, self._records.received.resumed(*key).including(closed.spans()))
        ends = {end for closed_span in closed.spans() for end in closed_span}  # named, they say that nothing came
        beside = {each for end in ends for each in (end - 1, end + 1) if each and each in before}  # these, that it did
        link.answer_soon(now.monotonic_us, *map(LinkSeq, ends | beside))
        return True

    def resumptions(
        self, wanted: Callable[[DeviceKey], bool] = lambda _: True
    ) -> Iterator[tuple[DeviceKey, Incarnation, bytes]]:
        """Yield (author, incarnation, body) of the resumptions that are due; going on says that one has gone."""
        for author, incarnation in [key for key in self._resumptions if wanted(key[0])]:
            yield author, incarnation, self._resumptions[author, incarnation].to_wire()
            del self._resumptions[author, incarnation]


def _closed(lacking: Range, imprints: Mapping[int, bytes]) -> list[Range]:
    """Return the parts of a range under which nothing came, by their ends and by what is named beside them."""
    first, last = lacking
    named = sorted(number for number in imprints if first <= number <= last)
    closed = SequenceSet()
    for number, following in pairwise([*named, last + 1]):
        if imprints[number] == NOTHING:
            goes_on = following > last or imprints[following] == NOTHING
            closed = closed.add(number, min(following, last) if goes_on else number)
    return closed.spans()
