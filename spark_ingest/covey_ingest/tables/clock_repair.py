"""Times of readings that stand in a Delta table, repaired by clocks that became known later: rule 3 of `clocks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from covey_ingest.task.time_quality import AHEAD_US, HISTORY_FROM_US, TimeQuality

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties

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
