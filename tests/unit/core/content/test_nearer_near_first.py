"""How long a device looks for a file nearby before it asks members: bounded, its own, and of many one is first."""

from __future__ import annotations

import random

from covey.core.content.nearer import look_us
from covey.core.ids import ContentHash, DeviceKey
from covey.limits.content import NEAR_LOOK_SPREAD_US, NEAR_LOOK_US


def _looks(seed: int, devices: int) -> list[int]:
    chance = random.Random(seed)
    content = ContentHash(chance.randbytes(32))
    return [look_us(DeviceKey(chance.randbytes(32)), content, has_peers=True) for _ in range(devices)]


def test_it_is_bounded_and_nothing_where_nobody_is_near() -> None:
    looks = [each for seed in range(50) for each in _looks(seed, 10)]
    assert min(looks) >= NEAR_LOOK_US
    assert max(looks) < NEAR_LOOK_US + NEAR_LOOK_SPREAD_US
    assert look_us(DeviceKey(bytes(32)), ContentHash(bytes(32)), has_peers=False) == 0


def test_it_is_the_same_after_a_restart_and_another_one_for_another_file() -> None:
    assert _looks(1, 3) == _looks(1, 3)
    key = DeviceKey(bytes(32))
    assert len({look_us(key, ContentHash(bytes([n] * 32)), has_peers=True) for n in range(100)}) == 100
