"""A queue over several incarnations of its device: which of its places have which numbers on the wire.

A device whose state was restored or salvaged draws a new incarnation, so that it never uses a number twice. Messages
that waited keep their place in the queue. Rules (docs/protocol/groups.md, "Restored and damaged states"):

    1. A message that was queued before is sent as it was signed, under its own incarnation: a recipient that has it
       already recognises a duplicate.
    2. If a recipient shows that a lost copy of this device used a number for another message, another incarnation
       begins, and the message is queued again in it. The other messages stay: the recipient recognises each that it
       has, so none arrives twice.
    3. An acknowledgement belongs to one incarnation and frees only its places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covey.core.ids import BatchNumber, Incarnation, Place
from covey.core.wire.message import Loss, LossReason
from covey.core.wire.sequences import Range, SequenceSet
from covey.limits.link import MAXIMUM_LOSS_RANGES

_BEFORE_THE_FIRST = Place(0)


@dataclass(frozen=True, slots=True)
class IncarnationSpan:
    """The places `base` + 1 to `last` of one recipient's queue: its messages of one incarnation.

    `rolled_back`: it ended because another life has used its numbers (rule 2).
    """

    incarnation: Incarnation
    base: int
    last: int
    rolled_back: bool = False

    def places(self, received: SequenceSet) -> SequenceSet:
        """Return the places of what an acknowledgement covers (rule 3)."""
        spans = ([(1, received.upto)] if received.upto else []) + list(received.ranges)
        places = SequenceSet()
        for first, last in spans:
            if self.base + first <= self.last:
                places = places.add(self.base + first, min(self.base + last, self.last))
        return places

    def covers_too_much(self, received: SequenceSet) -> bool:
        """Say whether an acknowledgement speaks of messages that were never queued here."""
        return self.base + received.highest() > self.last


def span_of(spans: Sequence[IncarnationSpan], place: Place) -> IncarnationSpan:
    """Return the span that a place belongs to; the last one is the present."""
    return next((span for span in spans if place <= span.last), spans[-1])


@dataclass(frozen=True, slots=True)
class Gone:
    """Places of a queue, one after the other, that will never come; if they held telemetry, the first one's number.

    Their numbers are consecutive, too; None where there are none, or nobody knows them. A summary is one place, and
    `numbers` are those of all batches that it replaced.
    """

    first: Place
    last: Place
    reason: LossReason
    number: BatchNumber | None = None
    numbers: tuple[Range, ...] = ()

    @property
    def batches(self) -> tuple[Range, ...]:
        """The numbers of all batches, as ranges."""
        if self.numbers or self.number is None:
            return self.numbers
        return ((self.number, self.number + self.last - self.first),)

    def between(self, first: int, last: int) -> Gone | None:
        """Return the part that lies between two places, both included."""
        low, high = max(first, self.first), min(last, self.last)
        if low > high:
            return None
        number = None if self.number is None else BatchNumber(self.number + low - self.first)
        return Gone(Place(low), Place(high), self.reason, number, self.numbers)


def losses(spans: Sequence[IncarnationSpan], gone: Sequence[Gone]) -> Iterator[Loss]:
    """Yield the loss records of what is gone, in the numbers of their incarnations, as few as there may be."""
    for reason in LossReason:
        for span in spans:
            parts = [each.between(span.base + 1, span.last) for each in gone if each.reason is reason]
            incarnation = None if span is spans[-1] else span.incarnation
            places, numbers = SequenceSet(), SequenceSet()
            for part in parts:
                if part is None:
                    continue
                more = max(len(_ranges(places)) + 1, len(_ranges(numbers)) + len(part.batches))
                if more > MAXIMUM_LOSS_RANGES and places != SequenceSet():
                    yield Loss(reason, _ranges(places), _ranges(numbers), incarnation)
                    places, numbers = SequenceSet(), SequenceSet()
                places = places.add(part.first - span.base, part.last - span.base)
                numbers = numbers.including(part.batches)
            if places != SequenceSet():
                yield Loss(reason, _ranges(places), _ranges(numbers), incarnation)


def _ranges(numbers: SequenceSet) -> tuple[Range, ...]:
    return ((1, numbers.upto), *numbers.ranges) if numbers.upto else numbers.ranges
