"""Counts what the link to the relays costs, and keeps it (`core/link/costs.py`).

The ledger is noted when little of what was granted is left, every ten minutes while it changes, and at the end. So a
power cut loses no byte, and a commit is rare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.link.budget import WINDOW
from covey.core.link.costs import MQTT, TCP, TLS, CostLedger
from covey.limits.link import BUDGET_GRANTED_PART, GRANTED_BYTES, GRANTED_PART, NOTED_BYTES, NOTED_US, WINDOW_COST_BYTES

if TYPE_CHECKING:
    from covey.adapters.mqtt.wire_meter import WireMeter
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.link.budget import Budget
    from covey.core.node import Node
    from covey.core.now import Now

_CONDITION = "link cost"
_CARRYING_BYTES = 200
"""Topic, TLS record, headers, and the relay's answer with its own."""
_ENDING_BYTES = 2_000
"""The last beat and the end of the connections come after the last note."""


def noted_costs(store: SqliteStore, now: Now) -> CostLedger:
    """Return the ledger as it was noted last, on the day of a moment."""
    ledger = CostLedger.of_text(store.conditions.values().get(_CONDITION, ("", 0))[0])
    ledger.roll(now)
    return ledger


class LinkCosts:
    """Implements `runtime.AgentRole`."""

    def __init__(self, store: SqliteStore, meter: WireMeter, now: Now, budget: Budget | None = None) -> None:
        """Continue where the last process has ended."""
        self._budget = budget
        self._store = store
        self._meter = meter
        self._ledger = CostLedger.of_text(store.conditions.values().get(_CONDITION, ("", 0))[0], ended=False)
        self._ledger.roll(now)
        if budget is not None:
            meter.allow(budget.left(self._ledger))
        self._noted_bytes = self._ledger.bytes_this_month
        self._look_us = self._noted_us = now.monotonic_us
        self._unseen = 0
        """Bytes that were allowed since the last look at the wire."""
        self._ahead = 0
        """Bytes of envelopes that were handed over, and not seen on the wire yet."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Count once a second."""
        if now.monotonic_us >= self._look_us:
            self._look_us = now.monotonic_us + 1_000_000
            self._count(node, now)
            grown = self._ledger.bytes_this_month - self._noted_bytes
            overdue = now.monotonic_us >= self._noted_us + NOTED_US and abs(grown) >= NOTED_BYTES
            chunk = max(GRANTED_BYTES, self._ledger.bytes_this_month // GRANTED_PART)
            if self._budget is not None:
                chunk = min(chunk, max(1, self._budget.bytes_a_day // BUDGET_GRANTED_PART))
            if self._ledger.bytes_this_month > self._ledger.granted - chunk // 4 or overdue:
                self._note(now, chunk)
        return None

    def may_spend(self, kind: str, size: int, now: Now) -> bool:
        """Say whether a message of a kind may go now, with what carries it: it waits otherwise."""
        budget, more = self._budget, self._unseen + size + _CARRYING_BYTES
        if budget is None or budget.may_spend(kind, more, self._ledger, now):
            self._unseen = more
            return True
        return False

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may be spent in this period."""
        return self._budget is not None and not self._budget.left(self._ledger)

    def may_open(self, now: Now) -> bool:
        """Say whether another window may be opened."""
        return self._budget is None or self._budget.may_spend(WINDOW, WINDOW_COST_BYTES, self._ledger, now)

    def stop(self, node: Node, now: Now) -> None:
        """Note what was counted; what follows is granted: the end of the connections."""
        self._count(node, now)
        self._note(now, _ENDING_BYTES)

    def finish(self, node: Node, now: Now) -> None:
        """Note all of it, once the connections have ended."""
        self._count(node, now)
        self._note(now, 0)

    def _count(self, node: Node, now: Now) -> None:
        self._ledger.roll(now)
        envelopes, wire = node.state.traffic.take(), self._meter.take()
        self._ahead += envelopes.total() - wire.mqtt
        rest, self._ahead = max(0, -self._ahead), max(0, self._ahead)
        self._ledger.add(envelopes)
        self._ledger.add({MQTT: rest, TLS: wire.tls, TCP: wire.tcp})
        if wire.mqtt:
            self._unseen = 0
        if self._budget is not None:
            self._meter.allow(self._budget.left(self._ledger))

    def _note(self, now: Now, chunk: int) -> None:
        ledger = self._ledger
        ledger.granted = ledger.bytes_this_month + chunk
        with self._store.transaction():
            self._store.conditions.set(_CONDITION, ledger.to_text(), now.wall_us)
        self._noted_bytes, self._noted_us = ledger.bytes_this_month, now.monotonic_us
