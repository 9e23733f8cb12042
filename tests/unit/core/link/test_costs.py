"""`covey.core.link.costs`: what the link costs, by day and month."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.link.costs import CONTROL, KINDS, READINGS, RESENDS, TLS, UNKNOWN, CostLedger, kind_of, month_of
from covey.core.now import Now
from covey.core.wire.message import MessageType

_DAY_S = 86_400
_HOUR_US = 3_600_000_000
_Steps = list[tuple[int, int]]


def at(text: str, monotonic_s: int = 0) -> Now:
    """Return a moment of both clocks."""
    return Now(monotonic_s * 1_000_000, int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000)


def test_every_type_has_a_kind() -> None:
    assert {kind_of(each) for each in MessageType} < set(KINDS)
    assert kind_of(None) == "control"


@given(st.integers(0, 30_000))
def test_months_are_the_calendars(day: int) -> None:
    found = datetime.fromtimestamp(day * _DAY_S, UTC)
    assert month_of(day) == (found.year, found.month)


def test_days_and_months_begin_again() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T23:00"))
    ledger.add({READINGS: 100, TLS: 0})
    ledger.roll(at("2026-11-30T00:00", 3_600))
    ledger.add({RESENDS: 7})
    assert (dict(ledger.today), ledger.bytes_this_month) == ({RESENDS: 7}, 107)
    ledger.roll(at("2026-12-01T00:00", 90_000))
    assert (ledger.bytes_today, ledger.bytes_this_month) == (0, 0)


def test_a_clock_that_is_set_brings_no_fresh_day() -> None:
    ledger = CostLedger()
    ledger.roll(at("1970-01-01T00:10"))
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-11-29T12:00", 60))
    assert (month_of(ledger.day), ledger.bytes_today, ledger.bytes_this_month) == ((2026, 11), 100, 100)
    ledger.roll(at("2026-10-31T12:00", 61))
    assert (month_of(ledger.day), ledger.bytes_today, ledger.bytes_this_month) == ((2026, 10), 100, 100)


@pytest.mark.parametrize(
    "kind", [MessageType.ORDER_RESULT, MessageType.SETTING_REPORT, MessageType.HISTORY_PULL, MessageType.GROUP_MANIFEST]
)
def test_what_orders_and_groups_need_has_one_kind(kind: MessageType) -> None:
    assert kind_of(kind) == CONTROL


def test_a_clock_that_is_set_back_over_midnight_begins_no_day_twice() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T23:00"))
    ledger.roll(at("2026-11-30T00:01", 3_660))
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-11-29T23:58", 3_661))
    ledger.add({READINGS: 10})
    ledger.roll(at("2026-11-30T00:02", 3_901))
    assert ledger.bytes_today == 110


def test_a_clock_that_is_set_between_two_midnights_begins_one_day() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T23:00"))
    ledger.roll(at("2026-11-30T00:01", 3_660))
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-12-02T23:30", 3_720))
    ledger.roll(at("2026-12-03T00:01", 5_580))
    assert ledger.bytes_today == ledger.bytes_this_month == 100
    ledger.roll(at("2026-12-04T00:01", 5_580 + _DAY_S))
    assert ledger.bytes_today == 0


@pytest.mark.parametrize("off_s", [0, 3_600])
def test_a_restart_forgets_no_clock_that_was_set_between_two_midnights(off_s: int) -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T23:00"))
    ledger.roll(at("2026-11-30T00:01", 3_660))
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-12-02T22:30", 3_720))
    after = CostLedger.of_text(ledger.to_text())
    minutes = off_s // 60 + 1
    after.roll(at(f"2026-12-02T{22 + (30 + minutes) // 60}:{(30 + minutes) % 60}", 10))
    after.roll(at("2026-12-03T00:01", 10 + 90 * 60 - off_s))
    assert after.bytes_today == 100
    after.roll(at("2026-12-04T00:01", 10 + 90 * 60 - off_s + _DAY_S))
    assert after.bytes_today == 0


def test_a_device_that_was_off_for_a_day_begins_another_though_its_clock_was_set_before() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T23:00"))
    ledger.roll(at("2026-11-30T00:01", 3_660))
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-11-30T03:00", 3_720))
    after = CostLedger.of_text(ledger.to_text())
    after.roll(at("2026-12-01T03:00", 10))
    assert after.bytes_today == 0


class _WithoutBattery:
    """A machine that runs an hour a day. Its clock says 1970 at each start, until a time server answers."""

    def __init__(self) -> None:
        self.noted = CostLedger().to_text()

    def run(self, day: str, *, spent: int, before: int = 0, answers: bool = True) -> CostLedger:
        """Run an hour of a day; spend something before and after the clock is set."""
        ledger = CostLedger.of_text(self.noted)
        ledger.roll(at("1970-01-01T00:00"))
        ledger.add({TLS: before})
        if answers:
            ledger.roll(at(f"{day}T09:01", 60), synchronised=True)
        ledger.add({READINGS: spent})
        ledger.roll(at(f"{day}T10:00", 3_600) if answers else at("1970-01-01T01:00", 3_600), synchronised=answers)
        self.noted = ledger.to_text()
        return ledger


def test_a_device_without_a_battery_clock_begins_a_day_once_a_time_server_answers() -> None:
    device = _WithoutBattery()
    device.run("2026-11-28", spent=100)
    found = device.run("2026-11-29", spent=70, before=9)
    assert (found.bytes_today, found.bytes_this_month) == (79, 179), "what was spent before it knew counts today"
    found = device.run("2026-11-29", spent=5)
    assert found.bytes_today == 84, "a second start on one day"
    found = device.run("2026-12-01", spent=5, before=9)
    assert (found.bytes_today, found.bytes_this_month, found.granted) == (14, 14, 0)


def test_what_was_spent_while_no_time_server_answered_counts_until_the_next_answer() -> None:
    device = _WithoutBattery()
    device.run("2026-11-28", spent=100)
    assert device.run("", spent=20, answers=False).bytes_today == 120
    assert device.run("2026-11-30", spent=5).bytes_today == 25, "the 20 may be of the same day"


def test_a_midnight_of_a_wrong_clock_is_taken_back_by_a_right_one() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-28T08:00"), synchronised=True)
    ledger.add({READINGS: 100})
    noted = ledger.to_text()
    ledger = CostLedger.of_text(noted)
    ledger.roll(at("2026-11-28T23:59"))
    ledger.roll(at("2026-11-29T00:00", 60))
    assert ledger.bytes_today == 0
    ledger.add({READINGS: 7})
    ledger.roll(at("2026-11-28T09:00", 120), synchronised=True)
    assert ledger.bytes_today == 107


def test_a_time_server_that_jumps_in_one_run_brings_no_fresh_day() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-28T08:00"), synchronised=True)
    ledger.add({READINGS: 100})
    ledger.roll(at("2026-11-29T08:00", 60), synchronised=True)
    assert ledger.bytes_today == 100
    ledger.roll(at("2026-11-30T08:00", 120), synchronised=True)
    ledger.roll(at("2026-11-30T08:01", 180), synchronised=True)
    assert ledger.bytes_today == 100


class _Machine:
    """A machine with a ledger that has seen a synchronised clock, and what each day and month has truly cost."""

    def __init__(self) -> None:
        self.hour = self.began = 24 * 20_785
        self.ledger = CostLedger()
        self.days, self.months = Counter[int](), Counter[tuple[int, int]]()
        self.look(synchronised=True)

    def start(self, off_h: int) -> None:
        """Start again after some hours."""
        self.hour += off_h
        self.began, self.ledger = self.hour, CostLedger.of_text(self.ledger.to_text())

    def look(self, wrong_h: int = 0, *, synchronised: bool) -> None:
        """Look at the clocks; a synchronised one is right, and then nothing may be missing."""
        now = Now((self.hour - self.began) * _HOUR_US, (self.hour + wrong_h) * _HOUR_US)
        self.ledger.roll(now, synchronised=synchronised)
        if synchronised:
            assert self.ledger.bytes_today >= self.days[self.hour // 24]
            assert self.ledger.bytes_this_month >= self.months[month_of(self.hour // 24)]

    def spend(self, amount: int, hours: int) -> None:
        """Spend something, and let hours pass."""
        self.ledger.add({READINGS: amount})
        self.days[self.hour // 24] += amount
        self.months[month_of(self.hour // 24)] += amount
        self.hour += hours


_STEPS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 8)), max_size=4)
_RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(-40, 40), st.booleans(), _STEPS, _STEPS), max_size=12)


@given(_RUNS)
def test_at_a_synchronised_look_a_day_holds_all_that_it_has_cost(
    runs: list[tuple[int, int, bool, _Steps, _Steps]],
) -> None:
    """Whatever the clock says before a time server answers, and however long the machine is off."""
    machine = _Machine()
    for off_h, wrong_h, answers, before, after in runs:
        machine.start(off_h)
        for amount, hours in before:
            machine.look(wrong_h, synchronised=False)
            machine.spend(amount, hours)
        for amount, hours in after if answers else []:
            machine.look(synchronised=True)
            machine.spend(amount, hours)


def test_after_a_power_cut_counting_continues_at_what_was_granted() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-29T12:00"))
    ledger.add({READINGS: 100})
    ledger.granted = 1_000
    noted = ledger.to_text()
    ledger.add({READINGS: 800})
    after = CostLedger.of_text(noted, ended=False)
    assert after.bytes_this_month >= ledger.bytes_this_month
    assert after.month == {READINGS: 100, UNKNOWN: 900}
    assert CostLedger.of_text(noted).month == {READINGS: 100}


def test_a_damaged_note_begins_again() -> None:
    for text in (
        "",
        "[]",
        "nonsense",
        '["x", {}, {}, 0, 0, null, false, 0]',
        '[20000, {"tls": "many"}, {}, 0, 0, 0, true, 0]',
    ):
        assert CostLedger.of_text(text).bytes_this_month == 0


def test_a_forecast_continues_the_month() -> None:
    ledger = CostLedger()
    ledger.roll(at("2026-11-01T00:00"))
    ledger.add({READINGS: 1_000})
    assert ledger.forecast(at("2026-11-01T03:00").wall_us) is None
    assert ledger.forecast(at("2026-11-04T00:00").wall_us) == 10_000
    assert ledger.forecast(at("2026-11-30T23:59").wall_us) in range(1_000, 1_002)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(0, 3 * _DAY_S)), max_size=30))
def test_what_is_counted_adds_up(steps: list[tuple[str, int, int]]) -> None:
    ledger, now_s = CostLedger(), 0
    spent: dict[int, int] = {}
    for kind, size, later_s in steps:
        now_s += later_s
        ledger.roll(Now(now_s * 1_000_000, (20_000 * _DAY_S + now_s) * 1_000_000))
        ledger.add({kind: size})
        spent[ledger.day] = spent.get(ledger.day, 0) + size
        assert ledger.bytes_today == spent[ledger.day]
        assert ledger.bytes_this_month == sum(
            size for day, size in spent.items() if month_of(day) == month_of(ledger.day)
        )
        restored = CostLedger.of_text(ledger.to_text())
        assert (restored.today, restored.month, restored.day) == (ledger.today, ledger.month, ledger.day)
