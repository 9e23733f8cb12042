"""The table of imprints: by which message each of the newest numbers of a link has come (`core/link/imprints.py`).

A row holds 64 consecutive numbers. Within a transaction nobody else writes, so it is read once and written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from covey.adapters.sqlite.database import Database
from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.imprints import Imprint
from covey.core.wire.imprints import IMPRINT_BYTES
from covey.limits.link import IMPRINTS_KEPT, IMPRINTS_OF_AUTHOR

_NUMBERS = 64
_SEQ_BYTES = 5
_ENTRY_BYTES = _SEQ_BYTES + IMPRINT_BYTES
_ROW_BYTES = _NUMBERS * _ENTRY_BYTES

_Row = tuple[DeviceKey, Incarnation, int]


class ImprintTable:
    """The imprints of each author's newest numbers, bounded for each link and for each author."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Row, bytearray | None] = {}
        self._unwritten: set[_Row] = set()
        database.remember(self._forget, self._flush)

    def _flush(self) -> None:
        for row in self._unwritten:
            self._database.run("INSERT OR REPLACE INTO imprint VALUES (?, ?, ?, ?)", (*row, self._known[row]))
        self._unwritten.clear()

    def _forget(self) -> None:
        self._known.clear()
        self._unwritten.clear()

    def note(self, author: DeviceKey, incarnation: Incarnation, imprint: Imprint) -> None:
        """Keep the imprint of a message that has come. Writes, so inside a transaction."""
        block, place = divmod(imprint.link_seq, _NUMBERS)
        row = (author, incarnation, block)
        entries = self._read(row)
        if entries is None:
            self._make_room(*row)
            entries = self._known[row] = bytearray(_ROW_BYTES)
        at = place * _ENTRY_BYTES
        entries[at : at + _ENTRY_BYTES] = imprint.seq.to_bytes(_SEQ_BYTES) + imprint.imprint
        self._unwritten.add(row)

    def of(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of a number."""
        block, place = divmod(link_seq, _NUMBERS)
        return next(self._entries((author, incarnation, block), [place]), None)

    def before(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of the nearest lower number."""
        block, place = divmod(link_seq, _NUMBERS)
        lower = self._nearest("max(block)", "<", author, incarnation, block)
        rows = chain(
            (((author, incarnation, block), place),), (((author, incarnation, each), _NUMBERS) for each in lower)
        )
        return next((each for row, end in rows for each in self._entries(row, range(end - 1, -1, -1))), None)

    def after(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        """Return what is kept of the nearest higher number."""
        block, place = divmod(link_seq, _NUMBERS)
        higher = self._nearest("min(block)", ">", author, incarnation, block)
        rows = chain(
            (((author, incarnation, block), place + 1),), (((author, incarnation, each), 0) for each in higher)
        )
        return next((each for row, start in rows for each in self._entries(row, range(start, _NUMBERS))), None)

    def newest(self, author: DeviceKey, incarnation: Incarnation, limit: int) -> list[Imprint]:
        """Return what is kept of the highest numbers, these first."""
        self._flush()
        rows = self._database.each(
            "SELECT block, entries FROM imprint WHERE author = ? AND incarnation = ? ORDER BY block DESC LIMIT ?",
            (author, incarnation, 1 + -(-limit // _NUMBERS)),
        )
        backwards = range(_NUMBERS - 1, -1, -1)
        return list(islice((each for block, entries in rows for each in _found(block, entries, backwards)), limit))

    def _entries(self, row: _Row, places: Iterable[int]) -> Iterator[Imprint]:
        entries = self._read(row)
        return iter(()) if entries is None else _found(row[2], entries, places)

    def _read(self, row: _Row) -> bytearray | None:
        if self._database.within and row in self._known:
            return self._known[row]
        query = "SELECT entries FROM imprint WHERE author = ? AND incarnation = ? AND block = ?"
        found = self._database.first(query, row)
        entries = None if found is None or len(found[0]) != _ROW_BYTES else bytearray(found[0])
        if self._database.within:
            self._known[row] = entries
        return entries

    def _nearest(self, which: str, how: str, author: DeviceKey, incarnation: Incarnation, block: int) -> Iterator[int]:
        """Yield the nearest block that there is, if one is asked for."""
        self._flush()
        query = f"SELECT {which} FROM imprint WHERE author = ? AND incarnation = ? AND block {how} ?"  # noqa: S608
        nearest = self._database.first(query, (author, incarnation, block))[0]
        if nearest is not None:
            yield nearest

    def _make_room(self, author: DeviceKey, incarnation: Incarnation, block: int) -> None:
        """Forget what is too old of a link; and of its author's other incarnations, where there is too much."""
        self._flush()
        self._database.run(
            "DELETE FROM imprint WHERE author = ? AND incarnation = ? AND block < ?",
            (author, incarnation, block - IMPRINTS_KEPT // _NUMBERS),
        )
        if self._database.one("SELECT count(*) FROM imprint WHERE author = ?", author) * _NUMBERS >= IMPRINTS_OF_AUTHOR:
            self._database.run("DELETE FROM imprint WHERE author = ? AND incarnation <> ?", (author, incarnation))
        self._known = {row: entries for row, entries in self._known.items() if entries is None}


def _found(block: int, entries: bytes | bytearray, places: Iterable[int]) -> Iterator[Imprint]:
    """Yield what stands at places of a row; nothing of one that is not of its length."""
    if len(entries) != _ROW_BYTES:
        return
    for place in places:
        entry = entries[place * _ENTRY_BYTES : (place + 1) * _ENTRY_BYTES]
        seq = int.from_bytes(entry[:_SEQ_BYTES])
        if seq:
            yield Imprint(LinkSeq(block * _NUMBERS + place), seq, bytes(entry[_SEQ_BYTES:]))
