"""Messages that a vault holds more than once: landed by two collectors, or imported again.

A message is known by its author, incarnation and `seq`; where these are in the table, also by its boot and number.
Those that are there stand in one small file beside the tables, replaced whole after each micro-batch: `seen_messages`
says what it keeps, which is bounded for each device, however often that begins a new incarnation. A micro-batch is
compared with it by one row for each message, in numpy; no reading is shuffled (but those of messages that it holds
twice). `bench/vault_growth.py` measures it for 100,000 devices, and for boards with 100 incarnations each.

1. What the file does not have is new. What it may have is a repeat if the table has it with the same boot and batch
   number. Else it is late; or another message: of a device whose state was written back bit for bit, which gave a
   number to one collector before, and to another one after.
2. A link that has been forgotten is made anew from the table when it comes back, before anything is compared, and kept.
3. A batch that is committed and not in the file yet is taken in from the table before the next one is compared. So
   tables of an earlier version, or a file that was deleted, need no step of their own.
4. A file whose last batch is not in the table is ahead of it (somebody took a batch away): it is made anew, since
   what it calls a repeat would be lost. So is a file of another form, but for that of earlier versions, which lacks
   columns. What a Delta table has merged is then found in the merged files, which lie beside the folders.
5. The table is asked by its log where it has one: each micro-batch before this one is in there (`Tables.belong_to`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.committed import batch_folder, committed_after, is_committed
from covey_ingest.links import LINK, MessageNumber, Messages, links_of, rows_of
from covey_ingest.seen_messages import SCHEMA, SeenMessages
from covey_ingest.state_file import read_state, replace_state
from covey_ingest.table_files import table_files

_FIRST_COLUMNS = ("author", "incarnation", "unsure_upto", "firsts", "lasts")
"""Those of the file's first form."""

MESSAGE = [*LINK, "seq", "boot", "batch_number"]
"""What no two messages have in common, even of two lives of a device."""

MessageKey: TypeAlias = tuple[str, str, int, str, int]


@dataclass(frozen=True, slots=True)
class Repeats:
    """What of a micro-batch is there more often than once, as rows of `MESSAGE`."""

    known: list[MessageKey]
    """In the table already."""
    doubled: list[MessageKey]
    """Not in the table, but more than once in this micro-batch."""
    copies: int
    """Messages to leave out, in all."""


def path_in(tables: Path) -> Path:
    """Return where the file lies: out of sight of whoever reads the tables."""
    return tables / ".heard" / "heard.parquet"


def update(tables: Path, newest: int | None = None) -> None:
    """Bring the file up to what is committed (rules 3 and 4).

    `newest` is the last micro-batch that is committed, where that is known.
    """
    _brought_up(tables, newest)


def _brought_up(tables: Path, newest: int | None) -> tuple[SeenMessages, int]:
    """Do it, and return what is in the file, and its last micro-batch."""
    rows, last = read_state(path_in(tables), SCHEMA)
    if is_committed(tables, last) and {*_FIRST_COLUMNS} <= {*rows.column_names} <= {*SCHEMA.names}:
        seen = SeenMessages.of(_with_all_columns(rows))
    else:
        seen, last = SeenMessages.of(SCHEMA.empty_table()), -1
        for merged in sorted((tables / "readings").glob("*.parquet")):
            seen = seen.with_messages(_messages(merged), -1)
    missing = committed_after(tables, last, newest)
    for number in missing:
        folder = batch_folder(tables, "readings", number)
        if any(folder.glob("*.parquet")):  # else merged and deleted
            seen = seen.with_messages(_messages(folder), number)
    if missing:
        last = missing[-1]
        replace_state(path_in(tables), seen.to_table(), last)
    return seen, last


def _with_all_columns(rows: pa.Table) -> pa.Table:
    """Return the file's rows with columns that an earlier version lacks."""
    for name, value in (("last_batch", -1), ("forgotten", None)):
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.array([value] * len(rows), SCHEMA.field(name).type))
    return rows.select(SCHEMA.names)


def find(tables: Path, staged: Path, newest: int | None = None) -> Repeats:
    """Compare a staged micro-batch with what the committed ones brought, of which `newest` is the last."""
    messages = _messages(staged)
    seen, last = _brought_up(tables, newest)
    unknown = seen.unknown(messages.links)
    if len(unknown):
        seen = seen.recalled(unknown, _messages_of(tables, unknown), last)
        replace_state(path_in(tables), seen.to_table(), last)
    asked = seen.may_hold(messages)
    suspects = asked | (messages.counts > 1)
    there = Counter(_whole(_dataset(staged), messages.keys(suspects)))
    in_table = set(_whole(_committed(tables), messages.keys(asked))) if asked.any() else set()
    known = sorted(there.keys() & in_table)
    doubled = sorted(key for key, count in there.items() if count > 1 and key not in in_table)
    copies = sum(there[key] for key in known) + sum(there[key] - 1 for key in doubled)
    return Repeats(known, doubled, copies)


def _dataset(files: Path | list[str]) -> ds.Dataset:
    return ds.dataset(files, format=ds.ParquetFileFormat(dictionary_columns=set(LINK)))


def _committed(tables: Path) -> ds.Dataset:
    """Return the table (rule 5)."""
    return _dataset([*map(str, table_files(tables, "readings"))])


def _messages(folder: Path) -> Messages:
    """Return the messages in a folder of readings, by the first reading of each."""
    return Messages.of(_dataset(folder).to_table([*LINK, "seq"], filter=ds.field("index") == 0))


def _messages_of(tables: Path, links: pa.Table) -> Messages:
    """Return all messages of some links that the table has: one scan of four columns."""
    asked = ds.field("index") == 0
    for name in LINK:
        asked &= ds.field(name).isin(pc.unique(links[name]))
    found = _committed(tables).to_table([*LINK, "seq"], filter=asked)
    wanted, owners = links_of(found)
    return Messages.of(found.filter(pa.array(rows_of(links, wanted)[owners] >= 0)))


def _whole(table: ds.Dataset, numbers: list[MessageNumber]) -> list[MessageKey]:
    """Return the messages of a table that have these numbers: one scan of six columns, for what may be repeats."""
    if not numbers:
        return []
    asked = (
        (ds.field("index") == 0)
        & ds.field("author").isin(sorted({author for author, _, _ in numbers}))
        & ds.field("seq").isin(sorted({number for _, _, number in numbers}))
    )
    found = table.to_table(MESSAGE, filter=asked)
    wanted = set(numbers)
    return [key for key in zip(*(found[name].to_pylist() for name in MESSAGE), strict=True) if key[:3] in wanted]
