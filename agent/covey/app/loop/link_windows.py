"""A running agent's windows (`core/link/connect_windows.py`): when its relays connect and rest.

Other processes of this device read when the next one begins (`NEXT_WINDOW`), and ask for one at once
(`ask_for_window`).

1. No window opens that the budget does not pay for, not even the one of a start. A regular one is passed over; one that
   was asked for, or that something urgent waits for, may use the reserve. What has gone and awaits an answer does not
   count: a recipient that is away for weeks would use up all of it. What was asked for and is not paid for opens as
   soon as it is.
2. A window's cost is noted before it opens (`LinkCosts.opens`), and again before another attempt where a connection
   failed or was lost, so that power cuts do not hide connections.
3. A window ends at once when nothing more may be spent.
4. Windows that are passed over until midnight are none that others may wait for: collectors await beats in the first
   one that is paid for, and relays keep copies until the first one in which there is room for further copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.history.urgency import is_urgent
from covey.core.ids import Place
from covey.core.link.queued import Lane
from covey.limits.link import LINK_WINDOW_BYTES, LINK_WINDOW_HISTORY_MESSAGES

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
        if not self._open_if_asked(now) and not self._windows.is_open and self._busy() and self._pays_urgently(now):
            self._windows.open(now)

    def _open_if_asked(self, now: Now) -> bool:
        asked = self._asked_now()
        if asked == self._asked or not (self._windows.is_open or self._pays_urgently(now)):
            return False
        self._asked = asked
        self._windows.open(now)
        self._windows.moved(now)
        return True

    def turn(self, node: Node, now: Now) -> int:
        """Open or close a window where that is due; return when to be called next, in monotonic microseconds."""
        windows, awaits = self._windows, node.state.windows.awaits_answer
        if self._is_open is None and not self._pays(node, now):
            windows.close()
        if not windows.is_open:
            self._open_if_asked(now)
        due = now.monotonic_us >= windows.next_deadline(now, awaits_answer=awaits)
        if due and not windows.is_open and not self._pays(node, now):
            windows.skip(now)
        else:
            windows.turn(now, awaits_answer=awaits, busy=due and windows.is_open and self._busy())
        if self._costs.exhausted:
            windows.close()
        connections, presence = len(self._relays.names), node.state.presence
        next_us = presence.next_window_us = self._next_us(now, pays=self._costs.may_open(now, connections))
        presence.next_copy_us = self._next_us(now, pays=self._costs.may_repeat(now, connections))
        if windows.is_open is not self._is_open:
            if windows.is_open:
                self._costs.opens(now, len(self._relays.names))
                self._relays.resume()
            else:
                self._relays.rest()
            self._is_open = windows.is_open
        elif windows.is_open and not node.state.windows.is_connected and self._pays_urgently(now):
            self._costs.reconnects(now, len(self._relays.names))
        self._note(0 if windows.is_open else now.wall_us + next_us - now.monotonic_us, now)
        return max(windows.next_deadline(now, awaits_answer=awaits), now.monotonic_us + _LOOK_US)

    def _next_us(self, now: Now, *, pays: bool) -> int:
        """Return when the next regular window begins, of another day unless today's budget `pays` for it (rule 4)."""
        next_us = self._windows.next_us(now)
        if pays:
            return next_us
        midnight_us = now.monotonic_us + _DAY_US - now.wall_us % _DAY_US
        return next_us + max(0, -(-(midnight_us - next_us) // self._windows.every_us)) * self._windows.every_us

    def _pays(self, node: Node, now: Now) -> bool:
        return self._costs.may_open(now, len(self._relays.names)) or (
            self._pays_urgently(now) and self._waits_urgently(node)
        )

    def _pays_urgently(self, now: Now) -> bool:
        return self._costs.may_open(now, len(self._relays.names), urgent=True)

    def _waits_urgently(self, node: Node) -> bool:
        """Say whether something urgent has never gone; what awaits an answer has until the next regular window."""
        outbox, has_gone = self._store.outbox, node.state.windows.has_gone
        return any(
            not has_gone(recipient, lane, place) and (lane is not Lane.HISTORY or is_urgent(raw))
            for recipient in outbox.recipients()
            for lane in (Lane.CONTROL, Lane.ALARM, Lane.HISTORY)
            for place, raw in outbox.queued(recipient, Place(0), *_HISTORY, lane=lane)
        )

    def _note(self, next_us: int, now: Now) -> None:
        """Write down when the next window begins, if that has changed by more than a clock's corrections."""
        if self._noted_us is None or abs(next_us - self._noted_us) > _NOTED_US:
            self._noted_us = next_us
            with self._store.transaction():
                self._store.conditions.set(NEXT_WINDOW, str(next_us) if next_us else "", now.wall_us)

    def _asked_now(self) -> tuple[str, int]:
        return self._store.conditions.values().get(_ASKED, ("", 0))


_HISTORY = LINK_WINDOW_HISTORY_MESSAGES, LINK_WINDOW_BYTES
_LOOK_US = 250_000
"""Between two looks while something holds a window open."""
_NOTED_US = 60_000_000
_DAY_US = 86_400_000_000
