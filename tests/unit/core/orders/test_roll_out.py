"""Roll-outs: who is next, and where one ends by itself."""

from __future__ import annotations

import random

import pytest

from covey.core.ids import DeviceKey
from covey.core.orders.roll_out import RollOut, Wave, in_turn
from covey.core.orders.selector import EVERYBODY

_KEYS = [DeviceKey(random.Random(number).randbytes(32)) for number in range(1_000)]


def _plan(*waves: Wave, stop_percent: int = 2) -> RollOut:
    return RollOut(EVERYBODY, waves, stop_percent, 1, 0)


def _sizes(plan: RollOut, total: int) -> list[int]:
    """Return how many devices each wave takes, to the end."""
    given: set[DeviceKey] = set()
    sizes = []
    while found := plan.next_wave(len(given), [key for key in _KEYS[:total] if key not in given]):
        number, wave = found
        assert plan.waves[number - 1].size(total) == len(given) + len(wave)
        given.update(wave)
        sizes.append(len(wave))
    return sizes


@pytest.mark.parametrize(
    ("total", "sizes"),
    [(1_000, [1, 9, 90, 900]), (400, [1, 3, 36, 360]), (40, [1, 3, 36]), (2, [1, 1]), (1, [1])],
)
def test_waves_grow_to_all(total: int, sizes: list[int]) -> None:
    assert _sizes(_plan(Wave(devices=1), Wave(percent=1), Wave(percent=10), Wave(percent=100)), total) == sizes


def test_a_last_wave_of_less_than_all_is_the_last() -> None:
    assert _sizes(_plan(Wave(devices=5), Wave(percent=50)), 100) == [5, 45]


def test_a_last_wave_of_all_takes_later_members() -> None:
    plan = _plan(Wave(percent=100))
    assert plan.next_wave(10, _KEYS[10:12]) == (1, _KEYS[10:12])


def test_it_stops_beyond_a_percentage() -> None:
    plan = _plan(Wave(percent=100), stop_percent=2)
    assert plan.stops(bad=1, given=1)
    assert plan.stops(bad=3, given=100)
    assert not plan.stops(bad=2, given=100)
    assert not _plan(Wave(percent=100), stop_percent=100).stops(bad=7, given=7)


def test_turns_differ_from_one_roll_out_to_another() -> None:
    first, second = in_turn(bytes(16), _KEYS), in_turn(b"another roll-out", _KEYS)
    assert first == in_turn(bytes(16), reversed(_KEYS)) != second
    assert set(first) == set(second)
