"""What a device may spend on its link: a promise for a day or a month (`link.budget`), and the plan that keeps it.

1. All bytes count, in both directions, as `costs.py` counts them. Nothing is spent beyond the budget less `margin`,
   which is for what is under way when the connection is closed.
2. `URGENT` kinds (orders and results, group changes, alarms, acknowledgements, and a window for them) may use all of
   it. A fifth is reserved for them: other kinds stop at four fifths. Regular windows and beats stop in between. Where a
   budget pays for three windows, all but beats leave enough for an urgent one.
3. A month's budget is paced: all but `URGENT` kinds may use the part of their share that has passed, and a day in
   advance. So windows that are too many for a month leave some for each day of it.
4. What does not fit waits for the next window, day or month. It is never dropped for the budget.
5. A device with a budget connects in windows. Without a schedule of its own it plans as many as half of it pays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from covey.core.link.connect_windows import ConnectSchedule
from covey.core.link.costs import ACKNOWLEDGEMENTS, ALARMS, BEATS, CONTROL, CostLedger, month_begins, month_ends
from covey.core.now import Now
from covey.errors import ConfigurationError
from covey.limits.link import (
    BUDGET_BYTES_A_DAY_MIN,
    BUDGET_MARGIN_BYTES,
    CONNECT_EVERY_US_MAX,
    CONNECT_EVERY_US_MIN,
    DELIVERY_BYTES,
    METERED_WINDOW,
    WINDOW_COST_BYTES,
)

WINDOW, URGENT_WINDOW = "window", "urgent window"
"""Spending that the ledger does not know as a kind: a connection, and one for something that cannot wait."""
URGENT = frozenset({CONTROL, ALARMS, ACKNOWLEDGEMENTS, URGENT_WINDOW})

_DAY_US = 86_400_000_000
_MONTH_DAYS = 31
_UNITS = {"B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_read = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,3})?) ?(B|kB|MB|GB)/(day|month)").fullmatch


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes of each day or month, in UTC."""

    bytes: int
    monthly: bool

    @property
    def bytes_a_day(self) -> int:
        """A day's share, in the longest month."""
        return self.bytes // _MONTH_DAYS if self.monthly else self.bytes

    @property
    def margin(self) -> int:
        """What is kept for what is under way when the connection is closed (rule 1)."""
        return min(max(BUDGET_MARGIN_BYTES, self.bytes // 50), self.bytes // 4)

    @property
    def deliveries(self) -> int:
        """How many deliveries a relay may have under way, so that they fit into the margin."""
        return min(METERED_WINDOW, max(1, self.margin // DELIVERY_BYTES))

    def spent(self, ledger: CostLedger) -> int:
        """Return what this period has cost."""
        return ledger.bytes_this_month if self.monthly else ledger.bytes_today

    def left(self, ledger: CostLedger) -> int:
        """Return what may still be spent, by anything."""
        return max(0, self.bytes - self.margin - self.spent(ledger))

    def may_spend(self, kind: str, size: int, ledger: CostLedger, now: Now) -> bool:
        """Say whether a kind may cost so many bytes now (rules 2 and 3)."""
        return self.spent(ledger) + size <= self._limit(kind, now)

    def _limit(self, kind: str, now: Now) -> int:
        all_of_it = self.bytes - self.margin
        if kind in URGENT:
            return all_of_it
        spared = WINDOW_COST_BYTES if kind != BEATS and all_of_it >= 3 * WINDOW_COST_BYTES else 0
        share = min(self.bytes * 4 // 5, all_of_it - spared)
        if kind in {BEATS, WINDOW}:
            share = min(self.bytes * 9 // 10, all_of_it - spared)
        if not self.monthly:
            return share
        day = now.wall_us // _DAY_US
        begins, ends = month_begins(day), month_ends(day)
        return share * min(ends - begins, day + 2 - begins) // (ends - begins)

    def schedule(self) -> ConnectSchedule:
        """Return the windows that half of the budget pays (rule 5)."""
        windows = max(1, self.bytes_a_day // 2 // WINDOW_COST_BYTES)
        return ConnectSchedule(min(CONNECT_EVERY_US_MAX, max(CONNECT_EVERY_US_MIN, _DAY_US // windows)))


def link_budget(text: str) -> Budget | None:
    """Return the budget that `link.budget` names; None for an empty text.

    Raises:
        ConfigurationError: it names none, or one that pays for no heartbeat a day.
    """
    if not text:
        return None
    found = _read(text)
    day_kb = BUDGET_BYTES_A_DAY_MIN // 1_000
    least = f"at least {day_kb} kB/day, or {day_kb * _MONTH_DAYS} kB/month"
    if found is None:
        raise ConfigurationError(
            f"link.budget: '{text[:32]}' is no budget",
            hint=f"write it like '1 MB/month' or '20 kB/day' (B, kB, MB, GB), {least}",
        )
    budget = Budget(int(float(found[1]) * _UNITS[found[2]]), found[3] == "month")
    if budget.bytes_a_day < BUDGET_BYTES_A_DAY_MIN:
        raise ConfigurationError(
            f"link.budget: '{text}' does not pay for one connection and one heartbeat a day", hint=least
        )
    return budget
