"""Messages that a vault holds more than once: landed by two collectors, or imported again.

A message is known by its author, incarnation and `seq`. What has been heard is one small file beside the tables,
replaced whole after each micro-batch: for each author and incarnation the ranges of `seq` whose readings are in the
table. For 100,000 of them that is 4.8 MB without a hole, 8.4 MB with 4 ranges each, 16 MB with 16, which is the most
(measured, at random ranges). A micro-batch is compared with it by one row for each message; readings are neither
shuffled (but those of messages that it holds twice) nor remembered.

1. Beyond `unsure_upto` the ranges are exact: what is in them is a repeat, what is not is new.
2. More than `EXACT_RANGES` ranges are not kept: the oldest melt into one, and `unsure_upto` is its end. What lies in
   there may be a repeat or late; the table itself is asked. So the file is bounded, and still nothing is lost.
3. A batch that is committed and not in the file yet is taken in from the table before the next one is compared. So
   tables of an earlier version, or a file that was deleted, need no step of their own.
4. A file whose last batch is not in the table is ahead of it (somebody took a batch away): it is made anew, since
   what it calls a repeat would be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from agent.core.sequences import Range, SequenceSet
from spark_ingest.state_file import read_state, replace_state

EXACT_RANGES = 16
"""Holes that a device's other messages and its losses leave in one incarnation, before the oldest are melted."""

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("incarnation", pa.string()),
        ("unsure_upto", pa.int64()),
        ("upto", pa.int64()),
        ("firsts", pa.list_(pa.int64())),
        ("lasts", pa.list_(pa.int64())),
    ]
)

Link = tuple[str, str]
"""Author and incarnation."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The messages of one incarnation that are in the table: surely above `unsure_upto`, at most those below."""

    unsure_upto: int = 0
    sequences: SequenceSet = field(default_factory=SequenceSet)

    def add(self, numbers: Iterable[int]) -> Heard:
        """Return it with more messages, bounded by rule 2."""
        sequences = self.sequences
        for first, last in _runs(numbers):
            sequences = sequences.add(first, last)
        melted = sequences.ranges[:-EXACT_RANGES]
        if not melted:
            return Heard(self.unsure_upto, sequences)
        return Heard(melted[-1][1], SequenceSet(melted[-1][1], sequences.ranges[-EXACT_RANGES:]))


@dataclass(frozen=True, slots=True)
class Repeats:
    """What of a micro-batch is there more often than once, as rows of author, incarnation and `seq`."""

    known: list[tuple[str, str, int]]
    """In the table already."""
    doubled: list[tuple[str, str, int]]
    """Not in the table, but more than once in this micro-batch."""
    copies: int
    """Messages to leave out, in all."""


def path_in(tables: Path) -> Path:
    """Return where the file lies: out of sight of whoever reads the tables."""
    return tables / ".heard" / "heard.parquet"


def update(tables: Path) -> pa.Table:
    """Bring the file up to what is committed (rules 3 and 4), and return its rows."""
    heard, last = read_state(path_in(tables), SCHEMA)
    folders = {int(folder.name.removeprefix("batch=")): folder for folder in (tables / "readings").glob("batch=*")}
    if last not in folders:
        heard, last = SCHEMA.empty_table(), -1
    missing = sorted(number for number in folders if number > last)
    for number in missing:
        heard = _merge(heard, _messages(folders[number]))
    if missing:
        replace_state(path_in(tables), heard, missing[-1])
    return heard


def find(tables: Path, staged: Path) -> Repeats:
    """Compare a staged micro-batch with what the committed ones brought."""
    messages = _messages(staged)
    heard = _heard(update(tables), messages)
    known: list[tuple[str, str, int]] = []
    unsure: list[tuple[str, str, int]] = []
    counts = Counter[tuple[str, str, int]]()
    for (author, incarnation), numbers in messages.items():
        old = heard.get((author, incarnation), Heard())
        for number in numbers:
            counts[author, incarnation, number] += 1
            if number in old.sequences and counts[author, incarnation, number] == 1:
                (known if number > old.unsure_upto else unsure).append((author, incarnation, number))
    known += _in_table(tables, unsure)
    doubled = [key for key, count in counts.items() if count > 1]
    fresh = set(doubled).difference(known)
    return Repeats(known, sorted(fresh), sum(counts[key] for key in known) + sum(counts[key] - 1 for key in fresh))


def _messages(folder: Path) -> dict[Link, list[int]]:
    """Return the messages in a folder of readings, by the first reading of each."""
    parquet = ds.ParquetFileFormat(dictionary_columns={"author", "incarnation"})
    first = ds.dataset(folder, format=parquet).to_table(["author", "incarnation", "seq"], filter=ds.field("index") == 0)
    return _by_link(first)


def _by_link(messages: pa.Table) -> dict[Link, list[int]]:
    text = pa.schema([("author", pa.string()), ("incarnation", pa.string()), ("seq", pa.int64())])
    grouped = messages.cast(text).group_by(["author", "incarnation"]).aggregate([("seq", "list")])
    return {(row["author"], row["incarnation"]): row["seq_list"] for row in grouped.to_pylist()}


def _in_table(tables: Path, unsure: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Return those messages that the table holds: one scan of four columns, for late data in melted ranges only."""
    if not unsure:
        return []
    asked = (
        (ds.field("index") == 0)
        & ds.field("author").isin(sorted({author for author, _, _ in unsure}))
        & ds.field("seq").isin(sorted({number for _, _, number in unsure}))
    )
    columns = ["author", "incarnation", "seq"]
    found = ds.dataset(tables / "readings", format="parquet").to_table(columns, filter=asked)
    there = set(zip(*(found[name].to_pylist() for name in columns), strict=True))
    return [key for key in unsure if key in there]


def _heard(table: pa.Table, messages: dict[Link, list[int]]) -> dict[Link, Heard]:
    return {
        (row["author"], row["incarnation"]): Heard(
            row["unsure_upto"],
            SequenceSet(row["upto"], tuple(zip(row["firsts"], row["lasts"], strict=True))),
        )
        for row in table.filter(_named(table, messages)).to_pylist()
    }


def _named(table: pa.Table, messages: dict[Link, list[int]]) -> pa.ChunkedArray:
    authors = pa.array(sorted({author for author, _ in messages}), pa.string())
    return pc.is_in(table["author"], value_set=authors)


def _merge(before: pa.Table, messages: dict[Link, list[int]]) -> pa.Table:
    """Return the table after a batch; authors that the batch does not name are carried over untouched."""
    heard = _heard(before, messages)
    for link, numbers in messages.items():
        heard[link] = heard.get(link, Heard()).add(numbers)
    rows = [
        {
            "author": author,
            "incarnation": incarnation,
            "unsure_upto": each.unsure_upto,
            "upto": each.sequences.upto,
            "firsts": [first for first, _ in each.sequences.ranges],
            "lasts": [last for _, last in each.sequences.ranges],
        }
        for (author, incarnation), each in heard.items()
    ]
    others = before.filter(pc.invert(_named(before, messages)))
    return pa.concat_tables([others.cast(SCHEMA), pa.Table.from_pylist(rows, SCHEMA)]).sort_by("author")


def _runs(numbers: Iterable[int]) -> list[Range]:
    """Return the runs of consecutive numbers, ascending."""
    runs: list[Range] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
