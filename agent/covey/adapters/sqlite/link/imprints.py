"""The table of imprints: by which message each of the newest numbers of a link has come (`core/link/imprints.py`).

A row holds 64 consecutive numbers. It is read once and written once in a transaction, and remembered until another
process has written: who sent something is soon told which. A new row is written at once, too, so that the table always
says which rows there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import drop_oldest
from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.queued import Imprint
from covey.core.wire.imprints import IMPRINT_BYTES
from covey.core.wire.sequences import Range, SequenceSet
from covey.limits.link import IMPRINTS_KEPT, IMPRINTS_OF_AUTHOR
from covey.limits.storage import LINKS_REMEMBERED

_NUMBERS = 64
_KEPT = IMPRINTS_KEPT // _NUMBERS
_MOST = IMPRINTS_OF_AUTHOR // _NUMBERS
_AHEAD = 8
"""Rows of what is sent ahead of a backlog, at least."""
_SEQ_BYTES = 5
_ENTRY_BYTES = _SEQ_BYTES + IMPRINT_BYTES
_ROW_BYTES = _NUMBERS * _ENTRY_BYTES

_WRITE = "INSERT OR REPLACE INTO imprint VALUES (?, ?, ?, ?)"

_Row = tuple[DeviceKey, Incarnation, int]


class ImprintTable:
    """The imprints of each link's newest numbers, and of those about its holes; bounded for each author."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Row, bytearray | None] = {}
        self._unwritten: set[_Row] = set()
        database.remember_longer(self._forget, self._flush)

    def _flush(self) -> None:
        if self._unwritten:
            rows = [(*row, self._known[row]) for row in sorted(self._unwritten)]
            self._database.run_each(_WRITE, rows)
            self._unwritten.clear()
        drop_oldest(self._known, LINKS_REMEMBERED)

    def _forget(self) -> None:
        self._known.clear()
        self._unwritten.clear()

    def note(self, author: DeviceKey, incarnation: Incarnation, imprint: Imprint, received: SequenceSet) -> None:
        """Store the imprint of a message from a link, with the numbers `received` there.

        Writes, so inside a transaction.
        """
        block, place = divmod(imprint.link_seq, _NUMBERS)
        row = (author, incarnation, block)
        entries = self._read(row)
        if entries is None:
            self._make_room(*row, received)
            entries = self._known[row] = bytearray(_ROW_BYTES)
            self._database.run(_WRITE, (*row, entries))
        at = place * _ENTRY_BYTES
        entries[at : at + _ENTRY_BYTES] = imprint.seq.to_bytes(_SEQ_BYTES) + imprint.imprint
        self._unwritten.add(row)

    def remove(self, author: DeviceKey, incarnation: Incarnation, spans: Iterable[Range]) -> None:
        """Forget the imprints of numbers that count as not received any more. Inside a transaction."""
        self._flush()
        for first, last in spans:
            low, high = first // _NUMBERS, last // _NUMBERS
            query = "SELECT block FROM imprint WHERE author = ? AND incarnation = ? AND block BETWEEN ? AND ?"
            for (block,) in self._database.run(query, (author, incarnation, low, high)):
                row = (author, incarnation, block)
                entries = self._read(row)
                if entries is None:
                    continue
                begin = max(first - block * _NUMBERS, 0) * _ENTRY_BYTES
                end = (min(last - block * _NUMBERS, _NUMBERS - 1) + 1) * _ENTRY_BYTES
                entries[begin:end] = bytes(end - begin)
                self._known[row] = entries
                self._unwritten.add(row)

    def of(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        block, place = divmod(link_seq, _NUMBERS)
        entries = self._read((author, incarnation, block))
        return None if entries is None else _entry(block, entries, place)

    def before(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        if link_seq > 0 and (nearest := self.of(author, incarnation, LinkSeq(link_seq - 1))) is not None:
            return nearest
        block, place = divmod(link_seq, _NUMBERS)
        lower = self._nearest("max(block)", "<", author, incarnation, block)
        rows = chain(
            (((author, incarnation, block), place),), (((author, incarnation, each), _NUMBERS) for each in lower)
        )
        return next((each for row, end in rows for each in self._entries(row, range(end - 1, -1, -1))), None)

    def after(self, author: DeviceKey, incarnation: Incarnation, link_seq: LinkSeq) -> Imprint | None:
        block, place = divmod(link_seq, _NUMBERS)
        higher = self._nearest("min(block)", ">", author, incarnation, block)
        rows = chain(
            (((author, incarnation, block), place + 1),), (((author, incarnation, each), 0) for each in higher)
        )
        return next((each for row, start in rows for each in self._entries(row, range(start, _NUMBERS))), None)

    def newest(self, author: DeviceKey, incarnation: Incarnation, limit: int, highest: LinkSeq) -> list[Imprint]:
        block, place = divmod(highest, _NUMBERS)
        found = list(islice(self._entries((author, incarnation, block), range(place, -1, -1)), limit))
        if block == 0 or len(found) == limit:
            return found
        self._flush()
        rows = self._database.each(
            "SELECT block, entries FROM imprint WHERE author = ? AND incarnation = ? ORDER BY block DESC LIMIT ?",
            (author, incarnation, 1 + -(-limit // _NUMBERS)),
        )
        backwards = range(_NUMBERS - 1, -1, -1)
        return list(islice((each for block, entries in rows for each in _found(block, entries, backwards)), limit))

    def _entries(self, row: _Row, places: range) -> Iterator[Imprint]:
        entries = self._read(row)
        return iter(()) if entries is None else _found(row[2], entries, places)

    def _read(self, row: _Row) -> bytearray | None:
        if row in self._known and self._database.holds():
            return self._known[row]
        query = "SELECT entries FROM imprint WHERE author = ? AND incarnation = ? AND block = ?"
        found = self._database.first(query, row)
        entries = None if found is None or len(found[0]) != _ROW_BYTES else bytearray(found[0])
        if self._database.within:
            self._known[row] = entries
        return entries

    def _nearest(self, which: str, how: str, author: DeviceKey, incarnation: Incarnation, block: int) -> Iterator[int]:
        query = f"SELECT {which} FROM imprint WHERE author = ? AND incarnation = ? AND block {how} ?"  # noqa: S608
        nearest = self._database.first(query, (author, incarnation, block))[0]
        if nearest is not None:
            yield nearest

    def _make_room(self, author: DeviceKey, incarnation: Incarnation, block: int, received: SequenceSet) -> None:
        """Forget what is too old of a link; and of its author's other incarnations, where there is too much.

        Before the last window of what came without holes, two rows for each new one: what came late there may have to
        be named once more.
        """
        query = "SELECT block FROM imprint WHERE author = ? AND incarnation = ? ORDER BY block"
        held = [each for (each,) in self._database.run(query, (author, incarnation))]
        oldest = min(block, received.upto // _NUMBERS) - _KEPT
        gone = [] if received.ranges else [each for each in held if each < oldest][:2]
        if not gone and len(held) >= _MOST:
            gone.append(_least_needed(held))
        for each in gone:
            self._delete("incarnation = ? AND block = ?", author, incarnation, each)
        if self._database.one("SELECT count(*) FROM imprint WHERE author = ?", author) * _NUMBERS >= IMPRINTS_OF_AUTHOR:
            self._delete("incarnation <> ?", author, incarnation)

    def _delete(self, which: str, author: DeviceKey, *parameters: object) -> None:
        query = f"DELETE FROM imprint WHERE author = ? AND {which} RETURNING author, incarnation, block"  # noqa: S608
        for row in self._database.run(query, (author, *parameters)):
            self._known.pop(row, None)
            self._unwritten.discard(row)


def _least_needed(blocks: list[int]) -> int:
    """Return the oldest of too many blocks of a link; of those sent ahead of a backlog, if there are many."""
    _, ahead = max((later - block, place) for place, (block, later) in enumerate(pairwise(blocks), 1))
    return blocks[ahead] if len(blocks) - ahead > _AHEAD else blocks[0]


def _found(block: int, entries: bytes | bytearray, places: range) -> Iterator[Imprint]:
    if places.step > 0 and not entries[places.start * _ENTRY_BYTES :].strip(b"\0"):
        return  # as of what is sent in order
    for place in places:
        entry = _entry(block, entries, place)
        if entry is not None:
            yield entry


def _entry(block: int, entries: bytes | bytearray, index: int) -> Imprint | None:
    at = index * _ENTRY_BYTES
    seq = int.from_bytes(entries[at : at + _SEQ_BYTES]) if len(entries) == _ROW_BYTES else 0
    if not seq:
        return None
    return Imprint(LinkSeq(block * _NUMBERS + index), seq, bytes(entries[at + _SEQ_BYTES : at + _ENTRY_BYTES]))
