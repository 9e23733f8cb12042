"""`covey.core.link.budget`: what a device may spend on its link."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.link.budget import URGENT, URGENT_WINDOW, WINDOW, Budget, link_budget
from covey.core.link.connect_windows import ConnectSchedule
from covey.core.link.costs import ALARMS, BEATS, CONTROL, KINDS, READINGS, CostLedger
from covey.core.now import Now
from covey.errors import ConfigurationError
from covey.limits.link import BUDGET_BYTES_A_DAY_MIN, CONNECT_EVERY_US_MIN, METERED_WINDOW

_DAY_US = 86_400_000_000
START = Now(0, 20_000 * _DAY_US)


def at(text: str) -> Now:
    """Return a moment."""
    return Now(0, int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 MB/month", Budget(1_000_000, monthly=True)),
        ("20 kB/day", Budget(20_000, monthly=False)),
        ("1.5MB/day", Budget(1_500_000, monthly=False)),
        ("500000 B/month", Budget(500_000, monthly=True)),
        ("", None),
    ],
)
def test_budgets(text: str, expected: Budget | None) -> None:
    assert link_budget(text) == expected


@pytest.mark.parametrize(
    "text", ["0", "0 kB/day", "-1 MB/month", "20 kB", "20 KB/day", "1 MB/year", "9999 B/day", "309 kB/month", "none"]
)
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        link_budget(text)
    assert (refused.value.hint or "").endswith("at least 10 kB/day, or 310 kB/month")


def test_the_hint_for_a_small_budget_names_the_minimum() -> None:
    with pytest.raises(ConfigurationError) as refused:
        link_budget("5 kB/day")
    assert refused.value.hint == "at least 10 kB/day, or 310 kB/month"


def test_readings_leave_a_reserve_for_orders_and_alarms() -> None:
    budget, ledger, now = Budget(100_000, monthly=False), CostLedger(), at("2026-11-29T12:00")
    ledger.roll(now)
    ledger.add({READINGS: 75_000})
    assert budget.may_spend(READINGS, 5_000, ledger, now)
    assert not budget.may_spend(READINGS, 5_001, ledger, now)
    for kind in (BEATS, WINDOW):
        assert budget.may_spend(kind, 15_000, ledger, now)
        assert not budget.may_spend(kind, 15_001, ledger, now)
    for kind in (CONTROL, ALARMS, URGENT_WINDOW):
        assert budget.may_spend(kind, 22_500, ledger, now)
        assert not budget.may_spend(kind, 22_501, ledger, now)


def test_a_small_budget_leaves_an_urgent_window_where_it_pays_for_three() -> None:
    small, smallest, ledger, now = Budget(20_000, monthly=False), Budget(10_000, monthly=False), CostLedger(), START
    for kind in (READINGS, WINDOW):
        assert small.may_spend(kind, 12_500, ledger, now)
        assert not small.may_spend(kind, 12_501, ledger, now)
        assert smallest.may_spend(kind, 7_500, ledger, now)
    assert small.may_spend(URGENT_WINDOW, 17_500, ledger, now)


def test_what_a_relay_has_under_way_fits_into_the_margin() -> None:
    assert [Budget(size, monthly=False).deliveries for size in (10_000, 200_000, 10**6)] == [1, 2, METERED_WINDOW]


def test_a_month_is_paced_and_a_day_in_advance() -> None:
    budget, ledger = Budget(3_000_000, monthly=True), CostLedger()
    first = at("2026-11-01T00:00")
    ledger.roll(first)
    assert budget.may_spend(READINGS, 160_000, ledger, first)
    assert not budget.may_spend(READINGS, 160_001, ledger, first)
    assert budget.may_spend(READINGS, 1_200_000, ledger, at("2026-11-14T00:00"))
    assert not budget.may_spend(READINGS, 1_200_001, ledger, at("2026-11-14T00:00"))
    assert budget.may_spend(READINGS, 2_400_000, ledger, at("2026-11-30T00:00"))
    assert budget.may_spend(CONTROL, 2_900_000, ledger, first)
    for kind in (WINDOW, BEATS):
        assert budget.may_spend(kind, 180_000, ledger, first)
        assert not budget.may_spend(kind, 180_001, ledger, first)
        assert budget.may_spend(kind, 2_700_000, ledger, at("2026-11-30T00:00"))


def test_half_of_a_budget_pays_for_windows() -> None:
    assert Budget(20_000, monthly=False).schedule() == ConnectSchedule(_DAY_US // 2)
    assert Budget(BUDGET_BYTES_A_DAY_MIN, monthly=False).schedule() == ConnectSchedule(_DAY_US)
    assert Budget(10**9, monthly=False).schedule() == ConnectSchedule(CONNECT_EVERY_US_MIN)


@given(
    st.integers(BUDGET_BYTES_A_DAY_MIN, 10**8),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from([*KINDS, ALARMS, WINDOW]), st.integers(1, 10**5), st.integers(0, 2 * _DAY_US))),
)
def test_it_is_never_exceeded_and_no_order_waits_behind_readings(
    size: int, monthly: bool, steps: list[tuple[str, int, int]]
) -> None:
    budget, ledger, now = Budget(size, monthly), CostLedger(), Now(0, 20_000 * _DAY_US)
    for kind, cost, later_us in steps:
        now = Now(now.monotonic_us + later_us, now.wall_us + later_us)
        ledger.roll(now)
        allowed = budget.may_spend(kind, cost, ledger, now)
        if kind not in URGENT and allowed:
            assert budget.may_spend(CONTROL, cost, ledger, now)
            left = budget.left(ledger) - cost
            assert left >= 0
        if allowed:
            ledger.add({kind: cost})
        assert budget.spent(ledger) <= budget.bytes - budget.margin
