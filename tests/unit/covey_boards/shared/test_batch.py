"""The board's batches: the agent's reader takes them, and a body never exceeds its bound."""

from __future__ import annotations

import random

import pytest

from covey.core.telemetry.decoding import read_telemetry
from covey_boards.shared.batch import BODY_BYTES_MAX, DECIMAL, Batch

BOOT_ID = b"boot-id!"


@pytest.mark.parametrize("seed", range(200))
def test_a_full_batch_is_read_whole_and_within_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    size_max = rng.choice([200, 480, 1_000, BODY_BYTES_MAX])
    batch = Batch(size_max)
    taken: dict[str, list[tuple[int, float]]] = {}
    time_us = rng.randrange(1 << 40)
    while True:
        time_us += rng.choice([0, 1, 100, 10**6, 10**9])
        kind = rng.randrange(5)
        scale = None if kind == 4 else kind
        reach = rng.choice([5, 10**6, 1 << 52])
        value = rng.random() if scale is None else rng.randrange(-reach, reach)
        if not batch.add(f"n{kind}", "Cel", scale, value, time_us):
            break
        taken.setdefault(f"n{kind}", []).append((time_us, value / 10 ** (scale or 0)))
    body = batch.body(seed + 1, BOOT_ID, 0, time_us, time_us)
    assert len(body) <= size_max
    number, read = read_telemetry(body)
    assert number == seed + 1
    found: dict[str, list[tuple[int, float]]] = {}
    for reading in read.readings():
        name, _, when_us, value = reading
        found.setdefault(name, []).append((when_us, value))
    assert {name: [value for _, value in each] for name, each in found.items()} == {
        name: [value for _, value in each] for name, each in taken.items()
    }


@pytest.mark.parametrize(
    ("name", "scale", "value"),
    [("", 0, 1), ("x" * 129, 0, 1), ("x", 10, 1), ("x", 0, 1 << 53), ("x", None, float("nan"))],
)
def test_what_no_batch_can_hold_is_refused_and_changes_nothing(name: str, scale: int | None, value: float) -> None:
    batch = Batch()
    assert batch.add("fine", "", DECIMAL, 1, 1)
    with pytest.raises(ValueError):  # noqa: PT011 - a board has no more precise words
        batch.add(name, "", scale, value, 2)
    assert batch.count == 1
    assert len(list(read_telemetry(batch.body(1, BOOT_ID, 0, 3, 3))[1].readings())) == 1
