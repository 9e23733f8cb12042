"""Which incarnations of an author are no longer remembered one by one: a Bloom filter of `FILTER_BYTES` for each.

An incarnation that is not remembered and not in the filter is new for certain. Of one that is perhaps in it the table
is asked. With 100 forgotten incarnations one new one in a thousand is asked about for nothing, with 1,000 every second.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from covey_ingest.committer.state_file import read_state, replace_state
from covey_ingest.tables.messages import LINK

FILTER_BYTES = 256
SCHEMA = pa.schema([("author", pa.string()), ("incarnations", pa.binary())])


class ForgottenIncarnations:
    """The filters, by author."""

    def __init__(self, table: pa.Table) -> None:
        """Take the file's rows."""
        self._filters = dict(zip(table["author"].to_pylist(), table["incarnations"].to_pylist(), strict=True))

    @classmethod
    def none(cls) -> ForgottenIncarnations:
        """Return filters of nothing."""
        return cls(SCHEMA.empty_table())

    @classmethod
    def read(cls, path: Path) -> tuple[ForgottenIncarnations, int]:
        """Return what a file says, and the last micro-batch in it: -1 where there is none."""
        table, last = read_state(path, SCHEMA)
        return cls(table), last

    def replace(self, path: Path, batch_id: int) -> None:
        """Write the file. Raises OSError."""
        columns = [pa.array([*self._filters], pa.string()), pa.array([*self._filters.values()], pa.binary())]
        replace_state(path, pa.table(columns, schema=SCHEMA).sort_by("author"), batch_id)

    def perhaps(self, links: pa.Table) -> pa.Table:
        """Return those of some links that may have been forgotten."""
        held = [
            (bits := self._filters.get(author)) is not None
            and all(bits[place // 8] >> place % 8 & 1 for place in _places(name))
            for author, name in _names(links)
        ]
        return links.filter(pa.array(held, pa.bool_()))

    def add(self, links: pa.Table) -> None:
        """Forget links."""
        for author, name in _names(links):
            changed = bytearray(self._filters.get(author, bytes(FILTER_BYTES)))
            for place in _places(name):
                changed[place // 8] |= 1 << place % 8
            self._filters[author] = bytes(changed)


def _names(links: pa.Table) -> list[tuple[str, str]]:
    return [*zip(*(links[name].to_pylist() for name in LINK), strict=True)]


def _places(name: str) -> list[int]:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return [int.from_bytes(digest[place : place + 2]) % (8 * FILTER_BYTES) for place in range(0, 8, 2)]
