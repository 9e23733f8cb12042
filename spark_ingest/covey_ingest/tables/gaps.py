"""The `gaps` table: missing telemetry numbers, with the reason that their author signed, or none.

    gaps/gaps.parquet            one row for each gap, replaced whole
    .numbers/numbers.parquet     the numbers that arrived, by author and incarnation: its state, and that of `dedup`
    .numbers/forgotten.parquet   which incarnations are no longer in there: see `forgotten`

Numbers count an author's batches (docs/protocol/core.md, "Telemetry"), through its incarnations; a board's begin at 1
in each. State of a gap:

    lost         a loss record names it: `reason` is the author's
    thinned      a summary has taken its place; `reason` is `thinned 1:12` where that has one row for 12 readings
    open         nothing explains it yet; late data or another collector may still deliver it
    unexplained  nothing has explained it for `GRACE`, by the arrivals that the tables have seen
    closed       late data filled it; the newest `CLOSED_REMEMBERED` of an incarnation
    forgotten    holes beyond `RANGES_REMEMBERED`: only how many numbers the oldest of them lacked

1. Below an incarnation's lowest number, a gap extends down to the highest number of the author's other incarnations,
   because an incarnation continues the count. If a board's incarnations overlap, the first numbers of a later one are
   not shown.
2. A number that arrived is not lost, whatever a loss record says.
3. The files record their last micro-batch, and applying a batch twice changes nothing. Forgotten incarnations are
   replaced first, then `gaps`, then the numbers.
4. An author has `INCARNATIONS_REMEMBERED` of them, those with the latest messages. So these bounds limit an author's
   rows, whatever it sends. A forgotten one that returns is rebuilt from the table.
5. Nothing is shuffled: of readings, only the first of each message is read. Authors that a micro-batch does not name
   are unchanged; `gaps_sql` computes all others at once.
6. A state that is lost, or ahead of the tables, is rebuilt, folder by folder. If a Delta table has merged files, their
   micro-batches are unknown: all files are counted before the first gap is judged, and no gap is shown as closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from covey_ingest.committer.committed import batch_folder, committed_after, is_committed
from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables import gaps_sql
from covey_ingest.tables.forgotten import ForgottenIncarnations
from covey_ingest.tables.messages import LINK, MESSAGES, database, in_microseconds, messages_in, scanned
from covey_ingest.tables.standing import standing
from covey_ingest.task.columns import TIMESTAMP

if TYPE_CHECKING:
    import duckdb

GRACE = timedelta(days=1)
"""How long late data, or another collector, may still bring what is missing."""

INCARNATIONS_REMEMBERED = 16
RANGES_REMEMBERED = 64
CLOSED_REMEMBERED = 8

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
LOSSES = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "incarnation", "collector", "reason")),
        ("received_at", TIMESTAMP),
        ("first_number", pa.int64()),
        ("last_number", pa.int64()),
    ]
)
_BY_LINK = [("author", "ascending"), ("incarnation", "ascending")]
_MESSAGES_TOGETHER = 1_000_000


def path_in(tables: Path) -> Path:
    """Return where the table lies."""
    return tables / "gaps" / "gaps.parquet"


def numbers_in(tables: Path) -> Path:
    """Return the state's folder, hidden from readers of the tables."""
    return tables / ".numbers" / "numbers.parquet"


def _forgotten_in(tables: Path) -> Path:
    return tables / ".numbers" / "forgotten.parquet"


def update(
    tables: Path, newest: int | None = None, came: pa.Table | None = None
) -> tuple[pa.Table, ForgottenIncarnations]:
    """Bring table and state up to what is committed, and return the state; nothing is done twice (rules 3 and 6).

    `newest` is the last micro-batch that is committed, where that is known, and `came` its messages.
    """
    numbers, last = read_state(numbers_in(tables), NUMBERS)
    if last >= 0 and not is_committed(tables, last):
        numbers, last = NUMBERS.empty_table(), -1
    forgotten = ForgottenIncarnations.read(_forgotten_in(tables))[0]
    missing = committed_after(tables, last, newest)
    if not missing:
        return numbers, forgotten
    rows = read_state(path_in(tables), GAPS)[0] if last >= 0 else GAPS.empty_table()
    files = {number: _files(batch_folder(tables, "readings", number)) for number in missing}
    upto = missing[-1]
    if last < 0 or missing[0] > last + 1 or not all(files.values()):
        merged = _files(tables / "readings")
        if merged or last < 0:
            numbers, rows, forgotten = NUMBERS.empty_table(), GAPS.empty_table(), ForgottenIncarnations.none()
        if merged:
            every = [*merged, *sorted((tables / "readings").glob("batch=*/*.parquet"))]
            lost = [*_files(tables / "losses"), *sorted((tables / "losses").glob("batch=*/*.parquet"))]
            numbers, rows, dropped = taken_in(numbers, rows, _parts(every), _losses(lost))
            forgotten.add(dropped)
            missing.clear()
    for number in missing:
        messages = came if came is not None and number == newest else messages_in(files[number])
        lost = _losses(_files(batch_folder(tables, "losses", number)))
        messages = pa.concat_tables([messages, _recalled(tables, numbers, forgotten, messages, number)])
        numbers, rows, dropped = taken_in(numbers, rows, [messages], lost)
        forgotten.add(dropped)
    forgotten.replace(_forgotten_in(tables), upto)
    replace_state(path_in(tables), rows, upto)
    replace_state(numbers_in(tables), numbers, upto)
    return numbers, forgotten


def open_gaps(tables: Path) -> pa.Table:
    """Return how many numbers each author lacks without a reason: `author`, `numbers_sum`. Others lack none."""
    rows, _ = read_state(path_in(tables), GAPS)
    unnamed = rows.filter(pc.field("state").isin(["open", "unexplained"]))
    return unnamed.group_by("author").aggregate([("numbers", "sum")])


def taken_in(
    numbers: pa.Table, rows: pa.Table, messages: Iterable[pa.Table], losses: pa.Table
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return state and table after messages, in parts, and loss records; and the links that are forgotten."""
    bounds = {"ranges": RANGES_REMEMBERED, "closed": CLOSED_REMEMBERED, "incarnations": INCARNATIONS_REMEMBERED}
    parts = iter(messages)
    part = next(parts, MESSAGES.empty_table())
    authors = pc.unique(pa.chunked_array([*part["author"].chunks, *losses["author"].chunks], pa.string()))
    chosen = pc.field("author").isin(authors)
    with database(state=numbers.filter(chosen), standing=rows.filter(chosen), named=losses) as held:
        held.execute(gaps_sql.BEGIN)
        _add(held, part, losses)
        for part in parts:
            _add(held, part, LOSSES.empty_table())
        _run(held, gaps_sql.BOUND + gaps_sql.JUDGE, bounds)
        if held.execute("FROM found WHERE place > $ranges LIMIT 1", {"ranges": RANGES_REMEMBERED}).fetchone():
            _run(held, gaps_sql.FORGET + gaps_sql.JUDGE, bounds)
        judged, state = (_table(held, query, bounds) for query in (gaps_sql.ROWS, gaps_sql.STATE))
        dropped = _table(held, "FROM dropped", {})
    numbers = pa.concat_tables([numbers.filter(~chosen), state.cast(NUMBERS)]).sort_by(_BY_LINK)
    rows = pa.concat_tables([rows.filter(~chosen), judged.cast(GAPS)]).sort_by([*_BY_LINK, ("first", "ascending")])
    return numbers.cast(NUMBERS).combine_chunks(), _aged(rows, pc.max(numbers["heard_at"])).combine_chunks(), dropped


def _add(held: duckdb.DuckDBPyConnection, messages: pa.Table, losses: pa.Table) -> None:
    """Add messages; of those with the same arrival the last one's collector counts, but a loss record's first."""
    columns = [*LINK, "collector", "received_at"]
    said = pa.concat_tables([messages.select(columns), losses.select(columns)])
    said = said.rename_columns([*LINK, "collector", "heard_at"])
    held.register("said", in_microseconds(said.append_column("place", pa.array(range(len(said)), pa.int64()))))
    held.register("numbers", messages.select([*LINK, "batch_number"]))
    held.execute(gaps_sql.ADD)


def _run(held: duckdb.DuckDBPyConnection, script: str, values: dict[str, int]) -> None:
    for statement in script.split(";"):
        if statement.strip():
            held.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def _table(held: duckdb.DuckDBPyConnection, query: str, values: dict[str, int]) -> pa.Table:
    asked = {name: value for name, value in values.items() if f"${name}" in query}
    return held.sql(query, params=asked or None).to_arrow_table()


def _parts(files: list[Path]) -> Iterable[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for part in scanned(files).to_batches():
        waiting.append(part)
        if sum(map(len, waiting)) >= _MESSAGES_TOGETHER:
            yield pa.Table.from_batches(waiting)
            waiting = []
    yield pa.Table.from_batches(waiting, MESSAGES)


def _recalled(
    tables: Path, numbers: pa.Table, forgotten: ForgottenIncarnations, messages: pa.Table, upto: int
) -> pa.Table:
    """Return the table's rows, up to a micro-batch, of forgotten incarnations that messages name again (rule 4)."""
    back = forgotten.perhaps(unknown_links(numbers, messages))
    return standing(tables, back, upto)


def unknown_links(numbers: pa.Table, messages: pa.Table) -> pa.Table:
    """Return the links that messages name and the state does not."""
    return messages.select(LINK).group_by(LINK).aggregate([]).join(numbers.select(LINK), LINK, join_type="left anti")


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _aged(rows: pa.Table, arrived: pa.Scalar) -> pa.Table:
    if not arrived.is_valid:
        return rows
    before = pa.scalar(arrived.as_py() - GRACE, TIMESTAMP)
    old = pc.and_(pc.equal(rows["state"], "open"), pc.less_equal(rows["first_seen_at"], before))
    states = pc.if_else(pc.fill_null(old, False), "unexplained", rows["state"])
    return rows.set_column(GAPS.get_field_index("state"), GAPS.field("state"), states)


def _losses(files: list[Path]) -> pa.Table:
    if not files:
        return LOSSES.empty_table()
    return ds.dataset(files, LOSSES, format="parquet").to_table(filter=ds.field("first_number").is_valid())
