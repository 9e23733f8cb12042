"""What a node sends: messages into the outbox, envelopes out of it, one link for each recipient.

A link sequence here is a place in the recipient's queue, counted on through incarnations (`link/incarnations.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.messages import GroupSend
from covey.core.ids import INCARNATION_BYTES
from covey.core.link.incarnations import losses, span_of
from covey.core.link.link_keys import LinkTerms, SendingLinks
from covey.core.link.records import MessageClass, SenderRecords
from covey.core.link.send_window import InFlight, Jitter, SendLink
from covey.core.now import Now
from covey.core.telemetry.batch import numbered
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, LossReason, MessageType, Resumption, write_message
from covey.core.wire.sequences import Range, SequenceSet
from covey.core.wire.topics import inbox_topic
from covey.limits import (
    EXPIRED_AT_ONCE,
    LINK_WINDOW_BYTES,
    LINK_WINDOW_MESSAGES,
    MAXIMUM_COUNTER,
    MESSAGE_OVERHEAD_BYTES,
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One envelope for the relay. Tell `Node.sent` when the relay took it; an acknowledgement has no `entry`."""

    topic: str
    envelope: bytes = field(repr=False)
    recipient: bytes
    entry: InFlight | None


_CLASSES = {
    MessageType.BLOB: MessageClass.DATA,
    MessageType.GROUP_MANIFEST: MessageClass.CONTROL,
    MessageType.GROUP_PULL: MessageClass.CONTROL,
    MessageType.GROUP_VOTE: MessageClass.CONTROL,
    MessageType.GROUP_INVITE: MessageClass.CONTROL,
    MessageType.REVOKE: MessageClass.CONTROL,
    MessageType.JOIN: MessageClass.CONTROL,
    MessageType.LINK: MessageClass.CONTROL,
    MessageType.TELEMETRY: MessageClass.TELEMETRY,
    MessageType.LOSS: MessageClass.CONTROL,
    MessageType.FORWARD: MessageClass.TELEMETRY,
    MessageType.COLLECTOR_KEY: MessageClass.CONTROL,
    MessageType.REDIRECTED: MessageClass.TELEMETRY,
}


class Sending:
    """The sending half of a node. What is durable is in `records`; links can be lost at any time.

    `address` gives a device's noise key, None for a device that nothing is sent to.
    """

    def __init__(
        self,
        identity: Identity,
        records: SenderRecords,
        address: Callable[[bytes], bytes | None],
        rng: Callable[[int], bytes],
        jitter: Jitter,
        link_terms: LinkTerms,
    ) -> None:
        self._identity = identity
        self._records = records
        self._address = address
        self._rng = rng
        self._jitter = jitter
        self.link_keys = SendingLinks(identity.signing_public, rng, link_terms)
        self._links: dict[bytes, SendLink] = {}
        self._acknowledged: list[tuple[bytes, SequenceSet]] = []
        self._withdrawn: list[tuple[bytes, int, int]] = []
        self._incarnation = records.incarnations.present()
        self._renewed = False
        self._connected = False
        self.telemetry_lifetime_us: int | None = None
        self._aged_at_us: int | None = None

    @property
    def incarnation(self) -> bytes:
        """This device's present incarnation; another process may have begun it."""
        return self._records.incarnations.present()

    def refresh(self) -> None:
        """Take up what another process has queued, or begun."""
        present = self._records.incarnations.present()
        if present != self._incarnation:  # what is in flight may have to be signed anew
            self._incarnation = present
            self._links.clear()
        for recipient in self._records.outbox.recipients():
            self._link(recipient).queue_grew()

    def rolled_back(self) -> None:
        """Take back what was not committed. What is in flight stays so: a disk that refuses must not have everything
        sent again at each attempt."""
        self._acknowledged.clear()
        self._withdrawn.clear()
        self._renewed = False
        self.link_keys.rolled_back()

    # -- into the outbox ----------------------------------------------------------------------------------------------

    def queue(
        self,
        recipient: bytes,
        kind: MessageType,
        group_id: bytes,
        body: bytes,
        now: Now,
        number: int | None = None,
        *,
        beyond: bool = False,
        lifetime_us: int | None = None,
    ) -> None:
        """Queue a message, perhaps `beyond` the outbox's bound; `number` is the one that stands in a batch's body.

        Without a lifetime it waits until it is acknowledged. A batch has the one of all telemetry.

        Raises:
            LocalError: the outbox is full: then the caller rolls back.
        """
        seq, link_seq = self._records.outbox.allocate(recipient)
        message = write_message(
            self._identity, kind, recipient, group_id, self.incarnation, seq, link_seq, now.wall_us, body
        )
        self._records.outbox.queue(
            recipient, seq, link_seq, _CLASSES[kind], message, now.wall_us, number, beyond=beyond
        )
        lifetime_us = self.telemetry_lifetime_us if kind is MessageType.TELEMETRY else lifetime_us
        if lifetime_us is not None:
            self._records.outbox.limit_life(recipient, link_seq, lifetime_us)
        self._link(recipient).queue_grew()

    def queue_batch(self, recipient: bytes, group_id: bytes, batch: bytes, now: Now) -> None:
        """Queue a telemetry batch under its author's next number; room is made as by `queue_telemetry`."""
        number = self._records.outbox.allocate_number()
        self.queue_telemetry(recipient, MessageType.TELEMETRY, group_id, numbered(number, batch), now, number)

    def queue_telemetry(
        self, recipient: bytes, kind: MessageType, group_id: bytes, body: bytes, now: Now, number: int | None = None
    ) -> None:
        """Queue a message of telemetry. Where the outbox is full, the oldest goes, and a signed record says so."""
        dropped = self._records.outbox.make_room(recipient, len(body) + MESSAGE_OVERHEAD_BYTES)
        self.queue(recipient, kind, group_id, body, now, number)
        if dropped:
            self._lost(recipient, dropped, now)

    def queue_all(self, sends: Iterable[GroupSend], departed: Iterable[bytes], now: Now) -> None:
        """Queue what a change of a group makes necessary; what waits for those who left is withdrawn.

        Those who are not even told that they are out, as boards, are told of no loss either.
        """
        for recipient in departed:
            if self._address(recipient) is None:
                self.forget(recipient)
                continue
            self._lost(recipient, self._records.outbox.withdraw_all(recipient), now)
        for each in sends:
            self.queue(each.recipient, each.type, each.group_id, each.body, now)

    def withdraw(
        self, recipient: bytes, link_seq: int, now: Now, code: str = "too_large", *, tell: bool = True
    ) -> None:
        """Set a message aside that nobody would carry or take; its recipient is told, if it may be."""
        reason = LossReason.DAMAGED if code == "too_large" else LossReason.EXPIRED
        if self._records.outbox.withdraw(recipient, link_seq, code, now.wall_us, reason if tell else None):
            self._lost(recipient, [(link_seq, link_seq)], now)

    def forget(self, recipient: bytes, *, but_telemetry: bool = False) -> int:
        """Forget whatever waits for a recipient; return how many messages that was."""
        self._withdrawn.append((recipient, 0, MAXIMUM_COUNTER))
        return self._records.outbox.forget(recipient, but_telemetry=but_telemetry)

    def waiting(self, recipient: bytes, after: int) -> list[tuple[int, bytes]]:
        """Return the next (place, message) of a queue as they go out: a window of them."""
        rows = self._records.outbox.queued(recipient, after, LINK_WINDOW_MESSAGES, LINK_WINDOW_BYTES)
        return self._as_sent(recipient, rows)

    def moved(self, recipient: bytes, place: int) -> None:
        """Take a message out of a queue, as it goes another way; its link hears of a resumption where it asks."""
        self._withdrawn.append((recipient, place, place))
        self._records.outbox.remove(recipient, place)

    def redirect(
        self, recipient: bytes, place: int, to: bytes, group_id: bytes, content: bytes, number: int | None, now: Now
    ) -> None:
        """Queue for another collector what waits for one; the outbox may exceed its bound by what that adds."""
        self.moved(recipient, place)
        self.queue(to, MessageType.REDIRECTED, group_id, content, now, number, beyond=True)

    def expire(self, now: Now) -> bool:
        """Let go of what has outlived its lifetime; return whether there is more. Writes, so inside a transaction.

        Age is counted by the monotonic clock, and while this runs: a wall clock that jumps ends nothing.
        """
        elapsed_us = 0 if self._aged_at_us is None else now.monotonic_us - self._aged_at_us
        self._aged_at_us = now.monotonic_us
        self._records.outbox.grow_older(elapsed_us)
        expired = self._records.outbox.expire()
        for recipient, places in expired:
            self._lost(recipient, places, now)
        return sum(last - first + 1 for _, places in expired for first, last in places) >= EXPIRED_AT_ONCE

    def report_losses(self, now: Now) -> None:
        """Queue signed records of what is lost and may be told now. Writes, so inside a transaction."""
        for recipient in self._records.losses.recipients():
            self._report_losses(recipient, now)

    def _lost(self, recipient: bytes, places: list[Range], now: Now) -> None:
        """Note that some places of a queue never come; the store remembers what is to be told of them."""
        self._withdrawn += [(recipient, first, last) for first, last in places]
        self._report_losses(recipient, now)

    def _report_losses(self, recipient: bytes, now: Now) -> None:
        gone = self._records.losses.unreported(recipient)
        if gone:
            for loss in losses(self._records.incarnations.spans(recipient), gone):
                self.queue(recipient, MessageType.LOSS, NO_GROUP, loss.to_wire(), now)
            self._records.losses.reported(recipient, gone[-1].last)

    def free(self, recipient: bytes, received: SequenceSet, now: Now) -> int:
        """Delete the places that a recipient has, and return how many messages that were.

        Its link forgets them once that is committed. It may have been told of one loss now, and hear of the next.
        """
        freed = self._records.outbox.free(recipient, received)
        self._acknowledged.append((recipient, received))
        if freed:
            self._report_losses(recipient, now)
        return freed

    def doubt(self, recipient: bytes, now: Now) -> bool:
        """Begin another incarnation, as a recipient has shown that the present one had another life (rule 2)."""
        doubted = self._records.incarnations.replace(recipient, self._rng(INCARNATION_BYTES), now.wall_us)
        self._renewed |= doubted
        return doubted

    def forget_committed(self, now: Now) -> None:
        """Let the links forget what a commit has freed; before it, a failure would leave messages that none sends."""
        if self._renewed:
            self._renewed = False
            self.refresh()
        for recipient, received in self._acknowledged:
            self.link_keys.acknowledged(recipient, received)
            link = self._links.get(recipient)
            if link is not None:
                link.receive_acknowledgement(received, now.monotonic_us)
        self._acknowledged.clear()
        for recipient, first, last in self._withdrawn:
            self.link_keys.withdrawn(recipient, first, last)
            link = self._links.get(recipient)
            if link is not None:
                link.withdraw(first, last)
        self._withdrawn.clear()

    # -- out of it ----------------------------------------------------------------------------------------------------

    def envelopes(self, now: Now) -> Iterator[Outgoing]:
        """Yield each link's messages in envelopes; a link that was served goes to the end of the queue."""
        for link in list(self._links.values()):
            wanted = link.wanted()
            if wanted is not None:
                link.offer(self._as_sent(link.recipient, self._records.outbox.queued(link.recipient, *wanted)), wanted)
            address = self._address(link.recipient)
            if address is not None:
                for entry in link.messages_to_send():
                    self._links[link.recipient] = self._links.pop(link.recipient)
                    yield self._enveloped(link.recipient, entry, address, now)
            if link.idle:
                del self._links[link.recipient]

    def _as_sent(self, recipient: bytes, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return queued messages as they go out; each must be its place's own (`link/incarnations.py`, rule 2)."""
        spans = self._records.incarnations.spans(recipient)
        if not any(span.anew for span in spans):
            return rows
        return [(place, span_of(spans, place).as_sent(place, raw, self._identity)) for place, raw in rows]

    def carried(self, recipient: bytes, after: int) -> list[tuple[int, bytes]]:
        """Return the next (place, envelope) of a recipient, for a carrier that is no relay: a window of them."""
        return [(place, self.seal(recipient, raw).envelope) for place, raw in self.waiting(recipient, after)]

    def resumptions(self, recipient: bytes, now: Now) -> Iterator[bytes]:
        """Yield envelopes that tell a recipient what comes before all that waits for it, and never again."""
        for span in self._records.incarnations.spans(recipient):
            held = self._records.outbox.queued(recipient, span.base, 1, 1)
            last = min(held[0][0] - 1, span.last) if held else span.last
            if last > span.base:
                body = Resumption(((1, last - span.base),)).to_wire()
                message = self.unsequenced(recipient, MessageType.RESUME, body, now, span.incarnation)
                yield self.seal(recipient, message).envelope

    def unsequenced(
        self, recipient: bytes, kind: MessageType, body: bytes, now: Now, incarnation: bytes | None = None
    ) -> bytes:
        """Return a signed message about a link, which no outbox keeps."""
        life = incarnation or self.incarnation
        return write_message(self._identity, kind, recipient, NO_GROUP, life, 0, 0, now.wall_us, body)

    def _enveloped(self, recipient: bytes, entry: InFlight, address: bytes, now: Now) -> Outgoing:
        """Return a queued message's envelope (`link_keys.py`, rules 3 and 4)."""
        if entry.sends:
            self.link_keys.end(recipient)
        elif not self.link_keys.is_link(recipient, entry.link_seq):
            return self.by_link(recipient, entry.message, address, now, entry)
        return self.seal(recipient, entry.message, entry, address)

    def by_link(
        self, recipient: bytes, message: bytes, address: bytes, now: Now, entry: InFlight | None = None
    ) -> Outgoing:
        """Return a message's envelope under the recipient's link key, or sealed where there is none."""
        envelope = self.link_keys.seal(recipient, message, address, now.monotonic_us)
        if envelope is None:
            return self.seal(recipient, message, entry, address)
        return Outgoing(inbox_topic(recipient), envelope, recipient, entry)

    def begin_links(self, may_link: Callable[[bytes], bool], now: Now) -> None:
        """Queue a LINK for everybody with whom one is worth it. Writes, so inside a transaction."""
        for recipient in self.link_keys.take_wanted():
            address = self._address(recipient)
            if address is not None and may_link(recipient):
                link = self.link_keys.draw()
                self.queue(recipient, MessageType.LINK, NO_GROUP, link.to_wire(), now)
                place = self._records.incarnations.spans(recipient)[-1].last
                self.link_keys.begin(recipient, link, address, place, now.monotonic_us)

    def seal(
        self, recipient: bytes, message: bytes, entry: InFlight | None = None, address: bytes | None = None
    ) -> Outgoing:
        """Return a message's envelope, for a device that has an address: the one given, or the one known."""
        address = address or self._address(recipient)
        assert address is not None
        envelope = seal(message, address, self._rng(32), self._rng(crypto.NONCE_BYTES))
        return Outgoing(inbox_topic(recipient), envelope, recipient, entry)

    def sent(self, outgoing: Outgoing, now: Now, relay: str = "") -> None:
        """Note that a relay took an envelope."""
        link = self._links.get(outgoing.recipient)
        if link is not None and outgoing.entry is not None:
            link.sent(outgoing.entry, now.monotonic_us, relay)

    def relayed(self, recipient: bytes, link_seq: int) -> None:
        """Note that the relay says it has stored an envelope."""
        link = self._links.get(recipient)
        if link is not None:
            link.relayed(link_seq)

    def connected(self, now: Now) -> None:
        """Note that the relay can be reached."""
        self._connected = True
        for link in self._links.values():
            link.connected(now.monotonic_us)

    def connection_lost(self, relay: str | None = None) -> None:
        """Note that a relay cannot be reached any more; without a name, that none can."""
        self._connected = self._connected and relay is not None
        for link in self._links.values():
            link.connection_lost(relay)

    def retries(self, recipient: bytes) -> int:
        """Return how often in a row a recipient has left the retry time without an answer."""
        link = self._links.get(recipient)
        return 0 if link is None else link.retries

    def deadlines(self) -> list[int | None]:
        """Return when links want to be called, in monotonic microseconds."""
        return [link.next_deadline() for link in self._links.values()]

    def handle_deadline(self, now: Now) -> None:
        """Begin the retries that are due."""
        self.forget_committed(now)
        if self._connected:
            for link in self._links.values():
                link.handle_deadline(now.monotonic_us, self._jitter)

    @property
    def is_connected(self) -> bool:
        """Whether the relay can be reached."""
        return self._connected

    def _link(self, recipient: bytes) -> SendLink:
        link = self._links.get(recipient)
        if link is None:
            link = self._links[recipient] = SendLink(recipient)
        return link
