"""Counts what the link to the relays costs, and keeps it (`core/link/costs.py`).

The ledger is noted when little of what was granted is left, every ten minutes while it changes, and at the end. So a
power cut loses no byte, and a commit is rare. What a connection costs is granted before it opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.link.budget import URGENT_WINDOW, WINDOW
from covey.core.link.costs import MQTT, TCP, TLS, CostLedger, Traffic
from covey.core.link.reported_cost import own_cost
from covey.limits.link import (
    BUDGET_GRANTED_BYTES,
    BUDGET_GRANTED_PART,
    GRANTED_BYTES,
    GRANTED_PART,
    NOTED_BYTES,
    NOTED_US,
    WINDOW_COST_BYTES,
)

if TYPE_CHECKING:
    from covey.adapters.mqtt.wire_meter import WireMeter
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.link.budget import Budget
    from covey.core.link.reported_cost import ReportedCost
    from covey.core.node import Node
    from covey.core.now import Now

_CONDITION = "link cost"
_CARRYING_BYTES = 200
"""Topic, TLS record, headers, and the relay's answer with its own."""
_SEEN_US = 500_000
"""By then adapters have noted what a connection has cost to open."""
_STILL_US = 2_000_000
"""What was handed over so long ago is on the wire, or was lost with a connection."""
_ENDING_BYTES = 2_000
"""The last beat and the end of the connections come after the last note."""


def noted_costs(store: SqliteStore, now: Now) -> CostLedger:
    """Return the ledger as it was noted last, on the day of a moment."""
    ledger = CostLedger.of_text(store.conditions.values().get(_CONDITION, ("", 0))[0])
    ledger.roll(now)
    return ledger


def last_cost(store: SqliteStore, budget: Budget | None) -> tuple[ReportedCost | None, int]:
    """Return what this device's own link had cost when that was noted last, and when that was; None: never."""
    text, noted_us = store.conditions.values().get(_CONDITION, ("", 0))
    return (own_cost(CostLedger.of_text(text), budget, noted_us), noted_us) if text else (None, 0)


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
        self._traffic = Traffic()
        """The node's."""
        self._unseen = 0
        """Bytes of envelopes with what carries them that were not seen on the wire yet."""
        self._moved_us = now.monotonic_us
        self._prepaid = 0
        """What a window is expected to cost and has not yet; 0 once its connection has been seen on the wire."""
        self._connected_us: int | None = None
        self._ahead = 0
        """Bytes of envelopes that were handed over, and not seen on the wire yet."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Count once a second, with a budget at each turn."""
        if now.monotonic_us >= self._look_us or self._budget is not None:
            self._count(node, now)
            if now.monotonic_us >= self._look_us:
                self._look_us = now.monotonic_us + 1_000_000
                node.state.presence.cost = own_cost(self._ledger, self._budget, now.wall_us)
            grown = self._ledger.bytes_this_month - self._noted_bytes
            overdue = now.monotonic_us >= self._noted_us + NOTED_US and abs(grown) >= NOTED_BYTES
            self._see_connection(node, now)
            chunk = max(GRANTED_BYTES, self._ledger.bytes_this_month // GRANTED_PART)
            if self._budget is not None:
                chunk = min(chunk, max(BUDGET_GRANTED_BYTES, self._budget.bytes_a_day // BUDGET_GRANTED_PART))
            if self._ledger.bytes_this_month + self._uncounted > self._ledger.granted - chunk // 4 or overdue:
                self._note(now, self._uncounted + chunk)
        return None

    def opens(self, now: Now, connections: int = 1) -> None:
        """Grant what a window of so many connections costs, before it opens."""
        if self._budget is not None:
            self._note(now, connections * WINDOW_COST_BYTES)
            self._prepaid, self._connected_us = connections * WINDOW_COST_BYTES, None

    def may_spend(self, kind: str, size: int, now: Now) -> bool:
        """Say whether a message of a kind may go now, with what carries it: it waits otherwise."""
        more = self._prepaid + self._uncounted + size + _CARRYING_BYTES
        return self._budget is None or self._budget.may_spend(kind, more, self._ledger, now)

    @property
    def _uncounted(self) -> int:
        """What is under way, and not in the ledger yet."""
        return max(0, self._unseen - self._ahead) + _with_overhead(self._traffic)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may be spent in this period."""
        return self._budget is not None and self._budget.left(self._ledger) <= self._uncounted

    def may_open(self, now: Now, connections: int = 1, *, urgent: bool = False) -> bool:
        """Say whether a window of so many connections may be opened, where it is `urgent` from the reserve."""
        kind, cost = URGENT_WINDOW if urgent else WINDOW, connections * WINDOW_COST_BYTES
        return self._budget is None or self._budget.may_spend(kind, cost, self._ledger, now)

    def _see_connection(self, node: Node, now: Now) -> None:
        """Let a window cost what it does, once its connection was on the wire for a look or two."""
        if not node.state.windows.is_connected:
            self._connected_us = None
        elif self._connected_us is None:
            self._connected_us = now.monotonic_us
        elif now.monotonic_us >= self._connected_us + _SEEN_US:
            self._prepaid = 0

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
        self._traffic, wire = node.state.traffic, self._meter.take()
        if self._traffic.envelopes or wire.total:
            self._moved_us = now.monotonic_us
        self._unseen = max(0, self._unseen + _with_overhead(self._traffic) - wire.total)
        envelopes = self._traffic.take()
        self._ahead += envelopes.total() - wire.mqtt
        rest, self._ahead = max(0, -self._ahead), max(0, self._ahead)
        if not self._ahead or now.monotonic_us >= self._moved_us + _STILL_US:
            self._unseen = 0
        self._ledger.add(envelopes)
        self._ledger.add({MQTT: rest, TLS: wire.tls, TCP: wire.tcp})
        self._prepaid = max(0, self._prepaid - envelopes.total() - rest - wire.tls - wire.tcp)
        if self._budget is not None:
            self._meter.allow(self._budget.left(self._ledger))

    def _note(self, now: Now, chunk: int) -> None:
        ledger = self._ledger
        ledger.granted = ledger.bytes_this_month + chunk
        with self._store.transaction():
            self._store.conditions.set(_CONDITION, ledger.to_text(), now.wall_us)
        self._noted_bytes, self._noted_us = ledger.bytes_this_month, now.monotonic_us


def _with_overhead(traffic: Traffic) -> int:
    """Return what envelopes cost with what carries them."""
    return traffic.bytes.total() + traffic.envelopes * _CARRYING_BYTES
