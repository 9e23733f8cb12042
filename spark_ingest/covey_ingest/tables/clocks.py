"""The `clocks` table: the quality of each boot's clock, and corrected times.

    clocks/clocks.parquet    one row for each boot of which a message arrived, replaced whole

A device whose clock is not set yet has a wrong time: 1970, or five days ago. Its times count from its boot all the
same, and `clock_offset` of a reading says what was added to them. As soon as one message of the same boot has a
`synchronised` clock, the right offset of the whole boot is known.

1. Readings that are `unsynchronised` or of `arrival`, of a boot with a known clock, get their time by it when they are
   written: `rebased`. A time that would become implausible (rule 4 of `time_quality`) is unchanged.
2. Of a boot the first disciplined clock counts, in the order of micro-batches and collectors.
3. Rows written before it was known are corrected in the table (`DeltaLog.rebase`): `doubtful_from` and `doubtful_until`
   say when collectors received them.
4. Of an author the `BOOTS_KEPT` boots with the latest messages are kept.
5. The table records its last micro-batch, and is derived from `readings` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.committer.committed import batch_folder, committed_after
from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables.messages import messages_in
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.time_quality import AHEAD_US, HISTORY_FROM_US, TimeQuality

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties


BOOTS_KEPT = 32
DOUBTFUL = (TimeQuality.UNSYNCHRONISED.value, TimeQuality.ARRIVAL.value)

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("boot", pa.string()),
        ("clock_offset", pa.int64()),  # microseconds from the boot's monotonic clock to UTC; null while nobody knows
        ("known_at", TIMESTAMP),  # when a collector had the message that told
        ("known_batch", pa.int64()),  # the micro-batch that it came in
        ("doubtful_from", TIMESTAMP),  # when collectors had what was written without it
        ("doubtful_until", TIMESTAMP),
        ("last_at", TIMESTAMP),
    ]
)
BOOT = ["author", "boot"]


def rebased(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Return readings with better times by rule 1; `known` is what `known_for` returns."""
    places = pc.index_in(_boots(rows), value_set=_boots(known))
    offset = known["known"].combine_chunks().take(places)
    moved = pc.add(pc.subtract(rows["time"].cast(pa.int64()), rows["clock_offset"]), offset)
    latest = pc.add(rows["received_at"].cast(pa.int64()), AHEAD_US)
    plausible = pc.and_(pc.greater_equal(moved, HISTORY_FROM_US), pc.less_equal(moved, latest))
    doubtful = pc.is_in(rows["time_quality"].cast(pa.string()), pa.array(DOUBTFUL))
    better = pc.fill_null(pc.and_(plausible, doubtful), False)
    quality = pc.if_else(better, TimeQuality.REBASED.value, rows["time_quality"].cast(pa.string()))
    changed = {
        "time": pc.if_else(better, moved.cast(TIMESTAMP), rows["time"]),
        "time_quality": quality,
        "clock_offset": pc.if_else(better, offset, rows["clock_offset"]),
    }
    for name, values in changed.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows


def _boots(rows: pa.Table) -> pa.Array:
    author, boot = (rows[name].cast(pa.string()) for name in BOOT)
    return pc.binary_join_element_wise(author, boot, "/").combine_chunks()


def path_in(tables: Path) -> Path:
    """Return where the table lies."""
    return tables / "clocks" / "clocks.parquet"


def update(tables: Path, newest: int | None = None, came: pa.Table | None = None) -> pa.Table:
    """Bring the table up to what is committed, and return it.

    `newest` is the last micro-batch, where that is known, and `came` its messages.
    """
    state, last = read_state(path_in(tables), SCHEMA)
    state = state.replace_schema_metadata(None)
    missing = committed_after(tables, last, newest)
    if missing and last < 0:
        for merged in sorted((tables / "readings").glob("*.parquet")):
            state = _with_messages(state, messages_in([merged]), -1)
    for number in missing:
        if any((folder := batch_folder(tables, "readings", number)).glob("*.parquet")):
            state = _with_messages(
                state, came if came is not None and number == newest else messages_in(folder), number
            )
    if missing:
        replace_state(path_in(tables), state, missing[-1])
    return state


def known_for(tables: Path, messages: pa.Table, newest: int | None = None) -> pa.Table:
    """Return the clocks that are known of boots with doubtful messages in a micro-batch: rule 1.

    Columns: author, boot, known.
    """
    messages = _with_clocks(messages)
    doubtful = messages.filter(pc.field("time_quality").isin(DOUBTFUL)).select(BOOT).group_by(BOOT).aggregate([])
    if not len(doubtful):
        return doubtful.append_column("known", pa.array([], pa.int64()))
    state = pa.concat_tables([update(tables, newest), _news(messages, 0)])
    known = _by_boot(state).filter(pc.field("clock_offset").is_valid()).select([*BOOT, "clock_offset"])
    return doubtful.join(known.rename_columns([*BOOT, "known"]), BOOT, join_type="inner")


def _with_clocks(messages: pa.Table) -> pa.Table:
    return messages.filter(pc.field("clock_offset").is_valid()).sort_by("received_at")


def _with_messages(state: pa.Table, messages: pa.Table, number: int) -> pa.Table:
    return _bounded(_by_boot(pa.concat_tables([state, _news(_with_clocks(messages), number)])))


def _news(messages: pa.Table, number: int) -> pa.Table:
    disciplined = pc.equal(messages["time_quality"], TimeQuality.SYNCHRONISED.value)
    doubtful = pc.is_in(messages["time_quality"], pa.array(DOUBTFUL))
    received, none = messages["received_at"], pa.scalar(None, TIMESTAMP)
    doubtful_at = pc.if_else(doubtful, received, none)
    columns = [
        *(messages[name] for name in BOOT),
        pc.if_else(disciplined, messages["clock_offset"], pa.scalar(None, pa.int64())),
        pc.if_else(disciplined, received, none),
        pc.if_else(disciplined, pa.scalar(number, pa.int64()), pa.scalar(None, pa.int64())),
        *(doubtful_at, doubtful_at, received),
    ]
    return pa.table(columns, schema=SCHEMA)


def _by_boot(rows: pa.Table) -> pa.Table:
    """Combine all rows of a boot; the first one with a clock counts (rule 2)."""
    kinds = ("first", "first", "first", "min", "max", "max")
    named = [*zip(SCHEMA.names[2:], kinds, strict=True)]
    found = rows.group_by(BOOT, use_threads=False).aggregate(named)
    return found.select([*BOOT, *(f"{name}_{kind}" for name, kind in named)]).rename_columns(SCHEMA.names)


def _bounded(state: pa.Table) -> pa.Table:
    """Limit the state by author and age (rule 4)."""
    state = state.sort_by([("author", "ascending"), ("last_at", "ascending"), ("boot", "ascending")]).combine_chunks()
    authors = state["author"].combine_chunks().dictionary_encode().indices.to_numpy()
    ends = np.cumsum(np.bincount(authors))
    return state.filter(pa.array(ends[authors] - np.arange(len(authors)) <= BOOTS_KEPT))


_TIME = "'Timestamp(Microsecond, Some(\"UTC\"))'"
_MOVED = "arrow_cast(t.time, 'Int64') - t.clock_offset + s.clock_offset"
_DUE = f"""
    t.author = s.author AND t.boot = s.boot AND t.time_quality IN ('unsynchronised', 'arrival')
    AND {_MOVED} BETWEEN {HISTORY_FROM_US} AND arrow_cast(t.received_at, 'Int64') + {AHEAD_US}
    AND t.received_at >= arrow_cast({{first}}, {_TIME}) AND t.received_at <= arrow_cast({{last}}, {_TIME})
"""


def rebase(
    readings: DeltaTable, clocks: pa.Table, properties: CommitProperties, hooks: PostCommitHookProperties
) -> None:
    """Rewrite doubtful readings of boots whose clocks are given, as rows of `clocks`. Done again, it changes nothing.

    A reading is known by what it had: rows that were rebased before are no longer doubtful.
    """
    first, last = (
        pc.cast(of, pa.int64()).as_py() for of in (pc.min(clocks["doubtful_from"]), pc.max(clocks["doubtful_until"]))
    )
    merger = readings.merge(
        clocks.select(["author", "boot", "clock_offset"]),
        _DUE.format(first=first, last=last),
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
        post_commithook_properties=hooks,
    )
    merger.when_matched_update(
        {
            "time": f"arrow_cast({_MOVED}, {_TIME})",
            "clock_offset": "s.clock_offset",
            "time_quality": f"'{TimeQuality.REBASED.value}'",
        }
    ).execute()
