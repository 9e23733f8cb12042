"""Which messages of a micro-batch are in the table already: exact, bounded, and the same after any kill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.dedup import MESSAGE, MessageKey, find, path_in, update
from covey_ingest.links import Messages
from covey_ingest.seen_messages import EXACT_RANGES, LINKS_REMEMBERED, SCHEMA, SeenMessages
from covey_ingest.state_file import read_state, replace_state

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
    pq.write_table(pa.table(arrays, [*MESSAGE, "index"]), folder / "part-0.parquet")
    return folder


def _commit(tables: Path, batch_id: int, messages: Sequence[Message | MessageKey]) -> None:
    _write(tables / "readings" / f"batch={batch_id}", messages)


def test_a_batch_is_compared_with_all_before_it_and_with_itself(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1), ("a", "x", 2), ("b", "x", 1)])
    staged = [("a", "x", 2), ("a", "x", 3), ("a", "x", 3), ("a", "y", 1), ("b", "x", 1), ("b", "x", 1), ("c", "x", 1)]
    found = find(tmp_path, _write(tmp_path / "staged", staged))
    assert found.known == [_whole(("a", "x", 2)), _whole(("b", "x", 1))]
    assert (found.doubled, found.copies) == ([_whole(("a", "x", 3))], 4)


def test_what_another_life_of_a_device_numbered_alike_is_no_repeat(tmp_path: Path) -> None:
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
    assert not path_in(tmp_path).exists()
    assert find(tmp_path, _write(tmp_path / "first", [("a", "x", 7)])).copies == 0
    assert find(tmp_path, _write(tmp_path / "none", [])).copies == 0


def test_what_is_melted_is_asked_of_the_table_so_late_messages_are_new_and_repeats_are_found(tmp_path: Path) -> None:
    odd = [("a", "x", number) for number in range(1, 8 * EXACT_RANGES, 2)]
    random.Random(5).shuffle(odd)
    _commit(tmp_path, 0, odd[: len(odd) // 2])
    update(tmp_path)
    _commit(tmp_path, 1, odd[len(odd) // 2 :])
    staged = [("a", "x", number) for number in range(1, 8 * EXACT_RANGES)]
    found = find(tmp_path, _write(tmp_path / "staged", staged))
    assert found.known == sorted(map(_whole, odd))
    rows, _ = read_state(path_in(tmp_path), SCHEMA)
    assert rows["unsure_upto"].to_pylist()[0] > 0
    assert len(rows["firsts"].to_pylist()[0]) == EXACT_RANGES


@pytest.mark.slow
def test_a_range_never_forgets_and_is_never_unsure_of_what_it_kept() -> None:
    rng = random.Random(11)
    seen, truth = SeenMessages.of(SCHEMA.empty_table()), {link: set[int]() for link in ("a", "b", "c")}
    for batch in range(150):
        sample = [(link, "x", number) for link in rng.sample("abc", 2) for number in rng.sample(range(1, 900), 4)]
        for link, _, number in sample:
            truth[link].add(number)
        seen = SeenMessages.of(seen.with_messages(_taken(sample), batch).to_table())
        asked = [(link, "x", number) for link in "abc" for number in range(1, 900)]
        everything = _taken(asked)
        rows = {link: row for row, link in enumerate(seen.links["author"].to_pylist())}
        names = everything.links["author"].to_pylist()
        owners = np.array([rows.get(names[owner], -1) for owner in everything.owners.tolist()])
        held = seen.ranges.hold(owners, everything.numbers)
        for owner, name, number, known in zip(owners, everything.owners, everything.numbers, held, strict=True):
            if owner >= 0 and number > seen.unsure_upto[owner]:
                assert known == (number in truth[names[name]])
        assert np.bincount(seen.ranges.owners).max() <= EXACT_RANGES


def _taken(messages: list[Message]) -> Messages:
    return Messages.of(pa.table(list(zip(*messages, strict=True)), ["author", "incarnation", "seq"]))


def test_a_file_of_another_form_is_made_anew(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1), ("a", "x", 3)])
    update(tmp_path)
    expected = path_in(tmp_path).read_bytes()
    replace_state(path_in(tmp_path), pa.table({"author": ["a"], "upto": [9]}), 0)
    update(tmp_path)
    assert path_in(tmp_path).read_bytes() == expected


def test_a_kill_before_the_file_was_replaced_and_a_lost_file_change_nothing(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", "x", 1)])
    update(tmp_path)
    _commit(tmp_path, 1, [("a", "x", 2), ("b", "y", 9)])
    killed = find(tmp_path, _write(tmp_path / "staged", [("a", "x", 2), ("b", "y", 8)]))
    after = path_in(tmp_path).read_bytes()
    assert killed.known == [_whole(("a", "x", 2))]
    update(tmp_path)
    assert path_in(tmp_path).read_bytes() == after
    path_in(tmp_path).unlink()
    update(tmp_path)
    assert path_in(tmp_path).read_bytes() == after


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

    for boot in range(100):
        older = rng.sample(sorted(taken), min(len(taken), 3))
        late = [(board, f"boot {rng.randrange(boot + 1)}", rng.randrange(1, 40)) for board in boards]
        offer(boot, sorted({*older, *late, *((board, f"boot {boot}", seq) for board in boards for seq in (1, 2))}))
    update(tmp_path)
    rows, _ = read_state(path_in(tmp_path), SCHEMA)
    assert len(rows) == len(boards) * (LINKS_REMEMBERED + 1)
    path_in(tmp_path).unlink()
    offer(100, sorted(taken))
    offer(101, [("a", "boot 7", 41), ("a", "boot 100", 1)])


def test_a_file_of_the_first_form_is_read_on(tmp_path: Path) -> None:
    _commit(tmp_path, 0, [("a", f"boot {boot}", 1) for boot in range(3)])
    update(tmp_path)
    rows, last = read_state(path_in(tmp_path), SCHEMA)
    first = rows.append_column("more", rows["firsts"]).drop_columns(["last_batch", "forgotten", "more"])
    marked = first.set_column(2, "unsure_upto", pa.array([5, 0, 0]))
    replace_state(path_in(tmp_path), marked, last)
    _commit(tmp_path, 1, [("a", f"boot {boot}", 1) for boot in range(3, 6)])
    update(tmp_path)
    rows, _ = read_state(path_in(tmp_path), SCHEMA)
    assert len(rows) == LINKS_REMEMBERED + 1, "bounded from now on"
    assert find(tmp_path, _write(tmp_path / "staged", [("a", f"boot {boot}", 1) for boot in range(6)])).copies == 6
