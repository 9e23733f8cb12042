"""What a node does with an envelope that has come.

An envelope is dealt with in this order, and the first failure ends it:

    1. size, shape, decryption; shape of the message; its author has tokens left (`link/rates.py`); its signature; it
       names us as its recipient;
    2. the author may speak: a member of the group named, an address that this device knows for what belongs to a
       link, the inviter whose answer is awaited, or the bearer of an open invite (000.24);
    3. the link sequence is new (`link/receiver.py`);
       and its message is of the author's one life (`link/imprints.py`);
    4. the type's own rules: the handler of its type. An authentic message that breaks these is quarantined and
       acknowledged: the link goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.content.exchange import ContentExchange
from covey.core.crypto import NONCE_BYTES, Identity, NoiseKey
from covey.core.ephemeral.messages import EphemeralMessages
from covey.core.events import BlobArrived, EnvelopeDropped, Event
from covey.core.history.history import History
from covey.core.ids import DeviceKey
from covey.core.link.imprints import Imprints
from covey.core.link.link_keys import KeptKey, LinkKey, SendingLinks, open_envelope
from covey.core.link.queued import MessageClass, class_of
from covey.core.link.rates import ReceivingRates
from covey.core.link.receiver import Arrival, ReceiveLinks
from covey.core.link.send_queue import SendQueue
from covey.core.mailbox.mailboxes import Mailboxes
from covey.core.membership.asking_back import AskingBack
from covey.core.membership.authorisation import UNANSWERED, authorise
from covey.core.membership.expiry import LeftGroups
from covey.core.membership.heads import HeadsExchange
from covey.core.membership.membership import Membership
from covey.core.membership.notices import came_before, keep_answerable, leaves_what_was_lost, refuses_for_good
from covey.core.now import Now
from covey.core.presence.heartbeat import Heartbeat
from covey.core.receiving.acknowledgements import Acknowledgements
from covey.core.receiving.outcome import UNFORESEEN, Delivery, Handler, HandlerOutcome, Seen
from covey.core.routing.forwarding import BoardRoutes, Forward, check_forwarded, read_downward
from covey.core.wire.imprints import imprint_of
from covey.core.wire.message import Message, MessageType, read_message
from covey.errors import (
    InviteError,
    LimitError,
    NotAMemberError,
    NotForUsError,
    RateError,
    RemoteError,
    RollbackError,
    UnknownGroupError,
)
from covey.limits.history import BUNDLE_OPERATION_BYTES
from covey.limits.rate import DEFECT_TOKENS, NEWS_TOKENS, THROTTLED_TOKENS, WORTHLESS_TOKENS

if TYPE_CHECKING:
    from covey.core.records import Records

_PULLS = frozenset({MessageType.HISTORY_PULL, MessageType.GROUP_PULL})
_PERHAPS_LATER = (RateError, UnknownGroupError, NotAMemberError)
"""What another group manifest, or a while, may mend."""


@dataclass(frozen=True, slots=True)
class _Reception:
    """What became of an envelope: `taken` is false where there was no room for what it held.

    `useful` ones brought something: they cost their author little. `later`: it may be taken another time, as its author
    may speak then, or has tokens again, or a board may be there.
    """

    taken: bool = True
    seen: Seen | None = None
    useful: bool = False
    later: bool = False


@dataclass(frozen=True, slots=True)
class _Opened:
    """An authentic message for us; `sealed_for` is the noise key that opened it, None for one that came by a link."""

    message: Message
    sealed_for: NoiseKey | None


@dataclass(frozen=True, slots=True)
class ReceivingParts:
    """The machines that an envelope may concern."""

    rates: ReceivingRates
    membership: Membership
    links: ReceiveLinks
    imprints: Imprints
    link_keys: SendingLinks
    queue: SendQueue
    acknowledgements: Acknowledgements
    heartbeat: Heartbeat
    heads: HeadsExchange
    asking_back: AskingBack
    ephemeral: EphemeralMessages
    content: ContentExchange
    mailboxes: Mailboxes
    history: History
    left: LeftGroups
    routes: BoardRoutes


def _overtakes(message: Message, carrier: DeviceKey | None) -> bool:
    """Say whether a message may have been sent before others of lower numbers; a board sends its telemetry in order."""
    kind = class_of(message.type)
    return kind in {MessageClass.CONTROL, MessageClass.HISTORY} or (kind is MessageClass.TELEMETRY and carrier is None)


class Receiver:
    """Opens envelopes, and hands each new message to the handler of its type."""

    def __init__(
        self,
        identity: Identity,
        records: Records,
        rng: Callable[[int], bytes],
        parts: ReceivingParts,
        events: deque[Event],
        handlers: Mapping[MessageType, Handler],
    ) -> None:
        self._identity = identity
        self._records = records
        self._rng = rng
        self._parts = parts
        self._events = events
        self._handlers = {
            **handlers,
            MessageType.BLOB: self._blob,
            MessageType.LINK: self._link_key,
            MessageType.FORWARD: self._forward,
            MessageType.CONTENT_ACK: self._file_is_there,
        }

    def receive(self, raw: bytes, now: Now) -> Seen | None:
        """Deal with one envelope from a relay; return its author, where that one wants an answer or was seen."""
        return self._receive(raw, None, now).seen

    def receive_from(self, carrier: DeviceKey, raw: bytes, now: Now) -> bool:
        """Deal with an envelope that a gateway brought; return False where there is no room for it."""
        return self._receive(raw, carrier, now).taken

    def receive_kept(self, raw: bytes, now: Now) -> bool:
        """Deal with an envelope that a mailbox has kept; return False where it is to be kept on."""
        reception = self._receive(raw, None, now, kept=True)
        return reception.taken and not reception.later

    def take_manifests(self, message: Message, body: bytes, now: Now) -> None:
        """Deal with a body of GROUP_MANIFEST as if the author of another message had sent it so.

        Raises:
            RemoteError: it breaks the rules of manifests.
        """
        manifests = replace(message, type=MessageType.GROUP_MANIFEST, body=body)
        self._handle(Delivery(manifests, self._parts.links.of(message.author, message.incarnation)), now)

    def handle_set_aside(self, message: Message, now: Now) -> bool:
        """Deal with a message that was set aside by its type's rules; return False where there is no room for it.

        Raises:
            RemoteError: it breaks them still.
        """
        delivery = Delivery(message, self._parts.links.of(message.author, message.incarnation))
        return self._handle(delivery, now).taken

    def set_aside(self, raw: bytes, now: Now) -> DeviceKey | None:
        """Put the message of an envelope into quarantine, and go on with its link; return its author.

        For one that brought out a defect of ours, which nobody foresaw. What only speaks about a link, or has no right
        to speak, is dropped.
        """
        author = None
        try:
            message = self._open(raw, now).message
            author = message.author
            self._parts.rates.spend(author, DEFECT_TOKENS, now.monotonic_us)
            authorise(self._parts.membership, message, now.wall_us)
            link = self._parts.links.of(author, message.incarnation)
            if message.link_seq and link.classify(message.link_seq, overtakes=_overtakes(message, None)) is Arrival.NEW:
                self._records.quarantine.add(UNFORESEEN, message.raw, now.wall_us)
                self._records.counters.count(f"quarantined_{UNFORESEEN}")
                link.take(message.link_seq)
                self._parts.imprints.note(message, link)
                self._records.received.set(author, message.incarnation, link.received)
                link.answer_soon(now.monotonic_us, message.link_seq)
            else:
                self._records.counters.count(f"dropped_{UNFORESEEN}")
        except RemoteError as error:
            self._drop(error, author)
        return author

    def _open(self, raw: bytes, now: Now) -> _Opened:
        """Open an envelope, and check that the message in it is its author's, and for us.

        Raises:
            RemoteError: it does not open, or is not.
        """
        opened = open_envelope(raw, self._identity.noise, self._records.link_keys.find)

        def admit(author: DeviceKey) -> None:
            if self._parts.rates.exhausted(author, now.monotonic_us):
                raise RateError("more than one device may send in this time")

        message = read_message(opened.message, admit=admit)
        opened.check_author(message)
        if message.recipient != self._identity.signing_public:
            raise NotForUsError("the message names another recipient")
        return _Opened(message, opened.sealed_for)

    def _receive(self, raw: bytes, carrier: DeviceKey | None, now: Now, *, kept: bool = False) -> _Reception:
        payer = None
        try:
            opened = self._open(raw, now)
            payer = opened.message.author
            reception = self._take(opened, carrier, now, kept=kept)
            tokens = NEWS_TOKENS if reception.useful else WORTHLESS_TOKENS
        except RemoteError as error:
            reception = _Reception(later=isinstance(error, _PERHAPS_LATER))
            tokens = THROTTLED_TOKENS if isinstance(error, RateError) else WORTHLESS_TOKENS
            self._drop(error, payer)
        self._parts.rates.spend(payer, tokens, now.monotonic_us)
        return reception

    def _take(self, opened: _Opened, carrier: DeviceKey | None, now: Now, *, kept: bool) -> _Reception:
        """Deal with an authentic message.

        Raises:
            RemoteError: its author may not speak, or not so.
        """
        message, parts = opened.message, self._parts
        if carrier is not None:
            check_forwarded(parts.membership.groups, message, carrier)
        if message.type is MessageType.ACK:
            return self._receive_acknowledgement(message, now)
        if message.type is MessageType.HEADS and not parts.membership.groups.hears(message.author):
            return self._receive_heads(message, now)  # a former member may not know that it is one
        try:
            invite = authorise(parts.membership, message, now.wall_us)
        except UnknownGroupError:
            if not leaves_what_was_lost(parts.membership, message):
                parts.queue.queue_all(parts.asking_back.ask(message, now), (), now)
                raise
            invite = None
        except NotAMemberError:
            if not came_before(self._records, message):
                raise
            invite = None
        except InviteError as error:
            if not refuses_for_good(parts.membership, message):
                raise
            self._drop(error, message.author)
            parts.rates.spend(message.author, WORTHLESS_TOKENS, now.monotonic_us)
            invite = None
        parts.link_keys.note_seen(message.author)
        parts.content.seen(message.author, now)
        self._note_seen(message.author)
        if not message.link_seq:
            return self._receive_unsequenced(message, now, kept=kept)
        if carrier is not None:
            parts.links.make_room(message.author, message.incarnation)
        link = parts.links.of(message.author, message.incarnation)
        return self._receive_sequenced(Delivery(message, link, invite, opened.sealed_for), carrier, now)

    def _note_seen(self, author: DeviceKey) -> None:
        mailboxes = self._parts.mailboxes.exchange
        if mailboxes is not None:
            mailboxes.seen(author)

    def _drop(self, error: RemoteError, author: DeviceKey | None) -> None:
        self._records.counters.count(f"dropped_{error.code}")
        self._events.append(EnvelopeDropped(error.code, str(error), author))

    def _receive_acknowledgement(self, message: Message, now: Now) -> _Reception:
        hears = self._parts.membership.groups.hears(message.author)
        found = self._parts.acknowledgements.acknowledge(message, now, hears=hears)
        self._parts.heads.compare(message, now)
        if isinstance(found, Seen):
            self._note_seen(message.author)
            self._parts.history.exchange.announcing.acknowledged()
            self._parts.left.acknowledged(message.author)
        if found is None or isinstance(found, Seen):
            return _Reception(seen=found, useful=found is not None)
        self._events.append(found)
        return _Reception()

    def _receive_unsequenced(self, message: Message, now: Now, *, kept: bool) -> _Reception:
        parts = self._parts
        if message.type is MessageType.RESUME:
            return _Reception(useful=parts.acknowledgements.resume(message, now))
        if message.type is MessageType.PRESENCE:
            if parts.heartbeat.receive(parts.membership.groups, message, now):
                parts.heads.compare(message, now)
                return _Reception(seen=Seen(message.author, news=True), useful=True)
            return _Reception()
        if message.type is MessageType.HEADS:
            return self._receive_heads(message, now)
        if message.type in UNANSWERED:
            return self._receive_unanswered(message, now)
        forward = read_downward(parts.membership.groups, message)
        waits = kept and not parts.routes.may_keep(message.author, forward.to)
        if not waits:
            parts.routes.keep(message.author, forward)
        return _Reception(useful=True, later=waits)

    def _receive_unanswered(self, message: Message, now: Now) -> _Reception:
        if message.type is MessageType.EPHEMERAL:
            self._parts.ephemeral.receive(message, now)
            return _Reception(useful=True)
        if message.type is MessageType.MAILBOX:
            mailboxes = self._parts.mailboxes.exchange
            if mailboxes is None:
                raise NotAMemberError("a MAILBOX in a group that names none")
            return _Reception(useful=mailboxes.receive(message, now))
        events = self._parts.content.receive(message, now)
        self._events.extend(events or ())
        return _Reception(useful=events is not None)

    def _receive_heads(self, message: Message, now: Now) -> _Reception:
        sends = self._parts.heads.receive(message, now)
        self._parts.queue.queue_all(sends, (), now)
        return _Reception(useful=bool(sends))

    def _receive_sequenced(self, delivery: Delivery, carrier: DeviceKey | None, now: Now) -> _Reception:
        """Deal with a message of a link: each is taken once, and answered whenever it comes."""
        message, link = delivery.message, delivery.link
        known = Seen(message.author, news=False)
        try:
            arrival = link.classify(message.link_seq, overtakes=_overtakes(message, carrier))
        except LimitError as error:
            link.answer_soon(now.monotonic_us)  # it shows the sender where this link stands
            self._drop(error, message.author)
            return _Reception(seen=known, later=True)
        if carrier is None and self._parts.imprints.is_rival(message, link):  # a board begins anew with each start
            return self._refuse_rival(delivery, now)
        if carrier is not None and arrival is Arrival.DUPLICATE:
            self._parts.routes.brought(message.author, carrier, new=False)
        if arrival is Arrival.DUPLICATE:
            self._records.counters.count("duplicates")
            self._distrust_link_key(delivery)
            link.answer_soon(now.monotonic_us, message.link_seq)
            self._keep_answerable(message)
            return _Reception(seen=known)
        outcome = self._handle_or_quarantine(delivery, now)
        if not outcome.taken:
            self._records.counters.count("refused_full")
            return _Reception(taken=False, seen=known)
        if carrier is not None:
            self._parts.routes.brought(message.author, carrier, new=True)
        else:
            self._parts.imprints.note(message, link)
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
        return _Reception(seen=Seen(message.author, news=True), useful=True)

    def _keep_answerable(self, message: Message) -> None:
        if message.type is MessageType.GROUP_MANIFEST:
            keep_answerable(self._parts.membership.groups, self._records, message)

    def _distrust_link_key(self, delivery: Delivery) -> None:
        """Seal the answer to what is sent once more after it was answered: that answer may not have opened there."""
        message, keys = delivery.message, self._parts.link_keys
        if delivery.sealed_for is not None and delivery.link.has_answered(message.link_seq):
            keys.fail(message.author, keys.tag(message.author))

    def _refuse_rival(self, delivery: Delivery, now: Now) -> _Reception:
        """Take nothing of another life of an author, and tell it; what it hears makes it begin a new incarnation."""
        message, link = delivery.message, delivery.link
        self._distrust_link_key(delivery)
        link.refuse(message.link_seq, imprint_of(message.raw))
        link.answer_soon(now.monotonic_us, message.link_seq)
        self._drop(RollbackError("another life of its author has used this number"), message.author)
        return _Reception(seen=Seen(message.author, news=False))

    def _handle_or_quarantine(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        try:
            return self._handle(delivery, now)
        except RemoteError as error:
            message = delivery.message
            self._records.quarantine.add(error.code, message.raw, now.wall_us)
            self._records.counters.count(f"quarantined_{error.code}")
            self._events.append(EnvelopeDropped(error.code, str(error), message.author))
            self._parts.rates.spend(message.author, WORTHLESS_TOKENS, now.monotonic_us)
            return HandlerOutcome()

    def _handle(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Hand a new message to its type's handler, and carry out what that returns. Others' types mean nothing."""
        handler = self._handlers.get(delivery.message.type)
        outcome = HandlerOutcome() if handler is None else handler(delivery, now)
        membership = self._parts.membership
        self._parts.queue.queue_all(outcome.sends, membership.take_departed(), now, membership.groups.take_parted())
        self._parts.history.write_after_removals(membership.removals, now)
        self._events.extend(outcome.events)
        return outcome

    # -- the types that belong to no family ---------------------------------------------------------------------------

    def _blob(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        if not self._records.inbox.deliver(message, now.wall_us):
            return HandlerOutcome(taken=False)
        return HandlerOutcome(events=(BlobArrived(message.author, len(message.body)),))

    def _link_key(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Keep a link key that came sealed. Of one that did not, its author has no use (`link_keys.py`, rule 3)."""
        link = LinkKey.from_wire(delivery.message.author, delivery.message.body)
        if delivery.sealed_for is not None:
            kept = KeptKey.of(link, delivery.sealed_for, self._rng(NONCE_BYTES))
            self._records.link_keys.save(kept, now.wall_us)
        return HandlerOutcome()

    def _file_is_there(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        del now
        self._parts.content.acknowledge(delivery.message)
        return HandlerOutcome()

    def _forward(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        forward = Forward.from_wire(delivery.message.body)
        if forward.to != self._identity.signing_public:
            raise NotForUsError("a forwarded envelope for another device")
        return HandlerOutcome(taken=self.receive_from(delivery.message.author, forward.envelope, now))
