"""No row stands in 1970, and every row says how far its time is to be believed."""

from __future__ import annotations

import numpy as np
import pytest

from covey.core.telemetry.batch import ClockKind, ClockReading
from covey.errors import MalformedError
from covey_ingest.task.time_quality import AHEAD_US, CLOCK_FROM_US, TimeQuality, wall_times, wall_times_together

ARRIVED = 1_800_000_000_000_000
MONOTONIC = 7_000_000_000
TAKEN = np.array([MONOTONIC - 60_000_000, MONOTONIC - 1_000_000])


def _clock(kind: ClockKind, wall_us: int) -> ClockReading:
    return ClockReading(bytes(8), MONOTONIC, wall_us, kind)


@pytest.mark.parametrize(
    ("kind", "quality"),
    [
        (ClockKind.SYNCHRONISED, TimeQuality.SYNCHRONISED),
        (ClockKind.UNSYNCHRONISED, TimeQuality.UNSYNCHRONISED),
    ],
)
def test_a_plausible_wall_clock_is_taken_as_it_is(kind: ClockKind, quality: TimeQuality) -> None:
    wall = ARRIVED - 5_000_000
    times, verdict = wall_times(_clock(kind, wall), TAKEN, ARRIVED)
    assert times.tolist() == [wall - 60_000_000, wall - 1_000_000]
    assert verdict is quality


@pytest.mark.parametrize("wall", [0, 1_000_000, CLOCK_FROM_US - 1, ARRIVED + AHEAD_US + 1, 2**63 - 1])
@pytest.mark.parametrize("kind", [ClockKind.SYNCHRONISED, ClockKind.UNSYNCHRONISED])
def test_an_implausible_wall_clock_gives_way_to_the_arrival(kind: ClockKind, wall: int) -> None:
    times, verdict = wall_times(_clock(kind, wall), TAKEN, ARRIVED)
    assert times.tolist() == [ARRIVED - 60_000_000, ARRIVED - 1_000_000]
    assert verdict is TimeQuality.ARRIVAL


def test_asserted_history_is_kept() -> None:
    asserted = np.array([1_000_000_000_000_000, ARRIVED])
    times, verdict = wall_times(_clock(ClockKind.ASSERTED, 0), asserted, ARRIVED)
    assert times.tolist() == asserted.tolist()
    assert verdict is TimeQuality.ASSERTED


def test_asserted_times_of_a_clock_that_started_in_1970_keep_their_distances() -> None:
    times, verdict = wall_times(_clock(ClockKind.ASSERTED, 90_000_000), np.array([30_000_000, 80_000_000]), ARRIVED)
    assert times.tolist() == [ARRIVED - 60_000_000, ARRIVED - 10_000_000]
    assert verdict is TimeQuality.ARRIVAL


@pytest.mark.parametrize("time", [-(2**62), MONOTONIC + 2 * AHEAD_US, 2**62])
def test_a_time_that_no_anchor_explains_becomes_the_arrival(time: int) -> None:
    for wall in (ARRIVED, 0):
        clock = ClockReading(bytes(8), MONOTONIC, wall, ClockKind.SYNCHRONISED)
        times, verdict = wall_times(clock, np.array([time, MONOTONIC]), ARRIVED)
        assert times.tolist() == [ARRIVED, ARRIVED]
        assert verdict is TimeQuality.ARRIVAL


def test_a_collector_without_a_clock_does_not_judge_the_device() -> None:
    wall = ARRIVED - 5_000_000
    times, verdict = wall_times(_clock(ClockKind.SYNCHRONISED, wall), TAKEN, received_at_us=3_000_000)
    assert times.tolist() == [wall - 60_000_000, wall - 1_000_000]
    assert verdict is TimeQuality.SYNCHRONISED


def test_a_reading_without_any_time_is_refused() -> None:
    with pytest.raises(MalformedError):
        wall_times(_clock(ClockKind.UNSYNCHRONISED, 0), TAKEN, received_at_us=3_000_000)


def test_many_batches_get_together_what_each_gets_alone() -> None:
    rng = np.random.default_rng(3)
    walls = [0, CLOCK_FROM_US - 1, CLOCK_FROM_US, ARRIVED, ARRIVED + AHEAD_US, ARRIVED + AHEAD_US + 1, 2**63 - 1]
    clocks = [
        ClockReading(bytes(8), monotonic, wall, kind)
        for kind in ClockKind
        for wall in walls
        for monotonic in (0, MONOTONIC, 2**63 - 1)
    ]
    for low, high in [(0, MONOTONIC), (ARRIVED - 10**12, ARRIVED), (-(2**62), 2**62)]:
        times = rng.integers(low, high, (len(clocks), 3), np.int64)
        counts = np.array([3] * len(clocks))
        together, qualities = wall_times_together(clocks, times.ravel(), counts, [ARRIVED] * len(clocks))
        corrected = together.reshape(times.shape)
        for row, clock in enumerate(clocks):
            alone, quality = wall_times(clock, times[row], ARRIVED)
            assert (corrected[row].tolist(), qualities[row]) == (alone.tolist(), quality)


def test_one_batch_that_nobody_can_date_refuses_all() -> None:
    clocks = [_clock(ClockKind.SYNCHRONISED, ARRIVED), _clock(ClockKind.UNSYNCHRONISED, 0)]
    with pytest.raises(MalformedError):
        wall_times_together(clocks, np.concatenate([TAKEN, TAKEN]), np.array([len(TAKEN)] * 2), [ARRIVED, 0])
    times, _ = wall_times_together([], np.empty(0, np.int64), np.empty(0, np.int64), [])
    assert times.size == 0
