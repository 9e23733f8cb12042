"""Which message used each recent number, so that a second incarnation of its author shows (docs/protocol/groups.md,
section 20).

A state that was restored without noticing reuses numbers that its lost copy has used. Rules:

    1. For the newest numbers of each link, the message's imprint and its `seq` are kept; also for those beyond holes in
       what arrived, and around the end of the contiguous run, as many as an author may have in flight.
    2. A message is a rival if its number belongs to another one, or if its `seq` does not fit between those of its
       neighbours: in one incarnation both numbers rise together. A rival is neither accepted nor a duplicate.
    3. Acknowledgements name received messages by imprints, and a sender forgets nothing else. They also name refused
       messages, and report numbers that a resumption or a loss record closed as empty. A relay that repeats an old
       envelope repeats its imprint, so it raises no suspicion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.queued import Imprint
from covey.core.link.receiver import ReceiveLink
from covey.core.wire.imprints import NOTHING, UNKNOWN, imprint_of
from covey.core.wire.message import Acknowledgement, Message
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import (
    IMPRINTS_KEPT,
    IMPRINTS_REPEATED,
    MAXIMUM_ACKNOWLEDGED_RANGES,
    MAXIMUM_IMPRINTS,
    RETRY_US_MAX,
)

if TYPE_CHECKING:
    from covey.core.records.link import ImprintRecords, ReceivedRecords


class Imprints:
    """Judges what comes by what has come, and names it in acknowledgements."""

    def __init__(self, records: ImprintRecords, received: ReceivedRecords) -> None:
        self._records = records
        self._received = received
        self._begun_us: int | None = None

    def note(self, message: Message, link: ReceiveLink) -> None:
        """Keep a message's imprint: its link takes it. Writes, so inside a transaction."""
        imprint = Imprint(message.link_seq, message.seq, imprint_of(message.raw))
        self._records.note(message.author, message.incarnation, imprint, link.received)

    def is_rival(self, message: Message, link: ReceiveLink) -> bool:
        """Say whether another life of its author wrote a message (rule 2)."""
        whose, number = (message.author, message.incarnation), message.link_seq
        held = self._records.of(*whose, number)
        if held is not None:
            return held.imprint != imprint_of(message.raw)
        if number in link.received:
            return False
        before = self._records.before(*whose, number)
        if before is not None and message.seq - before.seq < number - before.link_seq:
            return True
        after = self._records.after(*whose, number) if number < link.received.highest() else None
        return after is not None and after.seq - message.seq < after.link_seq - number

    def repeated(self, link: ReceiveLink, now_us: int) -> int:
        """Return how many of the newest numbers the next acknowledgement names, new ones included.

        A new node does not know which numbers the one before had still to name, so it begins by repeating some.
        """
        if self._begun_us is None:
            self._begun_us = now_us
        new = len(link.to_name(IMPRINTS_REPEATED))
        return IMPRINTS_REPEATED if now_us < self._begun_us + RETRY_US_MAX or not new else new

    def acknowledgement(
        self, author: DeviceKey, incarnation: Incarnation, link: ReceiveLink, repeated: int
    ) -> Acknowledgement:
        """Return what a link's author is told (rule 3): what is new, and so many of the newest once more."""
        durable = link.acknowledgement()
        received = SequenceSet(durable.upto, durable.ranges[:MAXIMUM_ACKNOWLEDGED_RANGES])
        highest = LinkSeq(link.received.highest())
        newest = self._records.newest(author, incarnation, repeated, highest)
        imprints = {each.link_seq: each.imprint for each in newest}
        for number in link.to_name(MAXIMUM_IMPRINTS - repeated):
            if number not in imprints:
                imprints[number] = self._imprint(author, incarnation, number, highest)
        imprints = {number: imprint for number, imprint in imprints.items() if number in received}
        refused = {number: imprint for number, imprint in link.refused.items() if number not in received}
        unsupported = tuple(sorted(number for number in link.unsupported if number in received))
        return Acknowledgement(incarnation, received, imprints | refused, unsupported)

    def _imprint(self, author: DeviceKey, incarnation: Incarnation, number: LinkSeq, highest: LinkSeq) -> bytes:
        held = self._records.of(author, incarnation, number)
        if held is not None:
            return held.imprint
        if number in self._received.resumed(author, incarnation):
            return NOTHING
        return NOTHING if self._would_be_kept(author, incarnation, number, highest) else UNKNOWN

    def _would_be_kept(self, author: DeviceKey, incarnation: Incarnation, number: LinkSeq, highest: LinkSeq) -> bool:
        """Return whether the imprint of a number would be kept; without one nothing was received under it."""
        if self._records.before(author, incarnation, number) is None:
            return False
        return all(
            each.link_seq - number < IMPRINTS_KEPT for each in self._records.newest(author, incarnation, 1, highest)
        )
