"""Sum up rows of `readings` as they are written, without a loop over rows: runs of equal rows first, then groups.

Rows of one message and series follow each other in a task's files, so runs are few. Nothing relies on it: rows in any
order have more runs, and the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.task.decode import Integers

Places = npt.NDArray[np.intp]


def microseconds(times: pa.Array) -> Integers:
    """Return times without nulls as numbers since 1970."""
    plain: Integers = times.cast(pa.int64()).to_numpy()
    return plain


def codes(texts: pa.DictionaryArray) -> Integers:
    """Return each row's place in the dictionary; one behind its end for null."""
    plain: Integers = pc.fill_null(texts.indices, len(texts.dictionary)).to_numpy()
    return plain


def begins(columns: Sequence[npt.NDArray[np.generic]]) -> Places:
    """Return the rows that differ from the one before in any column; the first row is one of them."""
    changed = np.zeros(len(columns[0]), np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)
