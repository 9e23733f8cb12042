"""Choose the parts of a vault that a query has to read. Needs no Spark.

1. Columns: unrequested ones are not built. Without a column from packed ones (readings and the quality of their times),
   these stay packed: messages are verified and parsed as usual, but a column whose sums exceed all bounds goes
   unnoticed.
2. Times: messages that a collector received in [since, until). A segment created before `since` is not opened: it holds
   none (docs/protocol/, "Creation times"). Nothing says how old a segment's oldest message is, so `until` skips
   no segment; but messages outside are neither verified nor parsed. Segments that fail as a whole are reported,
   whatever their time.
3. Nodes: no manifest and no segment of another node is read.

Filters of a query are not used: PySpark 4.3 keeps what `pushFilters` has planned for all queries on a DataFrame, so
that those with other filters, or without, would miss rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from covey.core.vault.documents import SegmentRecord
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import ManifestMemory, VaultObjects, VaultReader
from covey.limits.message import MAXIMUM_COUNTER
from covey_ingest.task.schema import MESSAGE_SCHEMA
from covey_ingest.vault.offsets import Work

_UNPACKED = frozenset({"time_quality", "clock_offset", "booleans_from", "booleans_until"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns by rule 1 and times by rule 2, in microseconds of the collector's wall clock."""

    schema: pa.Schema = MESSAGE_SCHEMA
    since_us: int = 0
    until_us: int = MAXIMUM_COUNTER + 1

    @property
    def unpacks(self) -> bool:
        """Say whether packed columns have to be decoded."""
        return any(pa.types.is_list(field.type) or field.name in _UNPACKED for field in self.schema)

    def takes(self, record: SegmentRecord) -> bool:
        """Say whether a message is of the right time."""
        return self.takes_moment(record.received_at_us)

    def takes_moment(self, moment_us: int) -> bool:
        """Say whether a moment is in the times that are asked for."""
        return self.since_us <= moment_us < self.until_us

    def works(self, planned: Iterable[Work]) -> Iterator[Work]:
        """Yield tasks without the segments that hold nothing of the right time."""
        for work in planned:
            kept = tuple([entry for entry in work.entries if entry.created_at_us >= self.since_us])
            if kept or not work.entries:  # the news of a trouble have none
                yield replace(work, entries=kept)


EVERYTHING = Selection()


class ChosenNodes(VaultReader):
    """A vault of which some nodes are followed, by id in hex."""

    def __init__(
        self, nodes: frozenset[str], store: VaultObjects, keys: KeyRing, memory: ManifestMemory | None
    ) -> None:
        super().__init__(store, keys, memory)
        self._chosen = nodes

    def nodes(self) -> list[str]:
        """Return those of the chosen nodes that have a manifest."""
        return [node for node in super().nodes() if node in self._chosen]
