"""Which messages of a micro-batch are in the table already: exact, bounded, and the same after any kill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables import dedup, standing
from covey_ingest.tables.dedup import MessageKey, Repeats
from covey_ingest.tables.gaps import INCARNATIONS_REMEMBERED, RANGES_REMEMBERED, numbers_in, update
from covey_ingest.tables.messages import MESSAGE, messages_in
from covey_ingest.task.columns import TIMESTAMP
from tests.delta_files import log_file

Message = tuple[str, str, int]


def _whole(message: Message, boot: str = "first", number: int | None = None) -> MessageKey:
    return (*message[:3], boot, message[2] if number is None else number)


def _write(folder: Path, messages: Sequence[Message | MessageKey]) -> Path:
    """Write readings, two for each message, as the ingest does; one without a boot is of the first one."""
    whole = [message if len(message) > 3 else _whole(message) for message in messages]
    rows = [(*message, index) for message in whole for index in (0, 1)]
    folder.mkdir(parents=True)
    columns = list(zip(*rows, strict=True)) or [()] * 6
    kinds = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.int32()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    name, _, number = folder.name.partition("=")
    received = pa.array([int(number) if name == "batch" else 0] * len(rows)).cast(TIMESTAMP)
    collectors = pa.array(["collector"] * len(rows), pa.string())
    clock = pa.nulls(len(rows), pa.string()), pa.nulls(len(rows), pa.int64())
    names = [*MESSAGE, "index", "received_at", "collector", "time_quality", "clock_offset"]
    pq.write_table(pa.table([*arrays, received, collectors, *clock], names), folder / "part-0.parquet")
    return folder


def find(tables: Path, staged: Path, newest: int | None = None) -> Repeats:
    return dedup.find(tables, messages_in(staged), newest)


def _commit(tables: Path, batch_id: int, messages: Sequence[Message | MessageKey]) -> None:
    folder = _write(tables / "readings" / f"batch={batch_id}", messages)
    log_file(tables, "readings", folder / "part-0.parquet")
    standing.lies_at(tables, str(tables))


def test_a_batch_is_compared_with_all_before_it_and_with_itself(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1), ("a", "x", 2), ("b", "x", 1)])
    staged = [("a", "x", 2), ("a", "x", 3), ("a", "x", 3), ("a", "y", 1), ("b", "x", 1), ("b", "x", 1), ("c", "x", 1)]
    found = find(tmp_path, _write(tmp_path / "staged", staged))
    assert found.known == [_whole(("a", "x", 2)), _whole(("b", "x", 1))]
    assert (found.doubled, found.copies) == ([_whole(("a", "x", 3))], 4)


@pytest.mark.slow
def test_another_incarnations_same_numbers_are_no_repeats(tmp_path: Path) -> None:
    lost, new, later = (_whole(("a", "x", 7), boot, number) for boot, number in (("1", 3), ("2", 3), ("2", 4)))
    _commit(tmp_path, 0, [lost])
    found = find(tmp_path, _write(tmp_path / "new", [new, lost]))
    assert (found.known, found.doubled, found.copies) == ([lost], [], 1)
    assert find(tmp_path, _write(tmp_path / "both", [new, later])).copies == 0, "and not among themselves"
    _commit(tmp_path, 1, [new])
    found = find(tmp_path, _write(tmp_path / "known", [new, lost, later, later]))
    assert (found.known, found.doubled, found.copies) == ([lost, new], [later], 3)


def test_an_empty_table_and_an_empty_batch_repeat_nothing(tmp_path: Path) -> None:
    update(tmp_path)
    assert not numbers_in(tmp_path).exists()
    assert find(tmp_path, _write(tmp_path / "first", [("a", "x", 7)])).copies == 0
    assert find(tmp_path, _write(tmp_path / "none", [])).copies == 0


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.5, 0.95])
def test_forgotten_numbers_are_looked_up_in_the_table(tmp_path: Path, chance: float) -> None:
    rng = random.Random(5)
    taken = [("a", "x", number) for number in range(1, 8 * RANGES_REMEMBERED) if rng.random() < chance]
    rng.shuffle(taken)
    _commit(tmp_path, 0, taken[: len(taken) // 2])
    update(tmp_path)
    _commit(tmp_path, 1, taken[len(taken) // 2 :])
    staged = [("a", "x", number) for number in range(1, 8 * RANGES_REMEMBERED)]
    found = find(tmp_path, _write(tmp_path / "staged", staged))
    assert found.known == sorted(map(_whole, taken))
    rows, _ = read_state(numbers_in(tmp_path), pa.schema([]))
    assert rows["floor"].to_pylist()[0] > 0
    assert len(rows["firsts"].to_pylist()[0]) <= RANGES_REMEMBERED + 1


@pytest.mark.slow
def test_numbers_ahead_of_the_table_are_rebuilt(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1), ("a", "x", 3)])
    update(tmp_path)
    expected = numbers_in(tmp_path).read_bytes()
    rows, _ = read_state(numbers_in(tmp_path), pa.schema([]))
    replace_state(numbers_in(tmp_path), rows.set_column(7, "lasts", pa.array([[9, 9]])), 5)
    update(tmp_path)
    assert numbers_in(tmp_path).read_bytes() == expected


@pytest.mark.slow
def test_a_kill_before_the_file_was_replaced_and_a_lost_file_change_nothing(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1)])
    update(tmp_path)
    _commit(tmp_path, 1, [("a", "x", 2), ("b", "y", 9)])
    killed = find(tmp_path, _write(tmp_path / "staged", [("a", "x", 2), ("b", "y", 8)]))
    after = numbers_in(tmp_path).read_bytes()
    assert killed.known == [_whole(("a", "x", 2))]
    update(tmp_path)
    assert numbers_in(tmp_path).read_bytes() == after
    numbers_in(tmp_path).unlink()
    update(tmp_path)
    assert numbers_in(tmp_path).read_bytes() == after


@pytest.mark.slow
def test_a_board_that_restarts_a_hundred_times_is_remembered_in_bounds_and_nothing_is_let_in_twice(
    tmp_path: Path,
) -> None:
    rng, taken, boards = random.Random(3), set[Message](), ("a", "b", "c")

    def offer(number: int, messages: list[Message]) -> None:
        found = find(tmp_path, _write(tmp_path / f"staged-{number}", messages), number - 1)
        assert set(found.known) == {_whole(message) for message in messages if message in taken}
        new = [message for message in messages if message not in taken]
        assert found.copies == len(messages) - len(new)
        _commit(tmp_path, number, new)
        taken.update(new)
        if rng.random() < 0.8:  # else killed before
            update(tmp_path, number)

    for step in range(10):
        older = rng.sample(sorted(taken), min(len(taken), 3))
        starts = range(10 * step, 10 * step + 10)
        late = [(board, f"boot {rng.randrange(starts.stop)}", rng.randrange(1, 40)) for board in boards]
        fresh = [(board, f"boot {boot}", seq) for board in boards for boot in starts for seq in (1, 2)]
        offer(step, sorted({*older, *late, *fresh}))
    update(tmp_path)
    rows, _ = read_state(numbers_in(tmp_path), pa.schema([]))
    assert len(rows) == len(boards) * INCARNATIONS_REMEMBERED
    filters, _ = read_state(_forgotten(tmp_path), pa.schema([]))
    assert sorted(filters["author"].to_pylist()) == [*boards]
    numbers_in(tmp_path).unlink()
    offer(10, sorted(taken))
    offer(11, [("a", "boot 7", 41), ("a", "boot 100", 1)])


def _forgotten(tables: Path) -> Path:
    return numbers_in(tables).with_name("forgotten.parquet")
