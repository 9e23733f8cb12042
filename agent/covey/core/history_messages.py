"""The handlers of messages that carry what a group says."""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.events import EnvelopeDropped, Event, HistoryForked, HistoryGrew
from covey.core.history.history import History
from covey.core.link.records import CounterRecords
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.now import Now
from covey.core.outcome import Delivery, Handler, HandlerOutcome
from covey.core.wire.message import MessageType


class HistoryMessages:
    """Applies what members say in their groups."""

    def __init__(
        self,
        history: History,
        membership: Membership,
        maintenance: GroupMaintenance,
        counters: CounterRecords,
    ) -> None:
        self._history = history
        self._membership = membership
        self._maintenance = maintenance
        self._counters = counters

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {MessageType.OPERATIONS: self._operations, MessageType.HISTORY_PULL: self._pull}

    def _operations(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Take operations. Those that break a rule are dropped by themselves, and told of: the message goes on."""
        message = delivery.message
        taken, sends = self._history.receive(message, now)
        if taken.missing_manifest is not None:
            sends += self._maintenance.ask(self._membership.groups, message.group_id, message.author, now, behind=True)
        events: list[Event] = []
        if taken.accepted:
            events.append(HistoryGrew(message.group_id, message.author, len(taken.accepted)))
        events += [HistoryForked(message.group_id, author) for author in sorted(taken.forks)]
        for error in taken.refused:
            self._counters.count(f"dropped_operation_{error.code}")
            events.append(EnvelopeDropped(error.code, str(error), message.author))
        return HandlerOutcome(sends=tuple(sends), events=tuple(events))

    def _pull(self, delivery: Delivery, _now: Now) -> HandlerOutcome:
        return HandlerOutcome(sends=tuple(self._history.exchange.answer_pull(delivery.message)))
