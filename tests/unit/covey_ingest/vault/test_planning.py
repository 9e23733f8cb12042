"""How planned work is divided between workers: evenly, and each segment once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.ids import Incarnation
from covey.core.vault.entries import SegmentEntry
from covey_ingest.vault.offsets import Work
from covey_ingest.vault.planning import BYTES_PER_WORKER, Task, shared_out
from covey_ingest.vault.vaults import VaultPlace

PLACE = VaultPlace("vault", Path("vault.key"))


def _task(*sizes: int, node: str = "a", reread: bool = False) -> Task:
    entries = [SegmentEntry(number, Incarnation(bytes(8)), b"", size, 0, 1) for number, size in enumerate(sizes, 1)]
    return PLACE, Work(node, node, tuple(entries), "", 1, len(sizes), reread)


def _numbers(task: Task) -> list[int]:
    return [entry.number for entry in task[1].entries]


def test_one_task_of_many_segments_is_divided_between_two_workers() -> None:
    one, other = shared_out([_task(*[BYTES_PER_WORKER] * 10)], 2)
    assert sorted(map(len, map(_numbers, (*one, *other)))) == [5, 5]


def test_what_is_too_little_for_two_workers_goes_to_one() -> None:
    task = _task(*[BYTES_PER_WORKER // 10] * 10)
    assert shared_out([task], 2) == [(task,)]


def test_what_is_read_again_stays_one_task() -> None:
    """One row says that all of it has been read."""
    task = _task(*[BYTES_PER_WORKER] * 10, reread=True)
    assert shared_out([task], 2) == [(task,)]


def test_news_without_segments_reach_a_worker() -> None:
    news = PLACE, Work("a", None, (), "missing")
    assert shared_out([news], 2) == [(news,)]
    shared = shared_out([news, _task(*[BYTES_PER_WORKER] * 4)], 2)
    assert sum(part.count(news) for part in shared) == 1


@pytest.mark.parametrize("workers", [1, 2, 4])
@given(st.lists(st.lists(st.integers(1, 2 * BYTES_PER_WORKER), min_size=1, max_size=8), max_size=4))
def test_each_segment_goes_to_one_worker(workers: int, sizes: list[list[int]]) -> None:
    planned = [_task(*each, node=str(number)) for number, each in enumerate(sizes)]
    parts = shared_out(planned, workers)
    assert len(parts) <= workers
    shared = [(task[1].node, number) for part in parts for task in part for number in _numbers(task)]
    assert sorted(shared) == sorted((task[1].node, number) for task in planned for number in _numbers(task))
    loads = [sum(entry.size for task in part for entry in task[1].entries) for part in parts]
    largest = max((size for each in sizes for size in each), default=0)
    assert not loads or max(loads) - sum(loads) / workers <= max(2 * largest, BYTES_PER_WORKER * workers)
