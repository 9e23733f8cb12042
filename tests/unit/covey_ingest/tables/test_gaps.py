"""Which telemetry numbers are missing, why, since when; against sets that are kept whole, and within bounds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.tables.gaps import (
    CLOSED_REMEMBERED,
    GAPS,
    INCARNATIONS_REMEMBERED,
    LOSSES,
    NUMBERS,
    RANGES_REMEMBERED,
    numbers_in,
    open_gaps,
    path_in,
    taken_in,
    update,
)
from covey_ingest.tables.messages import MESSAGES
from covey_ingest.task.columns import TIMESTAMP
from tests.examples import parameters

START = datetime(2027, 1, 1, tzinfo=UTC)
FIRST, SECOND = "a1", "b2"

Named = tuple[int, int, str]


class Fleet:
    """State and table, in memory."""

    def __init__(self) -> None:
        self.numbers, self.rows = NUMBERS.empty_table(), GAPS.empty_table()


def _take(
    fleet: Fleet, numbers: list[int], named: list[Named] | None = None, *, hour: int = 0, incarnation: str = FIRST
) -> None:
    received = START + timedelta(hours=hour)
    whose = {"author": "author", "incarnation": incarnation, "collector": "collector", "received_at": received}
    messages = pa.Table.from_pylist([whose | {"batch_number": number} for number in numbers], MESSAGES)
    lost = [whose | {"first_number": low, "last_number": high, "reason": why} for low, high, why in named or ()]
    losses = pa.Table.from_pylist(lost, LOSSES)
    fleet.numbers, fleet.rows, _ = taken_in(fleet.numbers, fleet.rows, [messages], losses)


def _spans(fleet: Fleet) -> list[tuple[Any, ...]]:
    return [(row["first"], row["last"], row["state"], row["reason"]) for row in fleet.rows.to_pylist()]


@pytest.mark.slow
def test_a_gap_is_open_then_unexplained_then_closed_by_late_data() -> None:
    fleet = Fleet()
    _take(fleet, [1, 2, 6])
    assert _spans(fleet) == [(3, 5, "open", None)]
    _take(fleet, [7], hour=24)
    assert _spans(fleet) == [(3, 5, "unexplained", None)]
    _take(fleet, [4], hour=25)
    assert _spans(fleet) == [(3, 3, "unexplained", None), (5, 5, "unexplained", None)]
    _take(fleet, [3, 5], hour=26)
    assert _spans(fleet) == [(3, 3, "closed", None), (5, 5, "closed", None)]
    assert {row["closed_at"] for row in fleet.rows.to_pylist()} == {START + timedelta(hours=26)}
    assert {row["first_seen_at"] for row in fleet.rows.to_pylist()} == {START}


def test_two_reasons_that_reach_beyond_a_hole_make_no_gap_of_nothing() -> None:
    fleet = Fleet()
    _take(fleet, [1, 2, 4], [(1, 4, "expired"), (2, 5, "outbox_full")])
    assert _spans(fleet) == [(3, 3, "lost", "expired"), (5, 5, "lost", "outbox_full")]


def test_a_loss_record_gives_the_reason_and_what_comes_all_the_same_has_come() -> None:
    fleet = Fleet()
    _take(fleet, [1, 10], [(3, 5, "expired"), (12, 13, "outbox_full")])
    expected = [(2, 2, "open", None), (3, 5, "lost", "expired"), (6, 9, "open", None)]
    assert _spans(fleet) == [*expected, (11, 11, "open", None), (12, 13, "lost", "outbox_full")]
    _take(fleet, [2, 4, 6, 7, 8, 9, 11, 12])
    assert [each for each in _spans(fleet) if each[2] != "closed"] == [
        (3, 3, "lost", "expired"),
        (5, 5, "lost", "expired"),
        (13, 13, "lost", "outbox_full"),
    ]


@pytest.mark.slow
def test_an_incarnation_counts_on_and_a_boards_begins_again() -> None:
    fleet = Fleet()
    _take(fleet, [1, 2, 3])
    _take(fleet, [6, 7], incarnation=SECOND)
    assert _spans(fleet) == [(4, 5, "open", None)]
    _take(fleet, [4, 5])
    assert _spans(fleet) == [(4, 5, "closed", None)], "late data of the first incarnation, in the row of the second"
    board = Fleet()
    _take(board, [1, 2, 3])
    _take(board, [1, 3], incarnation=SECOND)
    assert [(row["incarnation"], row["first"], row["last"]) for row in board.rows.to_pylist()] == [(SECOND, 2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", parameters(range(8), plain=1))
def test_gaps_are_what_a_whole_set_lacks(seed: int) -> None:
    chance = random.Random(seed)
    fleet = Fleet()
    came: set[int] = set()
    lost: set[int] = set()
    for _ in range(12):
        numbers = chance.sample(range(1, 80), chance.randrange(1, 12))
        first = chance.randrange(1, 80)
        named = [(first, first + chance.randrange(4), "expired")] if chance.random() < 0.5 else []
        came.update(numbers)
        lost.update(number for low, high, _ in named for number in range(low, high + 1))
        for _ in range(2):  # a batch that is taken in twice changes nothing
            _take(fleet, numbers, named)
        found: dict[str, set[int]] = {"lost": set(), "open": set(), "closed": set()}
        for low, high, state, _ in _spans(fleet):
            assert state == "closed" or not found[state] & {*range(low, high + 1)}
            found[state].update(range(low, high + 1))
        assert found["lost"] == lost - came
        assert found["open"] == {*range(1, max(came | lost))} - came - lost


@pytest.mark.slow
def test_a_hostile_author_cannot_make_many_rows() -> None:
    fleet = Fleet()
    for batch in range(4):
        _take(fleet, [*range(1 + 1_000 * batch, 1_001 + 1_000 * batch, 2)])
    rows = fleet.rows.to_pylist()
    assert len(rows) <= RANGES_REMEMBERED + CLOSED_REMEMBERED + 1
    assert (rows[0]["state"], sum(row["numbers"] for row in rows)) == ("forgotten", 1_999)
    assert len(fleet.numbers["firsts"][0]) <= RANGES_REMEMBERED + 1
    _take(fleet, [2**62], [(2**62 + 2, 2**63 - 1, "expired")])
    assert len(fleet.rows.to_pylist()) <= RANGES_REMEMBERED + CLOSED_REMEMBERED + 1
    for many in (range(50), range(50, 100)):
        whose = {"author": "author", "collector": "collector", "batch_number": 1}
        began = [
            whose | {"incarnation": f"{each:04}", "received_at": START + timedelta(hours=1 + each)} for each in many
        ]
        messages = pa.Table.from_pylist(began, MESSAGES)
        fleet.numbers, fleet.rows, _ = taken_in(fleet.numbers, fleet.rows, [messages], LOSSES.empty_table())
    assert len(fleet.numbers) == INCARNATIONS_REMEMBERED


def _commit(tables: Path, batch: int, numbers: list[int], lost: tuple[int, int] | None = None) -> None:
    whose = {"author": "ab" * 32, "incarnation": FIRST, "collector": "c", "received_at": START + timedelta(hours=batch)}
    rows = [whose | {"index": index, "batch_number": number} for number in numbers for index in (0, 1)]
    tables_of = {"readings": rows}
    if lost:
        tables_of["losses"] = [
            whose | {"first_number": lost[0], "last_number": lost[1], "reason": "expired"},
            whose | {"first_number": None, "last_number": None, "reason": "expired"},
        ]
    for name, found in tables_of.items():
        folder = tables / name / f"batch={batch}"
        folder.mkdir(parents=True)
        table = pa.Table.from_pylist(found)
        column = table.schema.get_field_index("received_at")
        pq.write_table(
            table.set_column(column, "received_at", table["received_at"].cast(TIMESTAMP)), folder / "part.parquet"
        )


@pytest.mark.slow
def test_the_files_follow_the_committed_batches_and_a_replay_changes_nothing(tmp_path: Path) -> None:
    def rows_now() -> list[tuple[Any, ...]]:
        rows = pq.read_table(path_in(tmp_path)).to_pylist()
        return [(row["first"], row["last"], row["state"], row["reason"], row["first_seen_at"]) for row in rows]

    _commit(tmp_path, 0, [1, 4, 8], (5, 6))
    update(tmp_path)
    expected = [(2, 3, "open", None, START), (5, 6, "lost", "expired", START), (7, 7, "open", None, START)]
    assert rows_now() == expected
    before = numbers_in(tmp_path).read_bytes()
    _commit(tmp_path, 1, [2, 3])
    readings = next((tmp_path / "readings" / "batch=1").iterdir())
    empty = tmp_path / "readings" / "batch=2" / "part.parquet"  # all of it was in quarantine
    empty.parent.mkdir()
    pq.write_table(pq.read_table(readings, partitioning=None).slice(0, 0), empty)
    update(tmp_path)
    assert open_gaps(tmp_path).to_pylist() == [{"author": "ab" * 32, "numbers_sum": 1}]
    after = rows_now()
    assert after == [(2, 3, "closed", None, START), *expected[1:]]
    numbers_in(tmp_path).write_bytes(before)  # killed between the two files
    update(tmp_path)
    assert rows_now() == after
    numbers_in(tmp_path).unlink()  # made anew from the tables
    update(tmp_path)
    assert rows_now() == after
