"""A queue over several incarnations of its device: which of its places go under which numbers on the wire.

A device whose state was restored or salvaged draws a new incarnation, so that it never gives a number twice. What
waited before keeps its place in the queue. Rules (docs/protocol.md, "Restored and damaged states"):

    1. A message that was queued before is sent as it was signed, under its own incarnation: a recipient that has it
       already takes it for the duplicate that it is.
    2. Only where its own number is in doubt (a recipient acknowledges what this state never queued, so another life of
       the device has used the number for something else) it is signed anew, for the incarnation that follows. The
       signature is deterministic: it is the same message at each sending.
    3. An acknowledgement speaks for one incarnation and frees its places only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.core.crypto import Identity
from agent.core.message import Loss, LossReason, MessageType, read_message, write_message
from agent.core.sequences import Range, SequenceSet


@dataclass(frozen=True, slots=True)
class Era:
    """The places `base` + 1 to `last` of one recipient's queue: its messages of one incarnation.

    Places up to `anew` hold messages that were signed for an earlier incarnation (rule 2).
    """

    incarnation: bytes
    base: int
    last: int
    anew: int = 0

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

    def as_sent(self, place: int, raw: bytes, identity: Identity) -> bytes:
        """Return a queued message as it goes out (rules 1 and 2)."""
        if place > self.anew:
            return raw
        message = read_message(raw, verify=False)
        body = message.body
        if message.type is MessageType.LOSS:
            loss = Loss.from_wire(body)
            body = Loss(loss.first, loss.last, loss.reason, loss.incarnation or message.incarnation).to_wire()
        return write_message(
            identity,
            message.type,
            message.recipient,
            message.group_id,
            self.incarnation,
            message.seq,
            place - self.base,
            message.sent_at_us,
            body,
        )


def era_of(eras: Sequence[Era], place: int) -> Era:
    """Return the era that a place belongs to; the last one is the present."""
    return next((era for era in eras if place <= era.last), eras[-1])


def losses(eras: Sequence[Era], places: Sequence[Range], reason: LossReason) -> Iterator[Loss]:
    """Yield what to tell of places that will never come, in the numbers of their incarnations."""
    present = eras[-1]
    for first, last in places:
        for era in eras:
            low, high = max(first, era.base + 1), min(last, era.last)
            if low <= high:
                yield Loss(low - era.base, high - era.base, reason, None if era is present else era.incarnation)
