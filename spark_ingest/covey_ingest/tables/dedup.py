"""Messages that a vault holds more than once: landed by two collectors, or imported again.

Which numbers of an author and incarnation are in the table, `gaps` knows. A micro-batch is compared with that by one
row for each message, by SQL; no reading is shuffled (but those of messages that it holds twice).
`bench/tables/vault_growth.py` measures it for 100,000 devices, and for boards with 100 incarnations each.

1. A message whose number `gaps` does not have is new, unless its incarnation was forgotten. What it may have is a
   repeat if the table has it: the same `MESSAGE`. Else it is another message, of a device whose state was written back
   bit for bit; or the number lacked where nobody remembers any more which ones did.
2. A micro-batch that is committed and not among the numbers yet is taken in before the next one is compared.
3. The table is asked by its log: each micro-batch before this one is in there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from covey_ingest.tables import gaps
from covey_ingest.tables.messages import MESSAGE, database
from covey_ingest.tables.standing import standing

MessageKey: TypeAlias = tuple[str, str, int, str, int]

_COUNTED = """
    CREATE TEMP TABLE counted AS
    WITH spans AS (SELECT author, incarnation, unnest(firsts) AS first, unnest(lasts) AS last FROM numbers)
    SELECT messages.author, messages.incarnation, seq, boot, batch_number, count(*) AS copies,
           coalesce(bool_or(batch_number <= last), false) OR bool_or(forgotten.author IS NOT NULL) AS suspected
    FROM messages ASOF LEFT JOIN spans ON messages.author = spans.author AND messages.incarnation = spans.incarnation
                                          AND batch_number >= first
    LEFT JOIN forgotten ON messages.author = forgotten.author AND messages.incarnation = forgotten.incarnation
    GROUP BY ALL"""
_REPEATED = """
    FROM suspected SEMI JOIN there USING (author, incarnation, seq, boot, batch_number)"""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What of a micro-batch is there more often than once, as rows of `MESSAGE`."""

    known: list[MessageKey]
    """In the table already."""
    doubled: list[MessageKey]
    """Not in the table, but more than once in this micro-batch."""
    copies: int
    """Messages to leave out, in all."""


def find(tables: Path, messages: pa.Table, newest: int | None = None) -> Repeats:
    """Compare a micro-batch's messages with what the committed ones brought, of which `newest` is the last."""
    numbers, forgotten = gaps.update(tables, newest)
    back = forgotten.perhaps(gaps.unknown_links(numbers, messages))
    with database(messages=messages, numbers=numbers, forgotten=back) as held:
        held.execute(_COUNTED)
        doubled = _keys(held.sql("FROM counted WHERE copies > 1").to_arrow_table())
        suspected = held.sql("FROM counted WHERE suspected").to_arrow_table()
        held.register("there", standing(tables, suspected))
        held.register("suspected", suspected)
        repeated = _keys(held.sql(_REPEATED).to_arrow_table())
    doubled = {key: copies for key, copies in doubled.items() if key not in repeated}
    copies = sum(repeated.values()) + sum(copies - 1 for copies in doubled.values())
    return Repeats(sorted(repeated), sorted(doubled), copies)


def kept(notes: Sequence[pa.Table], found: Repeats) -> list[list[bool]]:
    """Say of each message of some files whether it stays; of those that came twice, the one that came first."""
    known, doubled = set(found.known), set(found.doubled)
    order = ("received_at", "collector")
    came: dict[MessageKey, tuple[object, ...]] = {}
    places = []
    for number, rows in enumerate(notes):
        columns = zip(*(rows[name].to_pylist() for name in (*MESSAGE, *order)), strict=True)
        for place, (*key, received_at, collector) in enumerate(columns):
            message: MessageKey = tuple(key)
            at = (received_at, collector, number, place)
            places.append((message, number, at))
            if message in doubled:
                came[message] = min(at, came.get(message, at))
    stay: list[list[bool]] = [[] for _ in notes]
    for message, number, at in places:
        stay[number].append(message not in known and came.get(message, at) == at)
    return stay


def _keys(counted: pa.Table) -> dict[MessageKey, int]:
    keys = zip(*(counted[name].to_pylist() for name in MESSAGE), strict=True)
    return dict(zip(keys, counted["copies"].to_pylist(), strict=True))
