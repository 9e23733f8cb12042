"""Handlers of history messages and of reports about orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from covey.core.actions.received import ReceivedResults
from covey.core.actions.results import OrderResult
from covey.core.checkpoints.newcomers import Newcomers
from covey.core.events import EnvelopeDropped, Event, HistoryForked, HistoryGrew
from covey.core.group.messages import GroupSend
from covey.core.history.history import History, Taken
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.now import Now
from covey.core.receiving.outcome import Delivery, Handler, HandlerOutcome
from covey.core.settings.reporting import SettingReporting
from covey.core.wire.message import Message, MessageType

if TYPE_CHECKING:
    from covey.core.records.link import CounterRecords


class HistoryMessages:
    """Applies what members say in their groups."""

    def __init__(
        self,
        history: History,
        membership: Membership,
        maintenance: GroupMaintenance,
        counters: CounterRecords,
        newcomers: Newcomers,
    ) -> None:
        self._history = history
        self._membership = membership
        self._maintenance = maintenance
        self._counters = counters
        self._newcomers = newcomers

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.OPERATIONS: self._operations,
            MessageType.HISTORY_PULL: self._pull,
            MessageType.HISTORY_GRAPH: self._graph,
        }

    def _operations(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Accept operations. One that breaks a rule is dropped alone and reported; the rest is processed."""
        message = delivery.message
        taken, sends = self._history.receive(message, now)
        if taken.accepted:
            self._newcomers.progressed(message.group_id)
        return self._outcome(message, taken, sends, now)

    def _graph(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Accept the places of forgotten operations, and what accompanies them."""
        return self._outcome(delivery.message, *self._newcomers.receive(delivery.message, now), now)

    def _outcome(self, message: Message, taken: Taken, sends: list[GroupSend], now: Now) -> HandlerOutcome:
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

    def _pull(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        sends = self._history.exchange.answering.answer(delivery.message) or self._newcomers.answer(delivery.message)
        return HandlerOutcome(sends=(*sends, *self._history.exchange.asking.ask_back(delivery.message, now)))


class OrderMessages:
    """Keeps what members report."""

    def __init__(self, settings: SettingReporting, results: ReceivedResults) -> None:
        self._settings = settings
        self._results = results

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {MessageType.SETTING_REPORT: self._report, MessageType.ORDER_RESULT: self._result}

    def _report(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        self._settings.receive(delivery.message, now)
        return HandlerOutcome()

    def _result(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        self._results.keep(message.group_id, message.author, OrderResult.from_wire(message.body), now)
        return HandlerOutcome()
