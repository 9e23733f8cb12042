"""What a device reports to its collectors of its link's cost (docs/protocol/groups.md, "Presence"), and its meaning.

A device can lie about its own cost alone: nothing is decided by it, but what a person is shown.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from covey.core.link.budget import Budget
from covey.core.link.costs import CostLedger, month_ends, month_of
from covey.core.wire import cbor
from covey.errors import MalformedError

_DAY_US = 86_400_000_000


class Outlook(Enum):
    """Whether a budget lasts until the end of its period."""

    FINE = "fine"
    LOW = "low"
    """Less than a tenth is left."""
    EARLY = "early"
    """The month's forecast exceeds it."""
    USED_UP = "used up"


def outlook(budget: Budget, spent: int, forecast: int | None) -> Outlook:
    """Return whether a budget lasts; `forecast` is the month's cost, None if unknown."""
    left = max(0, budget.bytes - budget.margin - spent)
    if not left:
        return Outlook.USED_UP
    if budget.monthly and (forecast or 0) > budget.bytes:
        return Outlook.EARLY
    return Outlook.LOW if left < budget.bytes // 10 else Outlook.FINE


class ReportedCost(NamedTuple):
    """Bytes of today and of this month (UTC), the month's forecast and the budget; None: unknown, or no budget."""

    today: int
    month: int
    forecast: int | None = None
    budget: Budget | None = None

    def to_value(self) -> list[Any]:
        """Return what a beat has under `COST_KEY`: `[today, month, forecast, budget]`."""
        budget = None if self.budget is None else [self.budget.bytes, int(self.budget.monthly)]
        return [self.today, self.month, self.forecast, budget]

    @classmethod
    def from_value(cls, value: object) -> ReportedCost:
        """Read what a beat has under `COST_KEY`.

        Raises:
            RemoteError: it is none, or beyond a bound.
        """
        fields = cbor.uint(), cbor.uint(), cbor.optional(cbor.uint()), cbor.optional(_budget)
        return cls(*cbor.record(value, "cost", *fields))


class KnownCost(NamedTuple):
    """What is known of a device's cost now: as of a `ReportedCost`, but `today` is None if reported on another day.

    `reported_us` is when the device reported it, and `until_us` when less of it will hold: its day or month ends.
    """

    today: int | None
    month: int
    forecast: int | None
    budget: Budget | None
    outlook: Outlook | None
    reported_us: int
    until_us: int


def own_cost(ledger: CostLedger, budget: Budget | None, wall_us: int) -> ReportedCost:
    """Return what a device tells of its own link."""
    return ReportedCost(ledger.bytes_today, ledger.bytes_this_month, ledger.forecast(wall_us), budget)


def known_cost(reported: ReportedCost | None, reported_us: int, now_us: int) -> KnownCost | None:
    """Return what still holds of a cost that was reported at a time; None: nothing was, or in another month."""
    then, day = reported_us // _DAY_US, now_us // _DAY_US
    if reported is None or month_of(then) != month_of(day):
        return None
    today = reported.today if then == day else None
    spent = None if reported.budget is None else reported.month if reported.budget.monthly else today
    lasts = None if reported.budget is None or spent is None else outlook(reported.budget, spent, reported.forecast)
    until = day + 1 if then == day else month_ends(then)
    return KnownCost(today, reported.month, reported.forecast, reported.budget, lasts, reported_us, until * _DAY_US)


def _budget(value: object) -> Budget:
    size, monthly = cbor.record(value, "budget", cbor.uint(), cbor.uint(1))
    if not size:
        raise MalformedError("a budget of no bytes")
    return Budget(size, bool(monthly))
