"""The lanes to one recipient: each has a window, with a pace and a clock of its own (`windows.py`)."""

from __future__ import annotations

from enum import IntEnum

from covey.limits.link import (
    LINK_WINDOW_CONTROL_MESSAGES,
    LINK_WINDOW_HISTORY_MESSAGES,
    LINK_WINDOW_LIVE_MESSAGES,
    LINK_WINDOW_MESSAGES,
)


class Lane(IntEnum):
    """Which window of a recipient a message goes through."""

    CONTROL = 0
    HISTORY = 1
    BULK = 2
    """Data and telemetry."""
    LIVE = 3
    """Telemetry that is queued while a backlog of bulk waits: it overtakes that."""

    @property
    def window_messages(self) -> int:
        """How many messages may be in flight."""
        return _WINDOWS[self]


_WINDOWS = {
    Lane.CONTROL: LINK_WINDOW_CONTROL_MESSAGES,
    Lane.HISTORY: LINK_WINDOW_HISTORY_MESSAGES,
    Lane.BULK: LINK_WINDOW_MESSAGES,
    Lane.LIVE: LINK_WINDOW_LIVE_MESSAGES,
}
