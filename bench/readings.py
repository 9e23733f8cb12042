"""The same readings for everybody: ten sensors at 1 Hz that walk slowly, as real ones do."""

from __future__ import annotations

import random
from collections.abc import Iterator

SENSORS = 10
START_US = 1_790_000_000_000_000

Reading = tuple[str, str, int, float]
"""(name, unit, time in microseconds, value)."""


def readings(count: int, seed: int = 1) -> Iterator[Reading]:
    """Yield readings in order of time; values have two decimals, times jitter by a millisecond."""
    dice = random.Random(seed)
    values = [20.0 + sensor for sensor in range(SENSORS)]
    for number in range(count):
        sensor = number % SENSORS
        values[sensor] = round(values[sensor] + dice.gauss(0, 0.05), 2)
        time_us = START_US + number // SENSORS * 1_000_000 + dice.randrange(1000)
        yield f"sensor/{sensor}", "Cel", time_us, values[sensor]
