"""The `gaps` table: telemetry numbers that are missing, with the reason that their author signed, or none.

    gaps/gaps.parquet          one row for each gap, replaced whole
    .numbers/numbers.parquet   the numbers that came, by author and incarnation: the state behind it

Numbers count an author's batches (docs/protocol.md, "Telemetry"), through its incarnations; a board's begin at 1 in
each. State of a gap:

    lost         a loss record names it: `reason` is the author's
    open         nobody names it, and late data or another collector may still bring it
    unexplained  nobody has named it for `GRACE`, by the arrivals that the tables have seen
    closed       late data filled it; the newest `CLOSED_REMEMBERED` of an incarnation
    forgotten    holes beyond `RANGES_REMEMBERED`: how many numbers the oldest of them lacked, and no more than that

1. Below an incarnation's lowest number, a gap reaches down to the highest number that another incarnation of the author
   had: an incarnation counts on. Where a board's incarnations overlap, the first numbers of a later one are not shown.
2. A number that came has come, whatever a loss record says of it.
3. Both files carry the last micro-batch in them, and a batch taken in twice changes nothing. `gaps` is replaced first.
4. An author has `INCARNATIONS_REMEMBERED` of them, those of which a message came last. So an author makes at most as
   many rows as these bounds allow, whatever it sends.
5. Nothing is shuffled: of readings, the first of each message is looked at, five columns of it.
6. A state that is lost is made anew, folder by folder. Where a Delta table has merged files, nobody knows any more what
   came in which micro-batch: all files are counted before the first gap is judged, and no gap is shown as closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey.core.wire.sequences import Range, SequenceSet
from covey_ingest.committed import batch_folder, committed_after
from covey_ingest.gap_columns import CLOSED_REMEMBERED, RANGES_REMEMBERED
from covey_ingest.gap_fast_path import recount, take_fast_path
from covey_ingest.links import rows_of
from covey_ingest.schema import TIMESTAMP
from covey_ingest.state_file import read_state, replace_state

GRACE = timedelta(days=1)
"""How long late data, or another collector, may still bring what is missing."""

INCARNATIONS_REMEMBERED = 16

GAPS = pa.schema(
    [
        ("author", pa.string()),
        ("device", pa.string()),
        ("incarnation", pa.string()),
        ("collector", pa.string()),  # that the incarnation's last message came through
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("numbers", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("first_seen_at", TIMESTAMP),
        ("closed_at", TIMESTAMP),
    ]
)
NUMBERS = pa.schema(
    [
        ("author", pa.string()),
        ("incarnation", pa.string()),
        ("collector", pa.string()),
        ("heard_at", TIMESTAMP),
        ("floor", pa.int64()),  # up to here no gap is shown any more
        ("forgotten", pa.int64()),  # numbers that lacked there
        ("firsts", pa.list_(pa.int64())),
        ("lasts", pa.list_(pa.int64())),
    ]
)

Named = tuple[int, int, str]
"""A range that a loss record names, with its reason."""

Missing = tuple[int, int, str | None]
"""A range that did not come; None is what no loss record names."""


@dataclass(slots=True)
class Gap:
    """A row of the table, but for whose it is."""

    first: int
    last: int
    reason: str | None
    first_seen_at: datetime
    closed_at: datetime | None = None


@dataclass(slots=True)
class Incarnation:
    """What is known of one incarnation's numbers; `received_at` is when its last message came."""

    collector: str
    received_at: datetime
    came: SequenceSet = field(default_factory=SequenceSet)
    floor: int = 0
    forgotten: int = 0
    gaps: list[Gap] = field(default_factory=list)

    @property
    def spans(self) -> list[Range]:
        """The numbers that came, above the floor."""
        upto = [(1, self.came.upto)] if self.came.upto else []
        return [*upto, *self.came.ranges]

    def judge(self, named: list[Named], below: int, now: datetime) -> None:
        """Find the gaps from what came and what loss records name. Numbers up to `below` are not missing (rule 1)."""
        before = self.gaps
        lost = named + [(gap.first, gap.last, gap.reason) for gap in before if gap.reason and not gap.closed_at]
        found = _missing(self.came, lost, max(self.floor, below))
        self._forget(found[:-RANGES_REMEMBERED])
        self.gaps = []
        for first, last, reason in found[-RANGES_REMEMBERED:]:
            seen = [gap.first_seen_at for gap in before if not gap.closed_at and _touch(gap, first, last)]
            self.gaps.append(Gap(first, last, reason, min(seen, default=now)))
        closed = [gap for gap in before if gap.closed_at]
        for gap in before:
            filled = not any(_touch(gap, each.first, each.last) for each in self.gaps)
            if not gap.closed_at and gap.first > self.floor and filled:
                closed.append(replace(gap, closed_at=now))
        closed.sort(key=lambda gap: (gap.closed_at or now, gap.first))
        self.gaps += closed[-CLOSED_REMEMBERED:]

    def _forget(self, old: list[Missing]) -> None:
        """Drop the oldest gaps: `floor` is their end, and `forgotten` counts the numbers that lacked in them."""
        if old:
            self.floor = old[-1][1]
            self.forgotten += sum(last - first + 1 for first, last, _ in old)
            self.came = _union([*self.spans, (1, self.floor)])


def _touch(gap: Gap, first: int, last: int) -> bool:
    return gap.first <= last and first <= gap.last


def _union(spans: list[Range]) -> SequenceSet:
    merged: list[Range] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    upto = merged.pop(0)[1] if merged and merged[0][0] == 1 else 0
    return SequenceSet(upto, tuple(merged))


def _missing(came: SequenceSet, lost: list[Named], below: int) -> list[Missing]:
    """Return what did not come above `below`, ascending, cut where a loss record begins or ends."""
    highest = max((last for _, last, _ in lost), default=0)
    beyond = [(came.highest() + 1, highest)] if highest > came.highest() else []
    found: list[Missing] = []
    ascending, row = sorted(lost), 0
    for low, high in [*came.holes(), *beyond]:
        start = max(low, below + 1)
        while row < len(ascending) and ascending[row][1] < start:
            row += 1
        for first, last, reason in ascending[row:]:
            if max(first, start) > high:
                break
            if last >= start:
                if first > start:
                    found.append((start, first - 1, None))
                found.append((max(first, start), min(last, high), reason))
                start = min(last, high) + 1
        if start <= high:
            found.append((start, high, None))
    return found


Fleet = dict[str, dict[str, Incarnation]]
"""By author, by incarnation."""


@dataclass(slots=True)
class News:
    """What a micro-batch says of one incarnation; `received_at` is when the last of it came."""

    collector: str
    received_at: datetime
    numbers: list[int] = field(default_factory=list)
    named: list[Named] = field(default_factory=list)


def take_in(fleet: Fleet, batch: dict[tuple[str, str], News]) -> None:
    """Bring a fleet up to date; authors that the batch does not name stay as they are."""
    for (author, incarnation), news in batch.items():
        one = fleet.setdefault(author, {}).setdefault(incarnation, Incarnation(news.collector, news.received_at))
        if news.received_at >= one.received_at:
            one.collector, one.received_at = news.collector, news.received_at
        one.came = _union([*one.spans, *((number, number) for number in news.numbers)])
    for author in {author for author, _ in batch}:
        newest = sorted(fleet[author].items(), key=lambda item: (item[1].received_at, item[0]))[
            -INCARNATIONS_REMEMBERED:
        ]
        known = fleet[author] = dict(sorted(newest))
        named = {name: batch[author, name].named for name in known if (author, name) in batch}
        while _judge(known, named, newest[-1][1].received_at):
            pass


def _judge(known: dict[str, Incarnation], named: dict[str, list[Named]], now: datetime) -> bool:
    """Judge an author's incarnations by each other; return whether any forgot numbers, on which the others depend."""
    floors = [one.floor for one in known.values()]
    for name, one in known.items():
        lowest = one.spans[0][0] if one.spans else 1
        others = [span for other, each in known.items() if other != name for span in each.spans]
        below = max((min(last, lowest - 1) for first, last in others if first < lowest), default=0)
        one.judge(named.get(name, []), below, now)
    return floors != [one.floor for one in known.values()]


def gap_rows(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the table's rows."""
    arrived = max((one.received_at for known in fleet.values() for one in known.values()), default=None)
    rows = []
    for author, known in sorted(fleet.items()):
        for incarnation, one in sorted(known.items()):
            whose = {"author": author, "device": author[:8], "incarnation": incarnation, "collector": one.collector}
            if one.forgotten:
                span = {"first": 1, "last": one.floor, "numbers": one.forgotten, "state": "forgotten"}
                rows.append(whose | span)
            for gap in one.gaps:
                state = "closed" if gap.closed_at else "lost" if gap.reason else "open"
                if state == "open" and arrived is not None and arrived - gap.first_seen_at >= GRACE:
                    state = "unexplained"
                span = {"first": gap.first, "last": gap.last, "numbers": gap.last - gap.first + 1, "state": state}
                rows.append(whose | span | {name: getattr(gap, name) for name in _GAP_COLUMNS})
    return rows


_GAP_COLUMNS = ("reason", "first_seen_at", "closed_at")


def path_in(tables: Path) -> Path:
    """Return where the table lies."""
    return tables / "gaps" / "gaps.parquet"


def update(tables: Path, newest: int | None = None) -> None:
    """Bring table and state up to what is committed; nothing is done twice (rules 3 and 6).

    `newest` is the last micro-batch that is committed, where that is known.
    """
    state = tables / ".numbers" / "numbers.parquet"
    numbers, last = read_state(state, NUMBERS)
    missing = committed_after(tables, last, newest)
    if not missing:
        return
    rows, _ = read_state(path_in(tables), GAPS)
    files = {number: _files(batch_folder(tables, "readings", number)) for number in missing}
    upto = missing[-1]
    if last < 0 or missing[0] > last + 1 or not all(files.values()):
        merged = _files(tables / "readings")
        if merged or last < 0:
            numbers, rows = NUMBERS.empty_table(), GAPS.empty_table()
        if merged:
            numbers, rows = _recounted(tables, [*merged, *sorted((tables / "readings").glob("batch=*/*.parquet"))])
            missing.clear()
    for number in missing:
        losses = batch_folder(tables, "losses", number)
        messages = _messages(files[number]).to_table()
        numbers, rows = _with_batch(numbers, rows, messages, _losses(_files(losses)))
    replace_state(path_in(tables), rows, upto)
    replace_state(state, numbers, upto)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _recounted(tables: Path, files: list[Path]) -> tuple[pa.Table, pa.Table]:
    """Return state and table from all that there is, in no order (rule 6); only then are the gaps judged."""
    losses = [*_files(tables / "losses"), *sorted((tables / "losses").glob("batch=*/*.parquet"))]
    numbers = recount(_messages(files), NUMBERS)
    return _judged(numbers, GAPS.empty_table(), _news(_named(numbers), _losses(losses)), numbers["author"])


def _named(numbers: pa.Table) -> pa.Table:
    """Return the state's incarnations as messages that bring no number."""
    named = numbers.select(["author", "incarnation", "collector", "heard_at"])
    named = named.rename_columns(["author", "incarnation", "collector", "received_at"])
    return named.append_column("batch_number", pa.nulls(len(named), pa.int64()))


def open_gaps(tables: Path) -> pa.Table:
    """Return how many numbers each author lacks without a reason: `author`, `numbers_sum`. Others lack none."""
    rows, _ = read_state(path_in(tables), GAPS)
    unnamed = rows.filter(pc.field("state").isin(["open", "unexplained"]))
    return unnamed.group_by("author").aggregate([("numbers", "sum")])


def _with_batch(numbers: pa.Table, rows: pa.Table, messages: pa.Table, losses: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return state and table after a micro-batch; what need not be judged stays in columns (`gap_fast_path`)."""
    numbers, rows, judged = take_fast_path(numbers, rows, messages, losses["author"])
    authors = pc.field("author").isin(judged)
    return _judged(numbers, rows, _news(messages.filter(authors), losses), judged)


def _judged(
    numbers: pa.Table, rows: pa.Table, news: dict[tuple[str, str], News], authors: pa.Array
) -> tuple[pa.Table, pa.Table]:
    """Return state and table with these authors' gaps judged from all that is known of them now."""
    chosen = pc.field("author").isin(authors)
    fleet = _fleet(numbers.filter(chosen), rows.filter(chosen))
    take_in(fleet, news)
    by = [("author", "ascending"), ("incarnation", "ascending")]
    numbers = pa.concat_tables([numbers.filter(~chosen), _numbers(fleet)]).sort_by(by).combine_chunks()
    judged = pa.Table.from_pylist(gap_rows(fleet), GAPS)
    rows = pa.concat_tables([rows.filter(~chosen), judged]).sort_by([*by, ("first", "ascending")])
    row = rows_of(numbers.select(["author", "incarnation"]), rows.select(["author", "incarnation"]))
    rows = rows.set_column(3, GAPS.field("collector"), numbers["collector"].take(pa.array(row)))
    return numbers, _aged(rows, pc.max(numbers["heard_at"])).combine_chunks()


def _aged(rows: pa.Table, arrived: pa.Scalar) -> pa.Table:
    if not arrived.is_valid:
        return rows
    before = pa.scalar(arrived.as_py() - GRACE, TIMESTAMP)
    old = pc.and_(pc.equal(rows["state"], "open"), pc.less_equal(rows["first_seen_at"], before))
    states = pc.if_else(pc.fill_null(old, False), "unexplained", rows["state"])
    return rows.set_column(GAPS.get_field_index("state"), GAPS.field("state"), states)


_LOSSES = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "incarnation", "collector", "reason")),
        ("received_at", TIMESTAMP),
        ("first_number", pa.int64()),
        ("last_number", pa.int64()),
    ]
)


def _messages(files: list[Path]) -> ds.Scanner:
    """Return the messages in files of readings, by the first reading of each."""
    columns = ["author", "incarnation", "collector", "received_at", "batch_number"]
    parquet = ds.ParquetFileFormat(dictionary_columns={"author", "incarnation", "collector"})
    return ds.dataset(files, format=parquet).scanner(columns, filter=ds.field("index") == 0)


def _losses(files: list[Path]) -> pa.Table:
    """Return the ranges of numbers in files of losses."""
    if not files:
        return _LOSSES.empty_table()
    return ds.dataset(files, _LOSSES, format="parquet").to_table(filter=ds.field("first_number").is_valid())


def _news(messages: pa.Table, losses: pa.Table) -> dict[tuple[str, str], News]:
    news: dict[tuple[str, str], News] = {}

    def news_of(row: dict[str, Any]) -> News:
        one = news.setdefault((row["author"], row["incarnation"]), News(row["collector"], row["received_at"]))
        if row["received_at"] >= one.received_at:
            one.collector, one.received_at = row["collector"], row["received_at"]
        return one

    for row in messages.to_pylist():
        one = news_of(row)
        if row["batch_number"] is not None:
            one.numbers.append(row["batch_number"])
    for row in losses.to_pylist():
        news_of(row).named.append((row["first_number"], row["last_number"], row["reason"]))
    return news


def _fleet(numbers: pa.Table, rows: pa.Table) -> Fleet:
    fleet: Fleet = {}
    for row in numbers.to_pylist():
        came = _union([*zip(row["firsts"], row["lasts"], strict=True)])
        one = Incarnation(row["collector"], row["heard_at"], came, row["floor"], row["forgotten"])
        fleet.setdefault(row["author"], {})[row["incarnation"]] = one
    for row in rows.to_pylist():
        known = fleet.get(row["author"], {}).get(row["incarnation"])
        if known is not None and row["state"] != "forgotten":
            known.gaps.append(Gap(row["first"], row["last"], **{name: row[name] for name in _GAP_COLUMNS}))
    return fleet


def _numbers(fleet: Fleet) -> pa.Table:
    rows = []
    for author, known in sorted(fleet.items()):
        for incarnation, one in sorted(known.items()):
            whose = {"author": author, "incarnation": incarnation, "collector": one.collector}
            spans = {"firsts": [first for first, _ in one.spans], "lasts": [last for _, last in one.spans]}
            bounds = {"heard_at": one.received_at, "floor": one.floor, "forgotten": one.forgotten}
            rows.append(whose | bounds | spans)
    return pa.Table.from_pylist(rows, NUMBERS)
