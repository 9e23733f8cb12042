"""Counts what the link to the relays costs, and keeps it (`core/link/costs.py`).

The ledger is noted when little of what was granted is left, every ten minutes while it changes, when another day
begins, and at the end. So a power cut loses no byte, and a commit is rare. With a budget, what a connection or a
message costs is granted before it opens or goes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.link.budget import URGENT_WINDOW, WINDOW
from covey.core.link.costs import MQTT, READINGS, TCP, TLS, CostLedger, Traffic
from covey.core.link.reported_cost import own_cost
from covey.limits.link import (
    BUDGET_GRANTED_BYTES,
    BUDGET_GRANTED_PART,
    DELIVERY_BYTES,
    GRANTED_BYTES,
    GRANTED_PART,
    NOTED_BYTES,
    NOTED_US,
    WINDOW_COST_BYTES,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.mqtt.wire_meter import WireMeter
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.link.budget import Budget
    from covey.core.link.reported_cost import ReportedCost
    from covey.core.node import Node
    from covey.core.now import Now

_CONDITION = "link cost"
_CARRYING_BYTES = 300
"""Topic, TLS record, headers, and the relay's answer with its own, at most: over IPv6, and without a topic alias."""
_ARRIVING_BYTES = 180
"""Topic, TLS record and headers of a delivery. It was on the wire before, but perhaps nobody has looked since."""
_ANSWERING_BYTES = 170
"""The answer to a delivery with its headers, and their acknowledgement."""
_SEEN_US = 500_000
"""After the first connection: by then those to other relays are open, too, or cannot be opened now."""
_STILL_US = 2_000_000
"""What was handed over so long ago is on the wire, or was lost with a connection."""
_LOOKED_US = 250_000
"""By then somebody has looked at a connection that has brought something, and the answer has gone."""
_ENDING_BYTES = 2_000
"""The last beat and the end of the connections come after the last note."""


@dataclass(slots=True)
class _Unseen:
    """Envelopes that were sent, or received, in one turn."""

    at_us: int
    envelopes: int
    """Their bytes."""
    left: int
    """What is still to come on the wire for them."""
    came: bool
    """Whether they were received, and so are on the wire already."""


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

    def __init__(
        self,
        store: SqliteStore,
        meter: WireMeter,
        now: Now,
        budget: Budget | None = None,
        synchronised: Callable[[], bool] = lambda: False,
    ) -> None:
        """Continue where the last process has ended; `synchronised`: whether a time source disciplines the clock."""
        self._budget = budget
        self._synchronised = synchronised
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
        self._unseen = deque[_Unseen]()
        """What is still to come on the wire, oldest first."""
        self._early = 0
        """What was seen on the wire and belongs to no envelope that is known: of deliveries, most likely."""
        self._moved_us = now.monotonic_us
        self._prepaid = 0
        """What connections are expected to cost to open and have not yet; 0 once they are open."""
        self._awaited = 0
        """How many connections are still to be opened."""
        self._opened_us: int | None = None
        self._ahead = 0
        """Bytes of envelopes that are in the ledger and not on the wire yet, or in it a second time as MQTT's."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Count once a second, with a budget at each turn."""
        if now.monotonic_us >= self._look_us or self._budget is not None:
            has_begun = self._count(node, now)
            if now.monotonic_us >= self._look_us:
                self._look_us = now.monotonic_us + 1_000_000
                node.state.presence.cost = own_cost(self._ledger, self._budget, now.wall_us)
            grown = self._ledger.bytes_this_month - self._noted_bytes
            overdue = now.monotonic_us >= self._noted_us + NOTED_US and abs(grown) >= NOTED_BYTES
            self._see_connection(node, now)
            used_up = self._ledger.bytes_this_month + self._uncounted > self._ledger.granted - self._chunk // 4
            if used_up or overdue:
                self._note(now, self._uncounted + self._chunk)
            elif has_begun:  # a day, which a restart would begin once more
                self._note(now, self._ledger.granted - self._ledger.bytes_this_month)
        return None

    @property
    def _chunk(self) -> int:
        """How much is granted at a time."""
        chunk = max(GRANTED_BYTES, self._ledger.bytes_this_month // GRANTED_PART)
        if self._budget is None:
            return chunk
        return min(chunk, max(BUDGET_GRANTED_BYTES, self._budget.bytes_a_day // BUDGET_GRANTED_PART))

    def opens(self, now: Now, connections: int = 1) -> None:
        """Grant what a window of so many connections costs, before it opens."""
        if self._budget is not None:
            self._note(now, connections * WINDOW_COST_BYTES)
            self._prepaid, self._awaited, self._opened_us = connections * WINDOW_COST_BYTES, connections, None

    def reconnects(self, now: Now, connections: int = 1) -> None:
        """Grant what further connections of a window cost, if the last ones have used most of what was granted."""
        granted = self._ledger.granted - self._ledger.bytes_this_month - self._uncounted
        if granted < connections * WINDOW_COST_BYTES * 4 // 5:
            self.opens(now, connections)

    def may_spend(self, kind: str, size: int, now: Now) -> bool:
        """Say whether a message of a kind may go now, with what carries it: it waits otherwise.

        What may go is granted: a power cut in the midst of many messages hides none of them.
        """
        if self._budget is None:
            return True
        more = self._prepaid + self._uncounted + size + _CARRYING_BYTES
        if not self._budget.may_spend(kind, more, self._ledger, now):
            return False
        if self._ledger.bytes_this_month + more > self._ledger.granted:
            self._note(now, more + self._chunk)
        return True

    @property
    def _uncounted(self) -> int:
        """What is under way, and not in the ledger yet."""
        unseen = sum(each.left for each in self._unseen)
        return max(0, unseen - self._ahead) + _to_come(self._traffic)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may be spent in this period."""
        return self._budget is not None and self._budget.left(self._ledger) <= self._uncounted

    def may_open(self, now: Now, connections: int = 1, *, urgent: bool = False) -> bool:
        """Say whether a window of so many connections may be opened, where it is `urgent` from the reserve."""
        kind, cost = URGENT_WINDOW if urgent else WINDOW, connections * WINDOW_COST_BYTES
        return self._budget is None or self._budget.may_spend(kind, cost, self._ledger, now)

    def may_repeat(self, now: Now, connections: int = 1) -> bool:
        """Say whether, after this window and another one, there is room for messages that are not urgent."""
        cost = 2 * connections * WINDOW_COST_BYTES
        return self._budget is None or self._budget.may_spend(READINGS, cost, self._ledger, now)

    def _see_connection(self, node: Node, now: Now) -> None:
        """Let a window cost what it does, once its connections are open."""
        if self._opened_us is None or not node.state.windows.is_connected:
            return
        if not self._awaited or now.monotonic_us >= self._opened_us + _SEEN_US:
            self._prepaid = 0

    def stop(self, node: Node, now: Now) -> None:
        """Note what was counted; what follows is granted: the end of the connections."""
        self._count(node, now)
        self._note(now, _ENDING_BYTES)

    def finish(self, node: Node, now: Now) -> None:
        """Note all of it, once the connections have ended."""
        self._count(node, now)
        self._note(now, 0)

    def _count(self, node: Node, now: Now) -> bool:
        """Count; return whether a day has begun."""
        has_begun = self._ledger.roll(now, synchronised=self._synchronised())
        if has_begun:
            self._ahead = 0  # what a day has counted too much does not make the next one cheaper
        self._traffic, wire = node.state.traffic, self._meter.take()
        if self._traffic.bytes or wire.total:
            self._moved_us = now.monotonic_us
        if wire.connections:
            self._awaited = max(0, self._awaited - wire.connections)
            self._opened_us = now.monotonic_us if self._opened_us is None else self._opened_us
        opening = min(self._prepaid, wire.total)  # what a connection costs comes before its envelopes
        self._prepaid -= opening
        if self._traffic.bytes:
            self._expect(self._traffic, now)
        envelopes = self._traffic.take()
        self._ahead += envelopes.total() - wire.mqtt
        rest, self._ahead = max(0, -self._ahead), max(0, self._ahead)
        self._see(wire.total - opening, now)
        self._ledger.add(envelopes)
        self._ledger.add({MQTT: rest, TLS: wire.tls, TCP: wire.tcp})
        if self._budget is not None:
            self._meter.allow(self._budget.left(self._ledger))
        return has_begun

    def _expect(self, traffic: Traffic, now: Now) -> None:
        """Await on the wire what was sent and received, but for deliveries that were seen before they were counted."""
        if traffic.sent:
            self._unseen.append(_Unseen(now.monotonic_us, traffic.sent_bytes, _going(traffic), came=False))
        if traffic.received:
            left, envelopes = _coming(traffic), traffic.bytes.total() - traffic.sent_bytes
            early = min(self._early, left)
            self._early -= early
            self._unseen.append(_Unseen(now.monotonic_us, envelopes, left - early, came=True))

    def _see(self, seen_bytes: int, now: Now) -> None:
        """Forget what so many bytes on the wire have carried, and what has gone with less than is assumed at most."""
        unseen = self._unseen
        while seen_bytes and unseen:
            covered = min(seen_bytes, unseen[0].left)
            unseen[0].left -= covered
            seen_bytes -= covered
            if not unseen[0].left:
                unseen.popleft()
        if self._budget is not None:
            self._early = min(self._early + seen_bytes, self._budget.deliveries * DELIVERY_BYTES)
        looked_us = now.monotonic_us - _LOOKED_US
        unseen = self._unseen = deque(each for each in unseen if not each.came or each.at_us > looked_us)
        still = now.monotonic_us >= self._moved_us + _STILL_US
        if still:
            self._early = 0
        newer = sum(each.envelopes for each in unseen)
        while unseen:
            newer -= unseen[0].envelopes
            old = now.monotonic_us >= unseen[0].at_us + _STILL_US
            if not still and not (old and newer >= self._ahead):  # what is not on the wire yet may be among the old
                break
            unseen.popleft()

    def _note(self, now: Now, chunk: int) -> None:
        ledger = self._ledger
        ledger.granted = ledger.bytes_this_month + chunk
        with self._store.transaction():
            self._store.conditions.set(_CONDITION, ledger.to_text(), now.wall_us)
        self._noted_bytes, self._noted_us = ledger.bytes_this_month, now.monotonic_us


def _to_come(traffic: Traffic) -> int:
    """Return what is still to come on the wire for envelopes, or to be seen there."""
    return _going(traffic) + _coming(traffic)


def _going(traffic: Traffic) -> int:
    """Return what envelopes cost that were sent, with what carries them."""
    return traffic.sent_bytes + traffic.sent * _CARRYING_BYTES


def _coming(traffic: Traffic) -> int:
    """Return what envelopes cost that were received, with what carries them and their answers."""
    carrying = traffic.received * (_ARRIVING_BYTES + _ANSWERING_BYTES)
    return traffic.bytes.total() - traffic.sent_bytes + carrying
