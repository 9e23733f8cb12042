"""Merging changes the files of a table and never its rows, whatever is killed at whichever step."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from covey_ingest import merging
from covey_ingest.merging import FOLDERS_PER_MERGE, merge
from covey_ingest.schema import TIMESTAMP

_SCHEMA = pa.schema([("author", pa.string()), ("seq", pa.int64()), ("received_at", TIMESTAMP)])


class _KilledError(Exception):
    pass


def _commit(root: Path, table: str, number: int, rows: int, schema: pa.Schema = _SCHEMA) -> None:
    folder = root / table / f"batch={number}"
    folder.mkdir(parents=True)
    noise = random.Random(number)
    content = [
        {"author": noise.randbytes(20).hex(), "seq": number, "received_at": number, "site": "x"} for _ in range(rows)
    ]
    for half in range(2):
        part = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in content[half::2]], schema)
        pq.write_table(part, folder / f"part-{half}.parquet")
    (folder / "_SUCCESS").touch()


def _rows(root: Path, table: str = "readings") -> Counter[tuple[Any, ...]]:
    found = ds.dataset(root / table, schema=_SCHEMA, format="parquet").to_table()
    return Counter(map(tuple, (row.values() for row in found.to_pylist())))


def _numbers(root: Path, table: str = "readings") -> list[int]:
    return sorted(int(folder.name.removeprefix("batch=")) for folder in (root / table).iterdir())


@pytest.mark.slow
def test_folders_stay_few_and_large_ones_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MAGNITUDES", (8_000, 64_000, 256_000))
    monkeypatch.setattr(merging, "FILE_BYTES", 256_000)
    expected: Counter[tuple[Any, ...]] = Counter()
    written, most = 0, 0
    for number in range(300):
        _commit(tmp_path, "readings", number, 200 if number % 9 == 0 else 1)
        expected += _rows_of(tmp_path, number)
        if number % FOLDERS_PER_MERGE == FOLDERS_PER_MERGE - 1:
            before = {*tmp_path.glob("readings/*/merged-*")}
            merge(tmp_path, tmp_path / ".staging")
            written += sum(path.stat().st_size for path in tmp_path.glob("readings/*/merged-*") if path not in before)
            assert _numbers(tmp_path)[-1] == number
        most = max(most, len(_numbers(tmp_path)))
    assert _rows(tmp_path) == expected
    assert most < 80
    assert [path for path in tmp_path.glob("readings/*/merged-*") if path.stat().st_size >= 64_000]
    assert written < 6 * sum(path.stat().st_size for path in tmp_path.glob("readings/*/*.parquet"))
    assert not list((tmp_path / ".staging").iterdir())


def _rows_of(root: Path, number: int) -> Counter[tuple[Any, ...]]:
    found = ds.dataset(root / "readings" / f"batch={number}", schema=_SCHEMA, format="parquet").to_table()
    return Counter(map(tuple, (row.values() for row in found.to_pylist())))


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_whole_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def killed_at(step: int, root: Path, expected: dict[str, Counter[tuple[Any, ...]]]) -> bool:
        steps.clear()

        def look(name: str) -> None:
            steps.append(name)
            assert {table: _rows(root, table) for table in expected} == expected, name
            assert set(_numbers(root, "losses")) <= set(_numbers(root)), name
            if len(steps) == step:
                raise _KilledError

        def wrapped(do: Callable[..., Any]) -> Callable[..., Any]:
            def around(*given: Any, **named: Any) -> Any:
                look(f"before {do.__name__}")
                result = do(*given, **named)
                look(f"after {do.__name__}")
                return result

            return around

        with monkeypatch.context() as patched:
            for name in ("_exchange", "synchronise", "_write"):
                patched.setattr(merging, name, wrapped(getattr(merging, name)))
            try:
                merge(root, root / ".staging")
            except _KilledError:
                return True
        return False

    whole, step = tmp_path / "whole", 0
    for number in range(FOLDERS_PER_MERGE + 1):
        _commit(whole, "readings", number, 3)
        if number % 5 == 1:
            _commit(whole, "losses", number, 2)
    expected = {table: _rows(whole, table) for table in ("readings", "losses")}
    while True:
        step += 1
        root = shutil.copytree(whole, tmp_path / str(step))
        killed = killed_at(step, root, expected)
        assert merge(root, root / ".staging") == 0 or killed
        assert {table: _rows(root, table) for table in expected} == expected
        assert _numbers(root) == [FOLDERS_PER_MERGE - 1, FOLDERS_PER_MERGE]
        if not killed:
            break
    assert step > 12
    assert _numbers(root, "losses") == [FOLDERS_PER_MERGE - 1, FOLDERS_PER_MERGE]


def test_columns_of_any_part_are_kept(tmp_path: Path) -> None:
    for number in range(FOLDERS_PER_MERGE + 1):
        wider = _SCHEMA.append(pa.field("site", pa.string())) if number == 3 else _SCHEMA
        _commit(tmp_path, "readings", number, 2, wider)
    assert merge(tmp_path, tmp_path / ".staging") == FOLDERS_PER_MERGE - 1
    (file,) = tmp_path.glob("readings/*/merged-*.parquet")
    rows = pq.read_table(file, partitioning=None)
    assert rows.schema.field("received_at").type == TIMESTAMP
    assert [row["seq"] for row in rows.to_pylist() if row["site"]] == [3, 3]
    assert rows["seq"].to_pylist() == sorted(rows["seq"].to_pylist())


def test_where_the_file_system_cannot_exchange_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FOLDERS_PER_MERGE + 1):
        _commit(tmp_path, "readings", number, 2)

    def refuse(code: int) -> Callable[..., None]:
        def exchange(*given: Path) -> None:
            raise OSError(code, os.strerror(code))

        return exchange

    monkeypatch.setattr(merging, "_exchange", refuse(errno.EINVAL))
    assert merge(tmp_path, tmp_path / ".staging") == 0
    assert len(_numbers(tmp_path)) == FOLDERS_PER_MERGE + 1
    monkeypatch.setattr(merging, "_exchange", refuse(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        merge(tmp_path, tmp_path / ".staging")
    assert len(_numbers(tmp_path)) == FOLDERS_PER_MERGE + 1


@pytest.mark.slow
def test_outputs_of_commands_are_merged_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is packed to nothing is unpacked a little at a time, and written in row groups of bounded size."""
    monkeypatch.setattr(merging, "_BYTES_PER_GROUP", 1_000_000)
    monkeypatch.setattr(merging, "_ROWS_AT_ONCE", 10)
    for number in range(FOLDERS_PER_MERGE + 1):
        _commit(tmp_path, "readings", number, 1)
        folder = tmp_path / "commands" / f"batch={number}"
        folder.mkdir(parents=True)
        outputs = pa.table({"operation": [f"{number}-{each}" for each in range(20)], "output": [b"x" * 65_536] * 20})
        pq.write_table(outputs, folder / "part-0.parquet", compression="zstd")
    merge(tmp_path, tmp_path / ".staging")
    (merged,) = tmp_path.glob("commands/*/merged-*.parquet")
    footer = pq.read_metadata(merged)
    assert footer.num_rows == 20 * FOLDERS_PER_MERGE
    assert max(footer.row_group(group).num_rows for group in range(footer.num_row_groups)) <= 20
    rows = pq.read_table(tmp_path / "commands", partitioning=None)
    assert len({row["operation"] for row in rows.select(["operation"]).to_pylist()}) == 20 * (FOLDERS_PER_MERGE + 1)
