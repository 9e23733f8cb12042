"""The `devices` table: one row for each device that has ever sent a reading.

A small file, replaced whole after each micro-batch, rather than aggregates to merge at every read: any program that
reads Parquet can use it, and its size depends only on the number of devices (about 150 bytes each).

`firmware` is from a device's newest reading of that name. A board's firmware is reported by its gateway (`board/<the
board's key>/firmware`); `gateway` is the last one that did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables import gaps
from covey_ingest.tables.messages import database
from covey_ingest.tables.runs import begins, codes, microseconds
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.decode import Integers

BOOTS_REMEMBERED = 32
"""Boots of a device that are told apart from new ones when late data arrives."""

BOARDS_REPORTED = 256
"""Boards whose firmware one gateway may report in a micro-batch: it reports each every 50 minutes."""

TEXT_KEPT = 200

_FIRMWARE = "firmware"
_BOARD = re.compile(r"board/([0-9a-f]{64})/firmware")

SCHEMA = pa.schema(
    [
        ("author", pa.string()),
        ("device", pa.string()),
        ("first_seen", TIMESTAMP),  # arrivals at the collector
        ("last_seen", TIMESTAMP),
        ("last_time", TIMESTAMP),  # the newest reading's time
        ("lag_seconds", pa.float64()),  # of the newest arrival: from its last reading to the collector
        ("incarnation", pa.string()),
        ("last_seq", pa.int64()),
        ("time_quality", pa.string()),
        ("boots", pa.int64()),
        ("boot_ids", pa.list_(pa.string())),
        ("messages", pa.int64()),
        ("readings", pa.int64()),
        ("collector", pa.string()),
        ("firmware", pa.string()),
        ("gateway", pa.string()),  # of a board: the device that it was last attached to, as that one says
    ]
)
SUMMED = [
    *("author", "incarnation", "boot", "collector", "time_quality", "name", "text"),
    *("seq", "index", "time", "received_at"),
]
"""The columns of readings that a summary is made of."""
_WHOLE, _TEXT = pa.int64(), pa.string()
_NEWEST = pa.struct(
    [
        *(("received", _WHOLE), ("seq", _WHOLE), ("taken", _WHOLE)),
        *((name, _TEXT) for name in ("incarnation", "time_quality", "collector")),
    ]
)
_OWN = pa.struct([("received", _WHOLE), ("seq", _WHOLE), ("index", pa.int32()), ("text", _TEXT)])
_BOARDS = pa.struct([("received_at", _WHOLE), ("name", _TEXT), ("text", _TEXT)])
SUMMARY = pa.schema(
    [
        ("author", _TEXT),
        *((name, _WHOLE) for name in ("first_seen", "last_seen", "last_time")),
        ("latest", _NEWEST),
        ("boot_ids", pa.list_(_TEXT)),
        ("messages", _WHOLE),
        ("readings", _WHOLE),
        ("own", _OWN),  # the newest firmware that the device reports of itself
        ("boards", pa.list_(_BOARDS)),  # the newest that it reports of each board
    ]
)
"""A row for each device of a file; times are microseconds since 1970."""
_COMBINED = """
    SELECT author, first_seen, last_seen, last_time, latest.incarnation AS incarnation, latest.seq AS last_seq,
           latest.time_quality AS time_quality, latest.collector AS collector,
           (latest.received - latest.taken) / 1e6 AS lag_seconds, boot_ids, messages, readings, own.text AS firmware,
           boards
    FROM (SELECT author, min(first_seen) AS first_seen, max(last_seen) AS last_seen, max(last_time) AS last_time,
                 max(latest) AS latest, list_sort(list_distinct(flatten(list(boot_ids)))) AS boot_ids,
                 sum(messages)::BIGINT AS messages, sum(readings)::BIGINT AS readings, max(own) AS own,
                 list_distinct(flatten(list(coalesce(boards, []))))[:$boards] AS boards
          FROM parts GROUP BY author)"""
_LATEST = ("incarnation", "last_seq", "time_quality", "collector", "lag_seconds")


def path_in(tables: Path) -> Path:
    """Return where the table lies."""
    return tables / "devices" / "devices.parquet"


def update(tables: Path, batch_id: int, parts: Callable[[], list[pa.Table]]) -> None:
    """Take a committed batch of readings into the table, by its summaries; does nothing if it is in there already."""
    path = path_in(tables)
    before, last = read_state(path, SCHEMA)
    if last < batch_id:
        summary = combined(parts())
        merged = with_boards(merge(_as_now(before), summary.drop_columns(["boards"])), summary)
        replace_state(path, _with_open_gaps(merged, gaps.open_gaps(tables)), batch_id)


def _as_now(before: pa.Table) -> pa.Table:
    return before.select(SCHEMA.names)


def _with_open_gaps(devices: pa.Table, lacking: pa.Table) -> pa.Table:
    places = pc.index_in(devices["author"], value_set=lacking["author"].combine_chunks())
    counts = pc.fill_null(lacking["numbers_sum"].combine_chunks().take(places.combine_chunks()), 0)
    return devices.append_column("open_gaps", counts)


@dataclass(slots=True)
class _SeenDevice:
    """What a file says of one device."""

    first_seen: int
    last_seen: int
    last_time: int
    latest: tuple[int, int, int, str | None, str | None, str | None]
    boots: set[str] = field(default_factory=set)
    messages: int = 0
    readings: int = 0
    own: tuple[int, int, int, str] | None = None
    boards: dict[str, tuple[int, str]] = field(default_factory=dict)


class DeviceSums:
    """Sums up what one file says of its devices."""

    def __init__(self) -> None:
        self._seen: dict[str, _SeenDevice] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of `exploding.STORED`, in whole or in part of a message."""
        if not len(rows):
            return
        texts = ("author", "incarnation", "boot", "time_quality", "collector")
        places = {name: codes(rows[name]) for name in texts}
        received, seq = microseconds(rows["received_at"]), rows["seq"].to_numpy()
        starts = begins([*places.values(), received, seq])
        runs = _Runs(
            received=received[starts],
            seq=seq[starts],
            taken=np.maximum.reduceat(microseconds(rows["time"]), starts),
            messages=np.add.reduceat((rows["index"].to_numpy() == 0).astype(np.int64), starts),
            readings=np.diff(starts, append=len(rows)),
            **{name: of[starts] for name, of in places.items()},
        )
        self._add_runs(runs, {name: [*rows[name].dictionary.to_pylist(), None] for name in texts})
        self._add_firmware(rows, received)

    def table(self) -> pa.Table:
        """Return a row of `SUMMARY` for each device."""
        seen = [*self._seen.values()]
        plain = ("first_seen", "last_seen", "last_time", "messages", "readings")
        columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in seen] for name in plain}
        columns["author"] = [*self._seen]
        columns["latest"] = [dict(zip(_NEWEST.names, one.latest, strict=True)) for one in seen]
        columns["boot_ids"] = [sorted(one.boots) for one in seen]
        columns["own"] = [one.own and dict(zip(_OWN.names, one.own, strict=True)) for one in seen]
        columns["boards"] = [
            [{"received_at": at, "name": name, "text": text} for name, (at, text) in sorted(one.boards.items())]
            for one in seen
        ]
        return pa.Table.from_pydict(columns, SUMMARY)

    def _add_runs(self, runs: _Runs, texts: dict[str, list[str | None]]) -> None:
        order = np.lexsort((runs.taken, runs.seq, runs.received, runs.author))
        runs = _Runs(*(column[order] for column in runs))
        starts = begins([runs.author])
        first, last_time = runs.received[starts], np.maximum.reduceat(runs.taken, starts)
        messages, readings = np.add.reduceat(runs.messages, starts), np.add.reduceat(runs.readings, starts)
        for row, (start, end) in enumerate(pairwise([*starts.tolist(), len(order)])):
            last = end - 1
            latest = (
                *(int(runs.received[last]), int(runs.seq[last]), int(runs.taken[last])),
                texts["incarnation"][runs.incarnation[last]],
                texts["time_quality"][runs.time_quality[last]],
                texts["collector"][runs.collector[last]],
            )
            author = str(texts["author"][runs.author[start]])
            seen = self._seen.get(author)
            if seen is None:
                seen = self._seen[author] = _SeenDevice(int(first[row]), latest[0], int(last_time[row]), latest)
            seen.first_seen = min(seen.first_seen, int(first[row]))
            seen.last_seen = max(seen.last_seen, latest[0])
            seen.last_time = max(seen.last_time, int(last_time[row]))
            seen.latest = max(seen.latest, latest, key=_newness)
            seen.messages += int(messages[row])
            seen.readings += int(readings[row])
            boots = {texts["boot"][place] for place in np.unique(runs.boot[start:end]).tolist()}
            seen.boots.update(boot for boot in boots if boot is not None)

    def _add_firmware(self, rows: pa.RecordBatch, received: Integers) -> None:
        """Note texts that name a version; few rows do."""
        names = rows["name"].dictionary.to_pylist()
        wanted = [place for place, name in enumerate(names) if name and (name == _FIRMWARE or _BOARD.fullmatch(name))]
        if not wanted:
            return
        given = np.isin(codes(rows["name"]), wanted) & rows["text"].is_valid().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(given).tolist():
            seen, name = self._seen[rows["author"][row].as_py()], rows["name"][row].as_py()
            text, at = rows["text"][row].as_py()[:TEXT_KEPT], int(received[row])
            if name == _FIRMWARE:
                own = at, rows["seq"][row].as_py(), rows["index"][row].as_py(), text
                seen.own = max(seen.own or own, own)
            else:
                seen.boards[name] = max(seen.boards.get(name, (at, text)), (at, text))


class _Runs(NamedTuple):
    """Columns of runs of rows: of one message each, as a rule."""

    author: Integers
    incarnation: Integers
    boot: Integers
    time_quality: Integers
    collector: Integers
    received: Integers
    seq: Integers
    taken: Integers
    messages: Integers
    readings: Integers


def _newness(latest: tuple[int, int, int, str | None, str | None, str | None]) -> tuple[object, ...]:
    return *latest[:3], *(text or "" for text in latest[3:])


def combined(parts: list[pa.Table]) -> pa.Table:
    """Make one row of each device's summaries."""
    with database() as held:
        held.register("parts", pa.concat_tables(parts) if parts else SUMMARY.empty_table())
        found = held.sql(_COMBINED, params={"boards": BOARDS_REPORTED}).to_arrow_table()
    for place, name in enumerate(found.column_names):
        if name in SCHEMA.names:
            found = found.set_column(place, name, found[name].cast(SCHEMA.field(name).type))
    return found


def merge(before: pa.Table, batch: pa.Table) -> pa.Table:
    """Return the table after a batch; devices that the batch does not name are carried over untouched."""
    batch = batch.select([name for name in SCHEMA.names if name in batch.column_names])
    row = pc.index_in(batch["author"], value_set=before["author"].combine_chunks())
    known = batch.filter(pc.is_valid(row))
    rows = row.combine_chunks().drop_null()
    others = before.filter(pc.invert(pc.is_in(before["author"], value_set=batch["author"].combine_chunks())))
    met = _met(batch.filter(pc.is_null(row)))
    return pa.concat_tables([others, _merged(before.take(rows), known), met]).sort_by("author").combine_chunks()


def with_boards(devices: pa.Table, summary: pa.Table) -> pa.Table:
    """Return the table with the boards' firmware; `boards` of a summary's rows are what each gateway reports."""
    reported: dict[str, tuple[int, str, str]] = {}
    for gateway, said in zip(summary["author"].to_pylist(), summary["boards"].to_pylist(), strict=True):
        for each in said:
            found = _BOARD.fullmatch(each["name"])
            if found:
                report = each["received_at"], each["text"], gateway
                reported[found[1]] = max(reported.get(found[1], report), report)
    if not reported:
        return devices
    known = pa.table([[*reported], *zip(*reported.values(), strict=True)], ["author", "at", "firmware", "gateway"])
    places = pc.index_in(devices["author"], value_set=known["author"].combine_chunks())
    for name in ("firmware", "gateway"):
        position = devices.schema.get_field_index(name)
        column = pc.coalesce(known[name].combine_chunks().take(places.combine_chunks()), devices[name])
        devices = devices.set_column(position, SCHEMA.field(name), column)
    return devices


def _met(new: pa.Table) -> pa.Table:
    columns = {name: new[name] for name in new.column_names}
    columns |= {"device": pc.utf8_slice_codeunits(new["author"], 0, 8)}
    columns |= {"boots": pc.list_value_length(new["boot_ids"]), "gateway": pa.nulls(len(new), pa.string())}
    return _table(columns)


def _merged(old: pa.Table, new: pa.Table) -> pa.Table:
    later = pc.or_(
        pc.greater(new["last_seen"], old["last_seen"]),
        pc.and_(pc.equal(new["last_seen"], old["last_seen"]), pc.greater(new["last_seq"], old["last_seq"])),
    )
    columns = {name: old[name] for name in ("author", "device")}
    columns |= {name: pc.if_else(later, new[name], old[name]) for name in _LATEST}
    for name, newer in (("first_seen", pc.less), ("last_seen", pc.greater), ("last_time", pc.greater)):
        columns[name] = pc.if_else(newer(new[name], old[name]), new[name], old[name])
    columns |= {"firmware": pc.coalesce(new["firmware"], old["firmware"]), "gateway": old["gateway"]}
    columns |= {name: pc.add(old[name], new[name]) for name in ("messages", "readings")}
    columns["boot_ids"], fresh = _boots(old["boot_ids"], new["boot_ids"])
    columns["boots"] = pc.add(old["boots"], fresh)
    return _table(columns)


def _boots(old: pa.ChunkedArray, new: pa.ChunkedArray) -> tuple[pa.ListArray, pa.Array]:
    (old_owners, old_boots), (new_owners, new_boots) = _flat(old), _flat(new)
    codes = pa.concat_arrays([old_boots, new_boots]).dictionary_encode().indices.to_numpy().astype(np.int64)
    many = codes.max(initial=0) + 1
    pairs = np.concatenate([old_owners, new_owners]) * many + codes
    fresh = ~np.isin(pairs[len(old_owners) :], pairs[: len(old_owners)])
    owners = np.concatenate([old_owners, new_owners[fresh]])
    order = np.argsort(owners, kind="stable")
    owners = owners[order]
    after = np.cumsum(np.bincount(owners, minlength=len(old)))[owners] - np.arange(len(owners))
    kept = after <= BOOTS_REMEMBERED
    ends = np.zeros(len(old) + 1, np.int32)
    np.cumsum(np.bincount(owners[kept], minlength=len(old)), out=ends[1:])
    boots = pa.concat_arrays([old_boots, new_boots.filter(pa.array(fresh))]).take(pa.array(order[kept]))
    counts = np.bincount(new_owners[fresh], minlength=len(old))
    return pa.ListArray.from_arrays(pa.array(ends), boots), pa.array(counts, pa.int64())


def _flat(lists: pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    one = lists.combine_chunks()
    return pc.list_parent_indices(one).to_numpy().astype(np.int64), pc.list_flatten(one).cast(pa.string())


def _table(columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)
