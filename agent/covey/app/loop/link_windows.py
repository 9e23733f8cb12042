"""A running agent's windows (`core/link/connect_windows.py`): when its relays connect and rest.

Other processes of this device read when the next one begins (`NEXT_WINDOW`), and ask for one at once
(`ask_for_window`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.loop.link_costs import LinkCosts
    from covey.app.loop.relays import Relays
    from covey.core.link.connect_windows import ConnectWindows
    from covey.core.node import Node
    from covey.core.now import Now

RESTING = "resting until the next window"
"""The state of a relay between two windows."""
NEXT_WINDOW = "link next"
"""The condition that says when the next window begins, in microseconds since 1970; empty while one is open."""
_ASKED = "link asked"
"""The condition that changes whenever a process asks for a window."""


def ask_for_window(store: SqliteStore, now: Now) -> None:
    """Have the agent of this device open a window now. Writes, so inside a transaction."""
    store.conditions.set(_ASKED, str(now.wall_us), now.wall_us)


class LinkWindows:
    """Has the relays rest between windows. `busy` says whether something needs a connection until it is done."""

    def __init__(
        self, windows: ConnectWindows, store: SqliteStore, relays: Relays, busy: Callable[[], bool], costs: LinkCosts
    ) -> None:
        self._windows = windows
        self._costs = costs
        self._store = store
        self._relays = relays
        self._busy = busy
        self._asked = self._asked_now()
        self._is_open: bool | None = None
        self._noted_us: int | None = None

    def moved(self, now: Now) -> None:
        """Note that something was sent or received."""
        self._windows.moved(now)

    def changed_elsewhere(self, now: Now) -> None:
        """Note that another process has written: it may ask for a window, or need one."""
        if not self._open_if_asked(now) and not self._windows.is_open and self._busy():
            self._windows.open(now)

    def _open_if_asked(self, now: Now) -> bool:
        asked, self._asked = self._asked, self._asked_now()
        if asked == self._asked:
            return False
        self._windows.open(now)
        self._windows.moved(now)
        return True

    def turn(self, node: Node, now: Now) -> int:
        """Open or close a window where that is due; return when to be called next, in monotonic microseconds."""
        windows, awaits = self._windows, node.state.windows.awaits_answer
        if not windows.is_open:
            self._open_if_asked(now)
        due = now.monotonic_us >= windows.next_deadline(now, awaits_answer=awaits)
        busy = due and windows.is_open and self._busy()
        if windows.is_open or not due or self._costs.may_open(now):
            windows.turn(now, awaits_answer=awaits, busy=busy)
        is_open = windows.is_open and not self._costs.exhausted
        node.state.presence.next_window_us = windows.next_us(now)
        if is_open is not self._is_open:
            if self._is_open is not None:
                (self._relays.resume if is_open else self._relays.rest)()
            self._is_open = is_open
        self._note(0 if is_open else now.wall_us + windows.next_us(now) - now.monotonic_us, now)
        return max(windows.next_deadline(now, awaits_answer=awaits), now.monotonic_us + _LOOK_US)

    def _note(self, next_us: int, now: Now) -> None:
        """Write down when the next window begins, if that has changed by more than a clock's corrections."""
        if self._noted_us is None or abs(next_us - self._noted_us) > _NOTED_US:
            self._noted_us = next_us
            with self._store.transaction():
                self._store.conditions.set(NEXT_WINDOW, str(next_us) if next_us else "", now.wall_us)

    def _asked_now(self) -> tuple[str, int]:
        return self._store.conditions.values().get(_ASKED, ("", 0))


_LOOK_US = 250_000
"""Between two looks while something holds a window open."""
_NOTED_US = 60_000_000
