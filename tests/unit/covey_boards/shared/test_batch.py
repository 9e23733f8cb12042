"""The board's batches: the agent's reader takes them, and a body never exceeds its bound."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from covey.core.telemetry.decoding import read_telemetry
from covey_boards.shared.batch import _BODY_BYTES_MAX as BODY_BYTES_MAX
from covey_boards.shared.batch import _DECIMAL as DECIMAL
from covey_boards.shared.batch import Batch

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
        spread = rng.choice([5, 10**6, 1 << 52])
        value = rng.random() if scale is None else rng.randrange(-spread, spread)
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


def test_a_boards_counter_comes_out_as_it_went_in() -> None:
    batch, taken = Batch(), [0, 2**53 + 1, 2**61 - 1, 1 - 2**61]
    assert all(batch.add("ticks", "", 0, number, 1) for number in taken)
    assert [value for *_, value in read_telemetry(batch.body(1, BOOT_ID, 0, 3, 3))[1].readings()] == taken


@pytest.mark.parametrize(
    ("name", "scale", "value"),
    [
        ("", 0, 1),
        ("x" * 129, 0, 1),
        ("x", 10, 1),
        ("x", 0, 1 << 61),
        ("x", 1, 1 << 53),
        ("x", None, float("nan")),
        ("fine", 0, 21.5),
        ("fine", 0, "21"),
        ("fine", None, "a"),
        ("fine", None, None),
        (b"fine", 0, 1),
        (None, 0, 1),
    ],
)
def test_an_unstorable_value_is_refused(name: Any, scale: int | None, value: Any) -> None:
    batch = Batch()
    assert batch.add("fine", "", DECIMAL, 1, 1)
    assert batch.add("fine", "", None, 1.5, 1)
    with pytest.raises((TypeError, ValueError)):
        batch.add(name, "", scale, value, 2)
    assert batch.count == 2
    assert len(list(read_telemetry(batch.body(1, BOOT_ID, 0, 3, 3))[1].readings())) == 2


class _FullHeap(array):
    """An array that cannot grow: the heap ends between a reading's time and its value."""

    def append(self, _number: object) -> None:
        raise MemoryError


@pytest.mark.parametrize("column", [5, 6])
def test_a_heap_that_ends_in_a_reading_leaves_whole_ones(column: int) -> None:
    batch = Batch()
    assert batch.add("x", "", DECIMAL, 1, 1)
    kept = batch._series[0]
    roomy, kept[column] = kept[column], _FullHeap("q", kept[column])
    with pytest.raises(MemoryError):
        batch.add("x", "", DECIMAL, 2, 2)
    kept[column] = roomy
    assert batch.add("x", "", DECIMAL, 3, 3)
    _, read = read_telemetry(batch.body(1, BOOT_ID, 0, 3, 3))
    assert [(when_us, value) for _, _, when_us, value in read.readings()] == [(1, 1.0), (3, 3.0)]
