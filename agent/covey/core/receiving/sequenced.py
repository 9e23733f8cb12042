"""Process messages of a link: accept each once, acknowledge every copy, and call the type's handler."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from covey.core.events import Event
from covey.core.history.history import History
from covey.core.ids import DeviceKey
from covey.core.link.imprints import Imprints
from covey.core.link.link_keys import SendingLinks
from covey.core.link.queued import MessageClass, class_of
from covey.core.link.rates import ReceivingRates
from covey.core.link.receiver import Arrival, ReceiveLinks
from covey.core.link.send_queue import SendQueue
from covey.core.membership.membership import Membership
from covey.core.membership.notices import keep_answerable
from covey.core.now import Now
from covey.core.receiving.outcome import UNFORESEEN, Delivery, Drops, Handler, HandlerOutcome, Reception, Seen
from covey.core.routing.forwarding import BoardRoutes
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import Message, MessageType
from covey.errors import LimitError, RemoteError, RollbackError, UnsupportedError
from covey.limits.history import BUNDLE_OPERATION_BYTES
from covey.limits.rate import WORTHLESS_TOKENS

if TYPE_CHECKING:
    from covey.core.records import Records

_PULLS = frozenset({MessageType.HISTORY_PULL, MessageType.GROUP_PULL})


def _overtakes(message: Message, carrier: DeviceKey | None) -> bool:
    """Return whether a message may be sent ahead of lower numbers; a board sends its telemetry in order."""
    kind = class_of(message.type)
    return kind in {MessageClass.CONTROL, MessageClass.HISTORY} or (kind is MessageClass.TELEMETRY and carrier is None)


class SequencedMessages:
    """Takes each message of a link once, and hands it to the handler of its kind."""

    def __init__(
        self,
        records: Records,
        queue: SendQueue,
        events: deque[Event],
        drops: Drops,
        handlers: Mapping[MessageType, Handler],
        *,
        rates: ReceivingRates,
        membership: Membership,
        history: History,
        links: ReceiveLinks,
        imprints: Imprints,
        link_keys: SendingLinks,
        routes: BoardRoutes,
    ) -> None:
        self._records = records
        self._queue = queue
        self._events = events
        self._drops = drops
        self._handlers = handlers
        self._rates = rates
        self._membership = membership
        self._history = history
        self._links = links
        self._imprints = imprints
        self._link_keys = link_keys
        self._routes = routes

    def receive(self, delivery: Delivery, carrier: DeviceKey | None, now: Now) -> Reception:
        """Deal with a message that its author may send; `carrier` is the gateway that brought it, if one did."""
        message, link = delivery.message, delivery.link
        known = Seen(message.author, news=False)
        try:
            arrival = link.classify(message.link_seq, overtakes=_overtakes(message, carrier))
        except LimitError as error:
            link.answer_soon(now.monotonic_us)  # it shows the sender where this link stands
            self._drops.note(error, message.author)
            return Reception(seen=known, later=True)
        # A board begins anew with each start, so its numbers prove no second life.
        if carrier is None and self._imprints.is_rival(message, link):
            return self._refuse_rival(delivery, now)
        if arrival is Arrival.DUPLICATE:
            self._answer_duplicate(delivery, carrier, now)
            return Reception(seen=known)
        outcome = self._handle_or_quarantine(delivery, now)
        if not outcome.taken:
            self._records.counters.count("refused_full")
            return Reception(taken=False, seen=known)
        self._note_taken(delivery, carrier, outcome, now)
        return Reception(seen=Seen(message.author, news=True), useful=True)

    def set_aside(self, message: Message, now: Now) -> bool:
        """Quarantine a new message without handling it, and continue its link; False for any other."""
        link = self._links.of(message.author, message.incarnation)
        if link.classify(message.link_seq, overtakes=_overtakes(message, None)) is not Arrival.NEW:
            return False
        self._records.quarantine.add(UNFORESEEN, message.raw, now.wall_us, message.author)
        self._records.counters.count(f"quarantined_{UNFORESEEN}")
        link.take(message.link_seq)
        self._imprints.note(message, link)
        self._records.received.set(message.author, message.incarnation, link.received)
        link.answer_soon(now.monotonic_us, message.link_seq)
        return True

    def handle(self, message: Message, now: Now) -> HandlerOutcome:
        """Hand a message to its kind's handler outside the order of its link: it was taken before, or came in another.

        Raises:
            RemoteError: it breaks its kind's rules.
        """
        return self._handle(Delivery(message, self._links.of(message.author, message.incarnation)), now)

    def _answer_duplicate(self, delivery: Delivery, carrier: DeviceKey | None, now: Now) -> None:
        message, link = delivery.message, delivery.link
        if carrier is not None:
            self._routes.brought(message.author, carrier, new=False)
        self._records.counters.count("duplicates")
        if message.newer:
            link.cannot_use(message.link_seq)  # the acknowledgement that said so may have been lost
        if message.link_seq not in link.unlanded:
            self._distrust_link_key(delivery)
        link.answer_soon(now.monotonic_us, message.link_seq)
        self._keep_answerable(message)

    def _note_taken(self, delivery: Delivery, carrier: DeviceKey | None, outcome: HandlerOutcome, now: Now) -> None:
        message, link = delivery.message, delivery.link
        if carrier is not None:
            self._routes.brought(message.author, carrier, new=True)
        else:
            self._imprints.note(message, link)
        link.take(message.link_seq, lands_later=outcome.lands_later)
        self._records.received.set(message.author, message.incarnation, link.received)
        self._records.presence.seen(message.author, now.wall_us)
        if not outcome.lands_later:
            link.answer_soon(now.monotonic_us, message.link_seq)
            if 2 * len(message.body) > BUNDLE_OPERATION_BYTES and any(
                each.recipient == message.author and each.type in _PULLS for each in outcome.sends
            ):
                link.make_due(now.monotonic_us)  # who gives much waits to hear that what it gave before was taken
        self._keep_answerable(message)

    def _keep_answerable(self, message: Message) -> None:
        if message.type is MessageType.GROUP_MANIFEST:
            keep_answerable(self._membership.groups, self._records, message)

    def _distrust_link_key(self, delivery: Delivery) -> None:
        """Seal the next answer to a message, if none is due: the one that went may not have opened there."""
        author, keys = delivery.message.author, self._link_keys
        if delivery.sealed_for is not None and delivery.link.next_deadline() is None:
            keys.fail(author, keys.tag(author))

    def _refuse_rival(self, delivery: Delivery, now: Now) -> Reception:
        """Refuse a message of another incarnation, and report that, so that its author begins a new one."""
        message, link = delivery.message, delivery.link
        self._distrust_link_key(delivery)
        link.refuse(message.link_seq, imprint_of(message.raw))
        link.answer_soon(now.monotonic_us, message.link_seq)
        self._drops.note(RollbackError("another incarnation of the author has used this number"), message.author)
        return Reception(seen=Seen(message.author, news=False))

    def _handle_or_quarantine(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        try:
            return self._handle(delivery, now)
        except RemoteError as error:
            message = delivery.message
            self._records.quarantine.add(error.code, message.raw, now.wall_us, message.author)
            self._drops.note(error, message.author, "quarantined")
            if isinstance(error, UnsupportedError):
                delivery.link.cannot_use(message.link_seq)  # its author is newer, not hostile: it pays nothing for that
            else:
                self._rates.spend(message.author, WORTHLESS_TOKENS, now.monotonic_us)
            return HandlerOutcome()  # taken: an error of its author's must not hold up the link

    def _handle(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Hand a new message to its type's handler, and apply the outcome; unknown types have none."""
        if delivery.message.newer:
            raise UnsupportedError(delivery.message.newer)
        handler = self._handlers.get(delivery.message.type)
        outcome = HandlerOutcome() if handler is None else handler(delivery, now)
        membership = self._membership
        self._queue.queue_all(outcome.sends, membership.take_departed(), now, membership.groups.take_parted())
        self._history.write_after_removals(membership.removals, now)
        self._events.extend(outcome.events)
        return outcome
