"""The `gaps` table by columns: what `gap_fast_path` opens in it and closes without a Python object for each gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.decode import Integers
from covey_ingest.links import Ranges, rows_of
from covey_ingest.schema import TIMESTAMP

RANGES_REMEMBERED = 64
CLOSED_REMEMBERED = 8

_LINK = ["author", "incarnation"]


@dataclass(frozen=True, slots=True)
class GapColumns:
    """The table, and of each row the state's row of its incarnation; -1 for none.

    `standing` are the rows that are neither closed nor forgotten, `spans` where these lie.
    """

    table: pa.Table
    owners: Integers
    standing: Integers
    spans: Ranges

    @classmethod
    def of(cls, table: pa.Table, numbers: pa.Table) -> GapColumns:
        """Read the table beside the state."""
        owners = rows_of(numbers.select(_LINK), table.select(_LINK))
        stands = pc.and_(pc.is_null(table["closed_at"]), pc.not_equal(table["state"], "forgotten"))
        standing = np.flatnonzero(stands.to_numpy() & (owners >= 0))
        firsts, lasts = (table[name].to_numpy()[standing] for name in ("first", "last"))
        return cls(table, owners, standing, Ranges(owners[standing], firsts, lasts))

    def came(self, owners: Integers, numbers: Integers) -> Integers:
        """Return of each standing gap how many of these numbers lie in it."""
        gaps, asked = len(self.standing), len(owners)
        every = np.concatenate([self.spans.owners, owners, self.spans.owners])
        edges = np.concatenate([self.spans.firsts, numbers, self.spans.lasts])
        kinds = np.repeat(np.array([0, 1, 2], np.int8), [gaps, asked, gaps])
        order = np.lexsort((kinds, edges, every))
        passed = np.empty(len(order), np.int64)
        passed[order] = np.cumsum(kinds[order] == 1)
        return passed[gaps + asked :] - passed[:gaps]

    def highest(self, count: int) -> Integers:
        """Return the highest number in a standing gap of each of the state's `count` rows; 0 for none, and at -1."""
        highest = np.zeros(count + 1, np.int64)
        np.maximum.at(highest, self.spans.owners, self.spans.lasts)
        return highest

    def sums(self, weights: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
        """Return what standing gaps weigh together by the state's `count` rows; 0 at -1."""
        return np.append(np.bincount(self.spans.owners, weights, count), 0)

    def closed(self, filled: npt.NDArray[np.bool_], now_us: Integers) -> GapColumns:
        """Return it with some of the standing gaps closed, at the time of their incarnation."""
        if not filled.any():
            return self
        ended = self.standing[filled]
        closed_us = pc.fill_null(self.table["closed_at"].cast(pa.int64()), -1).to_numpy().copy()
        closed_us[ended] = now_us[self.owners[ended]]
        states = pc.if_else(pa.array(_mask(ended, len(closed_us))), "closed", self.table["state"])
        closed_at = pa.array(closed_us, mask=closed_us < 0).cast(TIMESTAMP)
        table = self.table
        for name, values in (("state", states), ("closed_at", closed_at)):
            table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
        left = ~_mask(self._beyond(closed_us, self.owners[ended]), len(closed_us))
        stays = ~filled
        kept = np.cumsum(left) - 1
        return GapColumns(
            table.filter(pa.array(left)), self.owners[left], kept[self.standing[stays]], self.spans.where(stays)
        )

    def _beyond(self, closed_us: Integers, touched: Integers) -> Integers:
        """Return the closed rows of some incarnations that are no longer remembered."""
        rows = np.flatnonzero((closed_us >= 0) & np.isin(self.owners, touched))
        firsts = self.table["first"].to_numpy()[rows]
        rows = rows[np.lexsort((firsts, closed_us[rows], self.owners[rows]))]
        ends = np.searchsorted(self.owners[rows], self.owners[rows], side="right")
        return rows[ends - np.arange(len(rows)) > CLOSED_REMEMBERED]

    def opened(self, numbers: pa.Table, holes: Ranges, now_us: Integers) -> pa.Table:
        """Return the table with new gaps, by the state's rows."""
        whose, count = numbers.take(pa.array(holes.owners)), len(holes.owners)
        known = {name: whose[name] for name in (*_LINK, "collector")} | {
            "device": pc.utf8_slice_codeunits(whose["author"], 0, 8),
            "first": pa.array(holes.firsts),
            "last": pa.array(holes.lasts),
            "numbers": pa.array(holes.lasts - holes.firsts + 1),
            "state": pa.repeat("open", count),
            "first_seen_at": pa.array(now_us[holes.owners]).cast(TIMESTAMP),
        }
        schema = self.table.schema
        columns = [known.get(field.name, pa.nulls(count, field.type)) for field in schema]
        return pa.concat_tables([self.table, pa.table(columns, schema=schema)])


def _mask(rows: Integers, count: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask
