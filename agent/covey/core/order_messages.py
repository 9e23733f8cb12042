"""The handlers of messages that report what has become of orders."""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.actions.received import ReceivedResults
from covey.core.actions.results import OrderResult
from covey.core.now import Now
from covey.core.outcome import Delivery, Handler, HandlerOutcome
from covey.core.settings.reporting import SettingReporting
from covey.core.wire.message import MessageType


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
