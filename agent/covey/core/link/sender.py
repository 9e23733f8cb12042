"""Send messages: fill each recipient's window from its queue and seal each message into an envelope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, NoisePublic, Place
from covey.core.link.after_commit import AfterCommit
from covey.core.link.link_keys import SendingLinks
from covey.core.link.queued import Lane
from covey.core.link.sealer import Outgoing, Sealer
from covey.core.link.send_queue import SendQueue
from covey.core.link.send_window import SendLink
from covey.core.link.windows import Windows
from covey.core.now import Now
from covey.core.wire.message import NO_GROUP, MessageType, Resumption
from covey.limits.link import LINK_WINDOW_BYTES, LINK_WINDOW_MESSAGES

if TYPE_CHECKING:
    from covey.core.records import Records


class Sender:
    """The queues of all recipients on their way out."""

    def __init__(
        self,
        records: Records,
        queue: SendQueue,
        sealer: Sealer,
        windows: Windows,
        link_keys: SendingLinks,
        after_commit: AfterCommit,
    ) -> None:
        self._records = records
        self._queue = queue
        self._sealer = sealer
        self._windows = windows
        self._link_keys = link_keys
        self._after_commit = after_commit
        self._passes_over = False

    def refresh(self) -> None:
        """Load messages that another process has queued, or begun; drop those that it has removed from a queue."""
        for recipient, places in self._windows.in_flight():
            for first, last in self._records.outbox.missing(recipient, places):
                self._link_keys.withdrawn(recipient, first, last)
                self._windows.withdrawn(recipient, first, last)
        for recipient in self._records.outbox.recipients():
            self._windows.queue_grew(recipient)

    def envelopes(self, now: Now, wanted: Callable[[DeviceKey], bool] = lambda _: True) -> Iterator[Outgoing]:
        """Yield the messages to each wanted recipient in envelopes, control messages first; recipients take turns."""
        for link in self._windows.serving(wanted):
            yield from self._of(link, now)

    def pass_over(self) -> None:
        """Make `envelopes` continue with the next window: nothing more of this one fits for now."""
        self._passes_over = True

    def envelopes_to(self, recipient: DeviceKey, now: Now, at_most: int) -> Iterator[Outgoing]:
        """Yield the messages to one recipient in envelopes, with at most so many of a lane without an answer."""
        for link in self._windows.serving_one(recipient):
            yield from self._of(link, now, at_most)

    def _of(self, link: SendLink, now: Now, at_most: int | None = None) -> Iterator[Outgoing]:
        self._fill(link)
        entries = list(link.messages_to_send(at_most))
        if not entries and at_most is None and link.wanted() is None:
            self._windows.settled(link)
        address = self._sealer.address(link.recipient) if entries else None
        if address is not None:
            for entry in entries:
                self._windows.served(link)
                self._passes_over = False
                yield self._sealer.queued(link.recipient, entry, address, now)
                if self._passes_over:
                    break

    def _fill(self, link: SendLink) -> None:
        """Fill a window from its queue; live messages overtake a backlog (`send_window.py`, rule 8)."""
        recipient, outbox = link.recipient, self._records.outbox
        if link.lane is Lane.LIVE:
            link.begin_after(self._windows.backlog_upto(recipient))
        elsewhere = self._windows.live(recipient) if link.lane is Lane.BULK else ()
        while (wanted := link.wanted()) is not None:
            goes_on = link.offer(outbox.queued(recipient, *wanted, lane=link.lane), wanted, elsewhere)
            if link.lane is Lane.LIVE and link.exhausted:
                link.begin_after(self._last_place(recipient))  # what it is not to look through once more
            if not goes_on:
                break
        if link.lane is Lane.BULK:
            link.note_backlog(lambda: self._last_place(recipient))

    def _last_place(self, recipient: DeviceKey) -> Place:
        return Place(max((span.last for span in self._records.incarnations.spans(recipient)), default=0))

    def waiting(self, recipient: DeviceKey, after: Place) -> list[tuple[Place, bytes]]:
        """Return the next (place, message) of a queue as they go out: a window of them."""
        return self._records.outbox.queued(recipient, after, LINK_WINDOW_MESSAGES, LINK_WINDOW_BYTES)

    def exported(self, recipient: DeviceKey, after: Place) -> list[tuple[Place, bytes]]:
        """Return the next (place, envelope) of a recipient, for a carrier that is no relay: a window of them."""
        return [(place, self._sealer.seal(recipient, raw).envelope) for place, raw in self.waiting(recipient, after)]

    def resumptions(self, recipient: DeviceKey, now: Now) -> Iterator[bytes]:
        """Yield envelopes that tell a recipient what comes before all that waits for it, and never again."""
        for span in self._records.incarnations.spans(recipient):
            held = self._records.outbox.queued(recipient, Place(span.base), 1, 1)
            last = min(held[0][0] - 1, span.last) if held else span.last
            if last > span.base:
                body = Resumption(((1, last - span.base),)).to_wire()
                message = self._sealer.unsequenced(recipient, MessageType.RESUME, body, now, span.incarnation)
                yield self._sealer.seal(recipient, message).envelope

    def begin_links(self, may_link: Callable[[DeviceKey], bool], now: Now) -> None:
        """Queue a LINK for every peer that is worth one. Writes, so inside a transaction."""
        for recipient in self._link_keys.take_wanted():
            address = self._sealer.address(recipient)
            if address is not None and may_link(recipient):
                self._begin_link(recipient, address, now)

    def _begin_link(self, recipient: DeviceKey, address: NoisePublic, now: Now) -> None:
        link = self._link_keys.draw(recipient, self._records.incarnations.present())
        place = self._queue.queue(recipient, MessageType.LINK, NO_GROUP, link.to_wire(), now)
        self._after_commit(lambda: self._link_keys.begin(recipient, link, address, place, now.monotonic_us))
