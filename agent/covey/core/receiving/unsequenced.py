"""Process messages without a link sequence: each type has a handler, and none is acknowledged.

A relay may lose or repeat such a message, and handlers allow for it: an older message changes nothing, and another one
follows a lost one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from covey.core.content.exchange import ContentExchange
from covey.core.ephemeral.messages import EphemeralMessages
from covey.core.events import Event, NotUnderstood
from covey.core.history.exchange import HistoryExchange
from covey.core.history.heads import HeadsExchange
from covey.core.link.send_queue import SendQueue
from covey.core.mailbox.mailboxes import Mailboxes
from covey.core.membership.expiry import LeftGroups
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.presence.heartbeat import Heartbeat
from covey.core.receiving.acknowledgements import Acknowledgements
from covey.core.receiving.outcome import Reception, Seen
from covey.core.routing.forwarding import BoardRoutes, read_downward
from covey.core.wire.message import Message, MessageType
from covey.errors import NotAMemberError

_Handler = Callable[[Message, Now, bool], Reception]
"""Takes a message, the time, and whether a mailbox has kept it and would go on to."""


class UnsequencedMessages:
    """Hands each unsequenced message to the handler of its kind."""

    def __init__(
        self,
        groups: Groups,
        queue: SendQueue,
        events: deque[Event],
        *,
        acknowledgements: Acknowledgements,
        heartbeat: Heartbeat,
        heads: HeadsExchange,
        history: HistoryExchange,
        left: LeftGroups,
        ephemeral: EphemeralMessages,
        content: ContentExchange,
        mailboxes: Mailboxes,
        routes: BoardRoutes,
    ) -> None:
        self._groups = groups
        self._queue = queue
        self._events = events
        self._acknowledgements = acknowledgements
        self._heartbeat = heartbeat
        self._heads = heads
        self._history = history
        self._left = left
        self._ephemeral = ephemeral
        self._content = content
        self._mailboxes = mailboxes
        self._routes = routes
        self._handlers: Mapping[MessageType, _Handler] = {
            MessageType.ACK: self._acknowledgement,
            MessageType.RESUME: self._resumption,
            MessageType.PRESENCE: self._presence,
            MessageType.HEADS: self._heads_report,
            MessageType.EPHEMERAL: self._ephemeral_message,
            MessageType.MAILBOX: self._mailbox_message,
            MessageType.CONTENT_PULL: self._content_message,
            MessageType.CONTENT_PART: self._content_message,
        }

    def receive(self, message: Message, now: Now, *, kept: bool) -> Reception:
        """Deal with a message; `kept` says that a mailbox has kept it, and would go on to.

        Raises:
            RemoteError: it breaks its kind's rules.
        """
        # Whatever has no handler is read as an envelope for a board, and refused where it is none.
        return self._handlers.get(message.type, self._downward)(message, now, kept)

    def _acknowledgement(self, message: Message, now: Now, _kept: bool) -> Reception:
        hears = self._groups.hears(message.author)
        found = self._acknowledgements.acknowledge(message, now, hears=hears)
        self._heads.compare(message, now)
        if found is None:
            return Reception()
        if isinstance(found, NotUnderstood):
            self._events.append(found)
            found = Seen(message.author, news=True)
        if isinstance(found, Seen):
            self._mailboxes.seen(message.author)
            self._history.announcing.acknowledged(message.author)
            self._left.acknowledged(message.author)
            return Reception(seen=found, useful=True)
        self._events.append(found)  # the author has shown that this state is an old copy: no news of the author
        return Reception()

    def _resumption(self, message: Message, now: Now, _kept: bool) -> Reception:
        return Reception(useful=self._acknowledgements.resume(message, now))

    def _presence(self, message: Message, now: Now, _kept: bool) -> Reception:
        if not self._heartbeat.receive(self._groups, message, now):
            return Reception()
        self._heads.compare(message, now)
        return Reception(seen=Seen(message.author, news=True), useful=True)

    def _heads_report(self, message: Message, now: Now, _kept: bool) -> Reception:
        sends = self._heads.receive(message, now)
        self._queue.queue_all(sends, (), now)
        return Reception(useful=bool(sends))

    def _ephemeral_message(self, message: Message, now: Now, _kept: bool) -> Reception:
        self._ephemeral.receive(message, now)
        return Reception(useful=True)

    def _mailbox_message(self, message: Message, now: Now, _kept: bool) -> Reception:
        mailboxes = self._mailboxes.exchange
        if mailboxes is None:
            raise NotAMemberError("a MAILBOX in a group that has no mailbox")
        return Reception(useful=mailboxes.receive(message, now))

    def _content_message(self, message: Message, now: Now, _kept: bool) -> Reception:
        events = self._content.receive(message, now)
        self._events.extend(events or ())
        return Reception(useful=events is not None)

    def _downward(self, message: Message, _now: Now, kept: bool) -> Reception:
        forward = read_downward(self._groups, message)
        # A route holds one envelope until its board has taken it: the mailbox keeps what comes meanwhile.
        waits = kept and not self._routes.may_keep(message.author, forward.to)
        if not waits:
            self._routes.keep(message.author, forward)
        return Reception(useful=True, later=waits)
