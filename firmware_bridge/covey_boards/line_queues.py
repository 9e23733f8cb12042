"""The queues between a line's owner and the thread that serves its port: events up, messages and acknowledgements down.

1. The owner never waits, and only the thread touches the link.
2. Each queue has a bound. Messages queued for a line that ends are dropped; the owner repeats them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from covey.ports import SerialDown, SerialMessage, SerialUp
from covey_boards.shared import link_machine

_WAITING_MESSAGES = 16
"""For the board, until the link has room for them."""

_EVENTS = 64
"""For the owner. A link has a window of messages under way at most; what goes here came before a session that ended."""

_COUNTERS = ("frames_sent", "repetitions", "duplicates", "strays", "sessions", "downs")
_COUNTERS_OF_MESSAGES = ("messages_sent", "messages_received")


class LineQueues:
    """The queues of one line; `wake` has its thread look at them."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._events: deque[SerialUp | SerialDown | SerialMessage] = deque(maxlen=_EVENTS)
        self._waiting: deque[bytes] = deque()
        self._done: deque[tuple[int, object]] = deque(maxlen=_EVENTS)
        self._up = False
        self._totals: dict[str, int] = {}
        self.opened = 0

    # -- what the owner calls -----------------------------------------------------------------------------------------

    def send(self, message: bytes) -> bool:
        """Queue a message for the board; False while it is away or its queue is full."""
        with self._lock:
            if not self._up or len(self._waiting) >= _WAITING_MESSAGES:
                return False
            self._waiting.append(message)
        self._wake()
        return True

    def next_event(self) -> SerialUp | SerialDown | SerialMessage | None:
        """Return what happened, oldest first."""
        with self._lock:
            return self._events.popleft() if self._events else None

    def acknowledge(self, message: SerialMessage) -> None:
        """Let the board forget a message; one of a line that was reopened since is ignored."""
        assert isinstance(message.token, tuple), "one of ours"
        with self._lock:
            self._done.append(message.token)
        self._wake()

    def statistics(self) -> dict[str, int]:
        """Return counters of the line since the start."""
        with self._lock:
            return dict(self._totals)

    # -- what the thread calls ----------------------------------------------------------------------------------------

    def put(self, event: SerialUp | SerialDown | SerialMessage) -> None:
        """Tell the owner."""
        with self._lock:
            self._events.append(event)

    def close(self) -> None:
        """Forget what was queued for a link that is over."""
        with self._lock:
            self._up = False
            self._waiting.clear()
            self._done.clear()

    def take_requests(self, link: Any) -> None:
        """Hand the owner's messages and acknowledgements to the link, as far as it has room."""
        with self._lock:
            while self._done:
                opened, token = self._done.popleft()
                if opened == self.opened:
                    link.acknowledge(token)
            while self._waiting:
                try:
                    if link.send(self._waiting[0]) is None:
                        return
                except ValueError:  # longer than this board takes
                    self._totals["too_long_for_board"] = self._totals.get("too_long_for_board", 0) + 1
                self._waiting.popleft()

    def take_events(self, link: Any) -> None:
        """Give the owner what the link has to tell."""
        while (event := link.next_event()) is not None:
            if isinstance(event, link_machine.LinkUp):
                with self._lock:
                    self._up = True
                self.put(SerialUp(event.restarted))
            elif isinstance(event, link_machine.LinkDown):
                with self._lock:
                    self._up = False
                self.put(SerialDown(event.reason))
            elif isinstance(event, link_machine.Message):
                self.put(SerialMessage(bytes(event.data), (self.opened, event.token)))

    def note(self, link: Any, before: dict[str, int]) -> None:
        """Keep the counters of this link on top of those of the links before."""
        decoder = link.decoder
        now = {name: getattr(link.statistics, name) for name in (*_COUNTERS, *_COUNTERS_OF_MESSAGES)}
        now |= {"frames_received": decoder.frames, "damaged": decoder.damaged, "too_long": decoder.too_long}
        with self._lock:
            for name, value in now.items():
                self._totals[name] = before.get(name, 0) + value
            self._totals["opened"] = self.opened
