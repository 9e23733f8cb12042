"""`covey.core.link.connect_windows`: when a device on a metered link connects."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.ids import DeviceKey
from covey.core.link.connect_windows import ConnectSchedule, ConnectWindows, connect_schedule
from covey.core.now import Now
from covey.errors import ConfigurationError
from covey.limits.link import AT_SPREAD_US, WINDOW_ANSWER_US, WINDOW_QUIET_US

SECOND_US, HOUR_US, DAY_US = 1_000_000, 3_600_000_000, 86_400_000_000
FIRST, LAST = DeviceKey(bytes(32)), DeviceKey(b"\xff" * 32)
MIDNIGHT_US = 20_000 * DAY_US


def at(monotonic_us: int, wall_us: int = MIDNIGHT_US) -> Now:
    """Return a moment of a clock that says `wall_us` at boot."""
    return Now(monotonic_us, wall_us + monotonic_us)


def quiet(windows: ConnectWindows, now: Now) -> bool:
    """Turn without anything to wait for."""
    return windows.turn(now, awaits_answer=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 10m", ConnectSchedule(600_000_000)),
        ("every 1h", ConnectSchedule(HOUR_US)),
        ("every 7d", ConnectSchedule(7 * DAY_US)),
        ("at 02:00", ConnectSchedule(DAY_US, 2 * HOUR_US)),
        ("at 23:59", ConnectSchedule(DAY_US, DAY_US - 60_000_000)),
        ("always", None),
    ],
)
def test_schedules(text: str, expected: ConnectSchedule | None) -> None:
    assert connect_schedule(text) == expected


@pytest.mark.parametrize("text", ["", "never", "every 9m", "every 8d", "every 0h", "every -1h", "at 24:00", "at 2:00"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        connect_schedule(text)


def test_a_quiet_window_closes_and_the_next_one_opens_an_interval_later() -> None:
    windows = ConnectWindows(ConnectSchedule(HOUR_US), LAST, at(0))
    assert quiet(windows, at(WINDOW_QUIET_US - 1))
    assert not quiet(windows, at(WINDOW_QUIET_US))
    opens_us = windows.next_us(at(WINDOW_QUIET_US))
    assert not quiet(windows, at(opens_us - 1))
    assert quiet(windows, at(opens_us))
    assert windows.next_us(at(opens_us)) == opens_us + HOUR_US


def test_an_awaited_answer_and_traffic_keep_a_window_open() -> None:
    windows = ConnectWindows(ConnectSchedule(HOUR_US), FIRST, at(0))
    assert windows.turn(at(WINDOW_QUIET_US), awaits_answer=True)
    windows.moved(at(20 * SECOND_US))
    assert quiet(windows, at(20 * SECOND_US + WINDOW_QUIET_US - 1))
    assert not windows.turn(at(20 * SECOND_US + WINDOW_ANSWER_US), awaits_answer=True)


def test_a_busy_link_does_not_stay_open_forever() -> None:
    windows = ConnectWindows(ConnectSchedule(HOUR_US), FIRST, at(0))
    for second in range(0, 1_800, 5):
        windows.moved(at(second * SECOND_US))
        assert quiet(windows, at(second * SECOND_US))
    windows.moved(at(HOUR_US // 2))
    assert not quiet(windows, at(HOUR_US // 2))


def test_what_needs_a_connection_opens_a_window_and_holds_it() -> None:
    windows = ConnectWindows(ConnectSchedule(HOUR_US), FIRST, at(0))
    assert not quiet(windows, at(WINDOW_QUIET_US))
    later = at(600 * SECOND_US)
    assert windows.turn(later, awaits_answer=False, busy=True)
    assert windows.turn(at(700 * SECOND_US), awaits_answer=False, busy=True)
    assert not quiet(windows, at(700 * SECOND_US))


def test_a_thousand_devices_that_start_together_spread_over_half_of_the_interval() -> None:
    devices = [DeviceKey(number.to_bytes(4, "big") + bytes(28)) for number in range(0, 2**32, 2**32 // 1_000)]
    every = sorted(ConnectWindows(ConnectSchedule(HOUR_US), each, at(0)).next_us(at(0)) for each in devices)
    assert every[0] >= HOUR_US // 2
    assert every[-1] <= HOUR_US
    assert all(after - before >= SECOND_US for before, after in itertools.pairwise(every))
    daily = [ConnectWindows(ConnectSchedule(DAY_US, 2 * HOUR_US), each, at(0)).next_us(at(0)) for each in devices]
    assert (min(daily), max(daily) < 2 * HOUR_US + AT_SPREAD_US) == (2 * HOUR_US, True)


def test_at_a_time_of_day() -> None:
    schedule = ConnectSchedule(DAY_US, 2 * HOUR_US)
    windows = ConnectWindows(schedule, FIRST, at(0))
    assert not quiet(windows, at(HOUR_US))
    assert quiet(windows, at(2 * HOUR_US))
    assert not quiet(windows, at(3 * HOUR_US))
    assert windows.next_us(at(3 * HOUR_US)) == DAY_US + 2 * HOUR_US


def test_a_corrected_clock_counts_at_once_and_one_that_is_set_back_repeats_no_window() -> None:
    windows = ConnectWindows(ConnectSchedule(DAY_US, 2 * HOUR_US), FIRST, at(0))
    quiet(windows, at(WINDOW_QUIET_US))
    wrong_us = MIDNIGHT_US + 20 * HOUR_US  # what the clock said at boot turns out to be 20 hours later
    assert windows.next_us(at(HOUR_US, wrong_us)) == 6 * HOUR_US
    assert quiet(windows, at(6 * HOUR_US, wrong_us))
    quiet(windows, at(6 * HOUR_US + WINDOW_QUIET_US, wrong_us))
    back = Now(6 * HOUR_US + 2 * WINDOW_QUIET_US, wrong_us + 6 * HOUR_US - 10 * SECOND_US)
    assert windows.next_us(back) - back.monotonic_us > DAY_US - HOUR_US


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**50),
    st.sampled_from(["every 10m", "every 1h", "every 3d", "at 00:00", "at 02:00", "at 23:59"]),
    st.lists(st.tuples(st.integers(0, 2 * DAY_US), st.integers(0, 2**50)), min_size=1, max_size=20),
)
def test_whatever_the_clock_says_the_next_window_comes_in_time(
    device: bytes, wall_us: int, text: str, looks: list[tuple[int, int]]
) -> None:
    schedule = connect_schedule(text)
    assert schedule is not None
    windows, now_us = ConnectWindows(schedule, DeviceKey(device), Now(0, wall_us)), 0
    opened_us = 0
    for later_us, wall_now_us in looks:
        now_us += later_us
        now = Now(now_us, wall_now_us)
        was_open = windows.is_open
        due = windows.next_us(now)
        assert due <= opened_us + schedule.longest_us
        if quiet(windows, now) and not was_open:
            assert now_us >= due
            opened_us = now_us
