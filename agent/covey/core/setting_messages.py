"""The handler of messages that report what has become of settings."""

from __future__ import annotations

from collections.abc import Mapping

from covey.core.now import Now
from covey.core.outcome import Delivery, Handler, HandlerOutcome
from covey.core.settings.reporting import SettingReporting
from covey.core.wire.message import MessageType


class SettingMessages:
    """Keeps what members report."""

    def __init__(self, reporting: SettingReporting) -> None:
        self._reporting = reporting

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handler by its message type."""
        return {MessageType.SETTING_REPORT: self._report}

    def _report(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        self._reporting.receive(delivery.message, now)
        return HandlerOutcome()
