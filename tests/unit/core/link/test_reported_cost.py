"""`covey.core.link.reported_cost`: what a device reports of its link's cost, and how long that holds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from covey.core.link.budget import Budget
from covey.core.link.costs import READINGS, CostLedger
from covey.core.link.reported_cost import Outlook, ReportedCost, known_cost, outlook, own_cost
from covey.core.now import Now


def at(text: str) -> int:
    """Return a moment in microseconds since 1970."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


MONTHLY, DAILY = Budget(3_000_000, monthly=True), Budget(20_000, monthly=False)
COST = ReportedCost(10_000, 1_000_000, 2_000_000, MONTHLY)


@pytest.mark.parametrize(
    ("when", "today", "until"),
    [
        ("2026-11-29T23:59:59", 10_000, "2026-11-30T00:00"),
        ("2026-11-30T00:00", None, "2026-12-01T00:00"),
        ("2026-11-28T12:00", None, "2026-12-01T00:00"),  # the receiver's clock was set back
    ],
)
def test_a_cost_of_today_holds_until_midnight_and_the_rest_until_the_month_ends(
    when: str, today: int | None, until: str
) -> None:
    known = known_cost(COST, at("2026-11-29T12:00"), at(when))
    assert known is not None
    assert (known.today, known.month, known.forecast, known.budget) == (today, 1_000_000, 2_000_000, MONTHLY)
    assert (known.outlook, known.reported_us, known.until_us) == (Outlook.FINE, at("2026-11-29T12:00"), at(until))


def test_what_was_reported_in_another_month_says_nothing() -> None:
    for when in ("2026-12-01T00:00", "2026-10-31T23:59", "2027-11-29T12:00"):
        assert known_cost(COST, at("2026-11-29T12:00"), at(when)) is None
    assert known_cost(None, 0, at("2026-11-29T12:00")) is None


def test_a_daily_budget_is_judged_on_its_own_day_only() -> None:
    cost, reported_us = COST._replace(today=19_000, budget=DAILY), at("2026-11-29T12:00")
    looks = [known_cost(cost, reported_us, at(each)) for each in ("2026-11-29T23:00", "2026-11-30T01:00")]
    assert [each and each.outlook for each in looks] == [Outlook.USED_UP, None]


@pytest.mark.parametrize(
    ("budget", "spent", "forecast", "expected"),
    [
        (MONTHLY, 1_000_000, None, Outlook.FINE),
        (MONTHLY, 1_000_000, 3_000_000, Outlook.FINE),
        (MONTHLY, 1_000_000, 3_000_001, Outlook.EARLY),
        (MONTHLY, 2_640_000, 2_700_000, Outlook.FINE),
        (MONTHLY, 2_640_001, 2_700_000, Outlook.LOW),
        (MONTHLY, 2_940_000, 2_950_000, Outlook.USED_UP),
        (MONTHLY, 2**62, None, Outlook.USED_UP),
        (DAILY, 15_000, 10**9, Outlook.FINE),
        (DAILY, 16_001, None, Outlook.LOW),
        (DAILY, 18_000, None, Outlook.USED_UP),
    ],
)
def test_outlooks(budget: Budget, spent: int, forecast: int | None, expected: Outlook) -> None:
    assert outlook(budget, spent, forecast) is expected


def test_a_device_reports_what_it_has_counted() -> None:
    ledger, wall_us = CostLedger(), at("2026-11-01T00:00")
    ledger.roll(Now(0, wall_us))
    ledger.add({READINGS: 1_000})
    assert own_cost(ledger, DAILY, wall_us) == ReportedCost(1_000, 1_000, None, DAILY)
    noon_us = wall_us + 43_200_000_000
    assert own_cost(ledger, None, noon_us) == ReportedCost(1_000, 1_000, 60_000)
