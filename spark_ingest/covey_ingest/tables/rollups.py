"""The `rollups` table: each series' readings of a micro-batch, summed up for each minute.

    rollups/batch=N/   a row for each author, series and minute of micro-batch N

1. A row is a part: a query for a minute, an hour or a day adds up its rows (`views` makes `rollup_minute`,
   `rollup_hour` and `rollup_day` of them). So late data is a further row, and no row is ever changed.
2. Micro-batch N is committed before that of `readings` (rule 2 of `tables`): each reading counts once.
3. Times are those at the time of writing: a reading that is rebased later stays in its first minute.
4. Of readings of one moment, the last one has the greatest `seq`, and then the greatest `index`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from covey_ingest.tables.runs import Places, begins, codes, microseconds
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.decode import Doubles, Integers

TABLE = "rollups"
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("author", "device", "name", "unit")),
        ("minute", TIMESTAMP),
        ("readings", pa.int64()),
        ("minimum", pa.float64()),
        ("maximum", pa.float64()),
        ("total", pa.float64()),
        ("last", pa.float64()),
        ("last_time", TIMESTAMP),
        ("last_seq", pa.int64()),
    ]
)
_COLUMNS = ["author", "name", "unit", "time", "value", "seq", "index"]
_MINUTE_US = 60_000_000
_SUMS_HELD = 262_144
"""Sums that wait to be added up: about 20 MB."""

_Series = tuple[str | None, str | None, str | None]
"""Author, name and unit."""


@dataclass(frozen=True, slots=True)
class _Sums:
    """Columns of sums, a row for each part of a series' minute."""

    series: Integers
    minute: Integers
    readings: Integers
    minimum: Doubles
    maximum: Doubles
    total: Doubles
    last: Doubles
    last_time: Integers
    last_seq: Integers
    last_index: Integers

    def __len__(self) -> int:
        return len(self.series)

    def taken(self, rows: Places) -> _Sums:
        """Return some of the rows."""
        return _Sums(*(getattr(self, field.name)[rows] for field in fields(self)))

    def added_up(self, starts: Places) -> _Sums:
        """Return the sums of groups of rows that follow each other: one begins at each of `starts`."""
        lasts = self._lasts(starts)
        return replace(
            self.taken(lasts),
            readings=np.add.reduceat(self.readings, starts),
            minimum=np.minimum.reduceat(self.minimum, starts),
            maximum=np.maximum.reduceat(self.maximum, starts),
            total=np.add.reduceat(self.total, starts),
        )

    def _lasts(self, starts: Places) -> Places:
        """Return the last row of each group (rule 4)."""
        lengths = np.diff(starts, append=len(self))
        newest = np.flatnonzero(self.last_time == np.repeat(np.maximum.reduceat(self.last_time, starts), lengths))
        if len(newest) == len(starts):
            return newest
        group = np.repeat(np.arange(len(starts)), lengths)[newest]
        order = np.lexsort((self.last_index[newest], self.last_seq[newest], group))
        ends = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)  # groups are in order already
        lasts: Places = newest[order][ends]
        return lasts


class Minutes:
    """Sums up the readings of one file."""

    def __init__(self) -> None:
        self._numbers: dict[_Series, int] = {}
        self._parts: list[_Sums] = []
        self._held, self._most = 0, _SUMS_HELD

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of `exploding.STORED`."""
        rows = rows.select(_COLUMNS)
        if rows["value"].null_count:
            rows = rows.filter(rows["value"].is_valid())
        if not len(rows):
            return
        texts = {name: codes(rows[name]) for name in ("author", "name", "unit")}
        value, time, seq = rows["value"].to_numpy(), microseconds(rows["time"]), rows["seq"].to_numpy()
        minute = time // _MINUTE_US
        starts = begins([*texts.values(), minute, seq])
        ones = np.ones(len(rows), np.int64)
        alone = _Sums(ones, minute, ones, value, value, value, value, time, seq, rows["index"].to_numpy())
        series = self._series(rows, {name: of[starts] for name, of in texts.items()})
        part = replace(alone.added_up(starts), series=series)
        self._parts.append(part)
        self._held += len(part)
        if self._held > self._most:
            self._add_up()

    def table(self) -> pa.Table:
        """Return rows of `SCHEMA`, by author, name, unit and minute."""
        if not self._parts:
            return SCHEMA.empty_table()
        self._add_up()
        (sums,) = self._parts
        names = sorted(self._numbers, key=lambda series: tuple((text is not None, text or "") for text in series))
        ranks = np.empty(len(names), np.int64)
        ranks[[self._numbers[series] for series in names]] = np.arange(len(names))
        rank = ranks[sums.series]
        order = np.argsort(rank, kind="stable")  # minutes are in order already
        sums, rank = sums.taken(order), pa.array(rank[order])
        author, name, unit = (pa.array(column, pa.string()) for column in zip(*names, strict=True))
        device = pa.array([text and text[:8] for text, *_ in names], pa.string())
        columns = [texts.take(rank) for texts in (author, device, name, unit)]
        columns.append(pa.array(sums.minute * _MINUTE_US).cast(TIMESTAMP))
        columns += [pa.array(getattr(sums, field.name), field.type) for field in SCHEMA if field.name in _PLAIN]
        columns += [pa.array(sums.last_time).cast(TIMESTAMP), pa.array(sums.last_seq)]
        return pa.Table.from_arrays(columns, schema=SCHEMA)

    def _series(self, rows: pa.RecordBatch, starts: Mapping[str, Integers]) -> Integers:
        """Number the series of runs, the same for the same series in all batches."""
        values = [[*rows[name].dictionary.to_pylist(), None] for name in starts]
        packed = np.zeros(len(starts["author"]), np.int64)
        for places, of in zip(starts.values(), values, strict=True):
            packed = packed * len(of) + places
        found, inverse = np.unique(packed, return_inverse=True)
        authors, names, units = values
        numbers = np.empty(len(found), np.int64)
        for place, one in enumerate(found.tolist()):
            rest, unit = divmod(one, len(units))
            author, name = divmod(rest, len(names))
            series = authors[author], names[name], units[unit]
            numbers[place] = self._numbers.setdefault(series, len(self._numbers))
        return numbers[inverse]

    def _add_up(self) -> None:
        parts = self._parts
        sums = _Sums(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(_Sums)))
        since = sums.minute - sums.minute.min()
        sums = sums.taken(np.argsort(sums.series * (since.max() + 1) + since, kind="stable"))
        sums = sums.added_up(begins([sums.series, sums.minute]))
        self._parts, self._held = [sums], len(sums)
        self._most = max(_SUMS_HELD, 2 * len(sums))


_PLAIN = ("readings", "minimum", "maximum", "total", "last")
