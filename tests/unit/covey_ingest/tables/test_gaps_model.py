"""What the SQL makes of whole micro-batches comes out as if each number had been judged by itself."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey_ingest.tables import gaps
from covey_ingest.tables.gaps import GRACE
from covey_ingest.task.columns import TIMESTAMP
from tests.examples import parameters
from tests.unit.covey_ingest.tables.gap_model import Fleet, News, gap_rows, take_in

START = datetime(2027, 1, 1, tzinfo=UTC)

MESSAGES = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "incarnation", "collector")),
        ("received_at", TIMESTAMP),
        ("batch_number", pa.int64()),
        ("index", pa.int32()),
    ]
)
LOSSES = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "incarnation", "collector", "reason")),
        ("received_at", TIMESTAMP),
        ("first_number", pa.int64()),
        ("last_number", pa.int64()),
    ]
)

Rows = list[dict[str, Any]]


class _Fleet:
    """Devices that mostly send the next number, and now and then anything else.

    `h` leaves out more than it sends, and `g` brings each time what it has left out the time before.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._next: dict[tuple[str, str], int] = {}
        self._kept: list[dict[str, Any]] = []
        self._left: dict[str, list[int]] = {}

    def batch(self, hour: int) -> tuple[Rows, Rows]:
        chance, messages, losses = self._chance, Rows(), Rows()
        for author in chance.sample("abcdefgh", chance.randrange(1, 9)):
            incarnation = chance.choice("1111112345")
            whose = {"author": author, "incarnation": incarnation, "collector": chance.choice("xy"), "index": 0}
            whose["received_at"] = START + timedelta(hours=hour + chance.randrange(3))
            number = self._next.get((author, incarnation), chance.choice((1, 1, 1, 4)))
            if author == "g":
                brought = [*self._left.get(incarnation, []), number, number + 2, number + 4]
                messages += [whose | {"batch_number": each} for each in brought]
                self._left[incarnation] = [number + 1, number + 3]
                self._next[author, incarnation] = number + 5
                continue
            for _ in range(chance.randrange(20, 30) if author == "h" else chance.randrange(1, 4)):
                if chance.random() < (0.7 if author == "h" else 0.15):
                    number += chance.randrange(1, 3)
                messages.append(whose | {"batch_number": number})
                number += 1
            self._next[author, incarnation] = number
            if chance.random() < 0.1:
                named = {"first_number": max(number - 3, 1), "last_number": number + 1, "reason": "expired"}
                losses.append(whose | named)
        late = [row for row in messages if chance.random() < 0.15]
        messages = [row for row in messages if row not in late]
        messages += [self._kept.pop() for _ in range(len(self._kept) // 3)]
        self._kept += late
        chance.shuffle(messages)
        return messages + messages[:1], losses


def _commit(tables: Path, batch: int, messages: Rows, losses: Rows) -> None:
    for name, rows, schema in (("readings", messages, MESSAGES), ("losses", losses, LOSSES)):
        if rows or name == "readings":
            folder = tables / name / f"batch={batch}"
            folder.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")


def _judge(fleet: Fleet, messages: Rows, losses: Rows) -> None:
    """Take in row by row, everything judged."""
    news: dict[tuple[str, str], News] = {}
    for row in messages + losses:
        one = news.setdefault((row["author"], row["incarnation"]), News(row["collector"], row["received_at"]))
        if row["received_at"] >= one.received_at:
            one.collector, one.received_at = row["collector"], row["received_at"]
        if "batch_number" in row:
            one.numbers.append(row["batch_number"])
        else:
            one.named.append((row["first_number"], row["last_number"], row["reason"]))
    take_in(fleet, news)


def _sorted(rows: Rows) -> Rows:
    whole = [{name: row.get(name) for name in gaps.GAPS.names} for row in rows]
    return sorted(whole, key=lambda row: (row["author"], row["incarnation"], row["first"], row["state"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", parameters(range(4), plain=1))
def test_steady_authors_end_as_if_they_had_been_judged(seed: int, tmp_path: Path) -> None:
    source, fleet = _Fleet(seed), Fleet()
    for batch in range(25):
        messages, losses = source.batch(batch * 3)
        _commit(tmp_path, batch, messages, losses)
        gaps.update(tmp_path)
        _judge(fleet, messages, losses)
        table = pq.read_table(gaps.path_in(tmp_path))
        assert table.schema.remove_metadata() == gaps.GAPS
        assert _sorted(table.to_pylist()) == _sorted(gap_rows(fleet))
        state = pq.read_table(gaps.numbers_in(tmp_path))
        assert state.schema.remove_metadata() == gaps.NUMBERS
        assert {
            (row["author"], row["incarnation"]): (
                row["collector"],
                row["heard_at"],
                (row["floor"], row["forgotten"]),
                [*zip(row["firsts"], row["lasts"], strict=True)],
            )
            for row in state.to_pylist()
        } == {
            (author, incarnation): (one.collector, one.received_at, (one.floor, one.forgotten), one.spans)
            for author, known in fleet.items()
            for incarnation, one in known.items()
        }
    assert timedelta(hours=25 * 3) > GRACE, "some gaps have become unexplained on the way"
    assert any(one.forgotten for one in fleet["h"].values()), "and some incarnations have more than are remembered"


@pytest.mark.slow
def test_a_fleet_goes_on_with_and_without_holes_and_who_is_not_named_stays_as_it_is(tmp_path: Path) -> None:
    for batch in range(3):
        rows = [
            {"author": author, "incarnation": "1", "collector": "x", "batch_number": number, "index": 0}
            | {"received_at": START + timedelta(hours=batch)}
            for author in "abc"
            for number in (3 * batch + 1, 3 * batch + 2)
        ]
        _commit(tmp_path, batch, rows + rows, [])
        gaps.update(tmp_path)
    rows = pq.read_table(gaps.path_in(tmp_path)).to_pylist()
    assert [(row["author"], row["first"], row["last"]) for row in rows] == [(a, n, n) for a in "abc" for n in (3, 6)]
    assert {(row["first_seen_at"] - START).seconds // 3600 for row in rows} == {1, 2}
    assert [row["state"] for row in rows] == ["open", "open"] * 3
    late = {
        "incarnation": "1",
        "collector": "x",
        "batch_number": 3,
        "index": 0,
        "received_at": START + timedelta(days=2),
    }
    _commit(tmp_path, 3, [{"author": author} | late for author in "abc"], [])
    gaps.update(tmp_path)
    rows = pq.read_table(gaps.path_in(tmp_path)).to_pylist()
    assert [row["state"] for row in rows] == ["closed", "unexplained"] * 3
    assert {row["closed_at"] for row in rows} == {late["received_at"], None}
