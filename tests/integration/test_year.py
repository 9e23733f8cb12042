"""`./dev year`: its plan, its ledger, and some days of it with real programs."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from bench.clock import compiles
from bench.year.ledger import TOLERANCE_S, Account
from bench.year.plan import DAYS, EDGES, HUB, LEAP_DAY, What, make_plan
from tests.proof import begins
from tests.waiting import GUARD_S

_ROOT = Path(__file__).parents[2]
_ENDS = {
    What.SILENCE: What.NETWORK,
    What.OFF: What.ON,
    What.RELAY_DOWN: What.RELAY_UP,
    What.DISK_FULL: What.DISK_FREE,
    What.CLOCK_WRONG: What.CLOCK_RIGHT,
}
_WEEK_HOURS = 7 * 24


@pytest.mark.parametrize("days", [4, 20, DAYS])
def test_what_begins_in_a_plan_ends_before_its_last_hours(days: int) -> None:
    plan = make_plan(days)
    assert [each.hour for each in plan.events] == sorted(each.hour for each in plan.events)
    for begin, end in _ENDS.items():
        began = [(each.machine, each.hour) for each in plan.events if each.what is begin]
        ended = [(each.machine, each.hour) for each in plan.events if each.what is end]
        assert len(began) == len(ended)
        assert began
        for (machine, since), (same, until) in zip(sorted(began), sorted(ended), strict=True):
            assert machine == same
            assert since < until < plan.hours


def test_the_year_has_what_its_page_says() -> None:
    plan = make_plan(DAYS)
    assert plan.begins <= LEAP_DAY < plan.begins + timedelta(days=DAYS)
    disks = [each.machine for each in plan.events if each.what is What.DISK_FULL]
    assert (len(disks), HUB in disks) == (2, True)
    longest: dict[What, int] = {}
    for begin, end in _ENDS.items():
        for each in (event for event in plan.events if event.what is begin):
            ends = min(
                e.hour for e in plan.events if e.what is end and e.machine == each.machine and e.hour > each.hour
            )
            longest[begin] = max(longest.get(begin, 0), ends - each.hour)
    for outage in (What.SILENCE, What.OFF, What.RELAY_DOWN):
        assert longest[outage] >= 3 * _WEEK_HOURS
    killed = {each.machine for each in plan.events if each.what is What.KILL}
    assert killed == {*EDGES, HUB}
    renewed = plan.relay_begins + timedelta(days=397 - 30)
    assert plan.begins < renewed < plan.begins + timedelta(days=DAYS)


def test_the_ledger_finds_what_is_missing_repeated_foreign_and_late() -> None:
    account = Account("shed")
    for at_s in (0.0, 3_600.0, 7_200.0, 10_800.0, None):
        (number,) = account.measure()
        account.acknowledge(number, at_s)
    right = [(0.0, 0.0), (1.0, 3_600.0 + TOLERANCE_S), (2.0, 7_200.0), (3.0, 10_800.0), (4.0, 99.0)]
    for order in (1, 1, 2):
        account.obey(order)
    assert account.balance(right, newest=2).is_right
    assert not account.balance(right, newest=3).obeys_newest
    found = account.balance([(0.0, 0.0), (0.0, 0.0), (1.0, 9_999.0), (2.0, 7_200.0), (4.0, 0.0), (8.0, 1.0)], newest=2)
    assert (found.acknowledged, found.missing, found.duplicates, found.foreign) == (5, 1, 1, 1)
    assert found.wrong_times == [(1, 6_399)]
    account.obey(1)
    assert account.balance(right, newest=1).stale == 1


def test_a_refused_reading_is_offered_again_and_a_wrong_clocks_time_is_not_judged() -> None:
    account = Account("barn")
    assert account.measure() == [0]
    assert account.measure() == [0, 1]
    account.acknowledge(0, 5.0)
    account.acknowledge(1, 6.0)
    assert account.measure() == [2]
    account.clear_newest_times()
    balance = account.balance([(0.0, 5_000.0), (1.0, 6_000.0)], newest=0)
    assert (balance.acknowledged, balance.missing, balance.wrong_times) == (2, 0, [])


@pytest.mark.proof
@pytest.mark.skipif(not compiles(), reason="needs a C compiler")
def test_some_days_of_the_year_lose_nothing() -> None:
    begins()
    command = [sys.executable, "-m", "bench.year", "--days", "4", "--minutes", "0.2", "--json"]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=2 * GUARD_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # and not kill: it has disks to unmount, and programs to end
            raise
    assert process.returncode == 0, out + err
    document = json.loads(out)
    assert document["right"]
    assert [each["device"] for each in document["balances"]] == list(EDGES)
    assert all(each["acknowledged"] for each in document["balances"])
