"""The tables of history: operations, their positions, logs and heads, and what members have received."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.events import EventTable
from covey.adapters.sqlite.history.forgotten import ForgottenOperations
from covey.adapters.sqlite.history.order_index import OrderIndex
from covey.adapters.sqlite.rows import PLACE_BITS
from covey.core.history.kinds import JUDGED_BY_PLACE, PERSONAL_KINDS, OperationKind
from covey.core.history.operation import (
    Behind,
    Held,
    Log,
    LogEnd,
    Operation,
    OperationShape,
    Remains,
    StoredOperation,
    operation_id,
    read_operation,
)
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId, Place
from covey.core.orders.nodes import OrderNode
from covey.core.orders.target import target_of
from covey.errors import DamagedStateError

_WAITING = f"peer.id << {PLACE_BITS} | announcement.place"
_WAITS = f"EXISTS (SELECT 1 FROM peer JOIN outbox ON outbox.id = {_WAITING} WHERE signing_public = member)"  # noqa: S608
_SHAPE = "arrival, hash, late, stored_at, raw"
_COLUMNS = "arrival, height, stored_at, hash, raw"
_EVERY_ARRIVAL = 2**63 - 1


class OperationTables:
    """The operations of this device's groups."""

    def __init__(self, database: Database, events: EventTable, forgotten: ForgottenOperations | None = None) -> None:
        self._database = database
        self._index = OrderIndex(database)
        self._events = events
        self._forgotten = forgotten or ForgottenOperations(database)

    @property
    def forgotten(self) -> ForgottenOperations:
        """The operations that are not here any more."""
        return self._forgotten

    def forgotten_ends(self, group_id: GroupId) -> dict[Log, int]:
        return self._forgotten.ends(group_id)

    def remains(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
        """Yield by height and id what remains of each operation, or would, with its arrival, and what it approves."""
        both = self._remains_here(group_id), self._forgotten.remains(group_id)
        return heapq.merge(*both, key=lambda each: (each[1].height, each[1].id))

    def _remains_here(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
        rows = self._database.each(
            "SELECT arrival, hash, raw, subject FROM operation WHERE group_id = ? ORDER BY height, hash", (group_id,)
        )
        for arrival, found, raw, subject in rows:
            it = read_operation(raw, verify=False)
            judged = it.kind not in JUDGED_BY_PLACE
            place = it.log, it.number, it.height, it.manifest, it.kind, judged, len(raw), it.parents, target_of(it)
            yield arrival, Remains(found, *place), subject if it.kind == OperationKind.APPROVAL else None

    def remember(self, group_id: GroupId, remains: Remains, manifest_version: int, *, late: bool = False) -> None:
        frontier, is_node = self._index.place_of(group_id, remains.parents, remains.kind)
        arrival = self._events.number()
        self._forgotten.remember(group_id, remains, manifest_version, arrival, frontier, int(late), int(is_node))
        self._note(group_id, remains.log, remains, remains.length)

    def _note(self, group_id: GroupId, log: Log, operation: Operation | Remains, length: int) -> None:
        self._database.run(
            "INSERT INTO operation_log VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "last = max(last, excluded.last), length = length + excluded.length",
            (group_id, log.author, log.incarnation, operation.number, length),
        )
        for parent in operation.parents:
            self._name(group_id, parent)
        self._database.run("INSERT INTO operation_head VALUES (?, ?)", (group_id, operation.id))

    def _name(self, group_id: GroupId, parent: OperationId) -> None:
        key = group_id, parent
        if not self._database.run("DELETE FROM operation_head WHERE group_id = ? AND hash = ? RETURNING 1", key):
            statement = "INSERT INTO operation_named VALUES (?, ?, 2) ON CONFLICT DO UPDATE SET times = times + 1"
            self._database.run(statement, key)

    def drop(self, group_id: GroupId, operation_id: OperationId) -> list[OperationId]:
        raw = self.raw(group_id, operation_id)
        assert raw is not None, "only what is here is dropped"
        operation = read_operation(raw, verify=False)
        key, of_log = (group_id, operation_id), (group_id, *astuple(operation.log))
        with self._database.overwriting():
            self._database.run("DELETE FROM operation WHERE group_id = ? AND hash = ?", key)
        self._database.run("DELETE FROM operation_head WHERE group_id = ? AND hash = ?", key)
        end = self._last_number(of_log)
        if end is None:
            self._database.run("DELETE FROM operation_log WHERE (group_id, author, incarnation) = (?, ?, ?)", of_log)
        else:
            self._database.run(
                "UPDATE operation_log SET last = ?, length = length - ? "
                "WHERE (group_id, author, incarnation) = (?, ?, ?)",
                (end, len(raw), *of_log),
            )
        for parent in operation.parents:
            self._unname(group_id, parent)
        return [*operation.parents, *(() if operation.previous is None else (operation.previous,))]

    def _last_number(self, of_log: tuple[bytes, bytes, bytes]) -> int | None:
        where = "WHERE (group_id, author, incarnation) = (?1, ?2, ?3)"
        [row] = self._database.run(
            f"SELECT max(number) FROM (SELECT number FROM operation {where} "  # noqa: S608 - our names
            f"UNION ALL SELECT last FROM forgotten_log {where})",
            of_log,
        )
        found: int | None = row[0]
        return found

    def _unname(self, group_id: GroupId, parent: OperationId) -> None:
        key = group_id, parent
        times = self._database.first("SELECT times FROM operation_named WHERE group_id = ? AND hash = ?", key)
        if times is None:
            self._database.run("INSERT INTO operation_head VALUES (?, ?)", key)
        elif times[0] == 2:  # one is left, which the absence from both tables says
            self._database.run("DELETE FROM operation_named WHERE group_id = ? AND hash = ?", key)
        else:
            self._database.run("UPDATE operation_named SET times = times - 1 WHERE group_id = ? AND hash = ?", key)

    def is_followed(self, group_id: GroupId, operation: Operation) -> bool:
        key = group_id, operation.id
        if not self._database.one("SELECT EXISTS (SELECT 1 FROM operation_head WHERE group_id = ? AND hash = ?)", *key):
            return True
        of_log = (group_id, *astuple(operation.log), operation.number + 1)
        arrival = self._database.one("SELECT arrival FROM operation WHERE group_id = ? AND hash = ?", *key)
        if self.forgotten.is_continued(group_id, operation.log, operation.number, arrival):
            return True
        rows = self._database.each(
            "SELECT raw FROM operation WHERE (group_id, author, incarnation, number) = (?, ?, ?, ?)", of_log
        )
        return any(read_operation(raw, verify=False).previous == operation.id for (raw,) in rows)

    def rivals_below(self, group_id: GroupId, operation: Operation) -> int:
        of_log = (group_id, *astuple(operation.log), operation.number)
        here = self._database.one(
            "SELECT count(*) FROM operation WHERE (group_id, author, incarnation, number) = (?, ?, ?, ?) AND hash < ?",
            *of_log,
            operation.id,
        )
        gone = self.forgotten.ids_numbered(group_id, operation.log, operation.number)
        return here + sum(each < operation.id for each in gone)

    def held(self, group_id: GroupId, operation_id: OperationId) -> Held | None:
        row = self._database.first(
            "SELECT height, manifest_version, author, incarnation, number FROM operation "
            "WHERE hash = ? AND group_id = ?",
            (operation_id, group_id),
        )
        if row is None:
            return self.forgotten.held(group_id, operation_id)
        return Held(row[0], row[1], Log(row[2], row[3]), row[4])

    def shapes(self, group_id: GroupId) -> Iterator[OperationShape]:
        both = self._shapes(group_id), self.forgotten.shapes(group_id)
        return heapq.merge(*both, key=lambda each: -each.arrival)

    def shape(self, group_id: GroupId, operation_id: OperationId) -> OperationShape | None:
        row = self._database.first(
            f"SELECT {_SHAPE} FROM operation WHERE hash = ? AND group_id = ?",  # noqa: S608 - our names
            (operation_id, group_id),
        )
        return self.forgotten.shape(group_id, operation_id) if row is None else _shape_of(*row)

    def _shapes(self, group_id: GroupId) -> Iterator[OperationShape]:
        rows = self._database.each(
            f"SELECT {_SHAPE} FROM operation WHERE group_id = ? ORDER BY arrival DESC",  # noqa: S608 - our names
            (group_id,),
        )
        return itertools.starmap(_shape_of, rows)

    def numbered(self, group_id: GroupId, log: Log, number: int) -> int:
        here = self._database.one(
            "SELECT count(*) FROM operation WHERE group_id = ? AND author = ? AND incarnation = ? AND number = ?",
            *(group_id, log.author, log.incarnation, number),
        )
        return here + self.forgotten.numbered(group_id, log, number)

    def end_of(self, group_id: GroupId, log: Log) -> LogEnd | None:
        row = self._database.first(
            "SELECT last, length FROM operation_log WHERE group_id = ? AND author = ? AND incarnation = ?",
            (group_id, log.author, log.incarnation),
        )
        if row is None:
            return None
        last, length = row
        under_it = self._database.run(
            "SELECT hash FROM operation WHERE group_id = ? AND author = ? AND incarnation = ? AND number = ?",
            (group_id, log.author, log.incarnation, last),
        )
        ids = [*(found for (found,) in under_it), *self.forgotten.ids_numbered(group_id, log, last)]
        return LogEnd(last, min(ids), length)

    def logs(self, group_id: GroupId) -> list[tuple[Log, int]]:
        rows = self._database.run(
            "SELECT author, incarnation, last FROM operation_log WHERE group_id = ? ORDER BY author, incarnation",
            (group_id,),
        )
        return [(Log(author, incarnation), last) for author, incarnation, last in rows]

    def authors(self, group_id: GroupId) -> frozenset[DeviceKey]:
        rows = self._database.run("SELECT DISTINCT author FROM operation_log WHERE group_id = ?", (group_id,))
        return frozenset(author for (author,) in rows)

    def log_lengths(self, group_id: GroupId, author: DeviceKey) -> list[tuple[Incarnation, int]]:
        rows = self._database.run(
            "SELECT incarnation, length FROM operation_log WHERE group_id = ? AND author = ? ORDER BY incarnation",
            (group_id, author),
        )
        return [(Incarnation(incarnation), length) for incarnation, length in rows]

    def length(self, group_id: GroupId) -> int:
        return self._database.one("SELECT coalesce(sum(length), 0) FROM operation_log WHERE group_id = ?", group_id)

    def author_lengths(self, group_id: GroupId) -> dict[DeviceKey, int]:
        rows = self._database.run(
            "SELECT author, sum(length) FROM operation_log WHERE group_id = ? GROUP BY author", (group_id,)
        )
        return {DeviceKey(author): length for author, length in rows}

    def authors_beyond(self, group_id: GroupId, logs: int, length: int) -> frozenset[DeviceKey]:
        rows = self._database.run(
            "SELECT author FROM operation_log WHERE group_id = ? GROUP BY author "
            "HAVING count(*) > ? OR sum(length) > ?",
            (group_id, logs, length),
        )
        return frozenset(DeviceKey(author) for (author,) in rows)

    def heads(self, group_id: GroupId) -> list[OperationId]:
        rows = self._database.run("SELECT hash FROM operation_head WHERE group_id = ? ORDER BY hash", (group_id,))
        return [row[0] for row in rows]

    def after(self, group_id: GroupId, log: Log, number: int) -> Iterator[tuple[int, OperationId, bytes]]:
        """Yield (height, id, operation) of a log's operations after a number, the lowest first."""
        return self._database.each(
            "SELECT height, hash, raw FROM operation "
            "WHERE group_id = ? AND author = ? AND incarnation = ? AND number > ? ORDER BY height, hash",
            (group_id, log.author, log.incarnation, number),
        )

    def raw(self, group_id: GroupId, operation_id: OperationId) -> bytes | None:
        row = self._database.first(
            "SELECT raw FROM operation WHERE hash = ? AND group_id = ?", (operation_id, group_id)
        )
        return None if row is None else row[0]

    def add(self, operation: Operation, manifest_version: int, now_us: int, *, late: bool = False) -> None:
        group_id, log = operation.group_id, operation.log
        self._database.run(
            "INSERT INTO operation (arrival, group_id, hash, height, author, incarnation, number, manifest_version, "
            "kind, stored_at, raw, late, frontier, node, subject) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._events.number(),
                group_id,
                operation.id,
                operation.height,
                log.author,
                log.incarnation,
                operation.number,
                manifest_version,
                operation.kind,
                now_us,
                operation.raw,
                late,
                *self._index.place(operation),
            ),
        )
        self._note(group_id, log, operation, len(operation.raw))
        if operation.kind in PERSONAL_KINDS:
            self._events.own(OperationKind(operation.kind), group_id, operation.id, now_us)

    def rebuild(self) -> None:
        """Recompute logs and heads after a salvage; operations that rest on lost ones are requested with them."""
        for group_id, log, length in self.forgotten.lengths():
            row = (group_id, log.author, log.incarnation, self.forgotten.ends(group_id)[log], length)
            self._database.run("INSERT INTO operation_log VALUES (?, ?, ?, ?, ?)", row)
        after: tuple[bytes, int, bytes] = (b"", 0, b"")
        window = (
            "SELECT group_id, height, hash, arrival, raw FROM operation WHERE (group_id, height, hash) > (?, ?, ?) "
        )
        self._events.begin_after(self._last_arrival())
        while rows := self._database.run(f"{window} ORDER BY group_id, height, hash LIMIT 256", after):
            after = rows[-1][:3]
            for group_id, _, _, arrival, raw in rows:
                operation = read_operation(raw, verify=False)
                before = () if operation.previous is None else (operation.previous,)
                if all(self.held(group_id, each) for each in (*operation.parents, *before)):
                    self._note(group_id, operation.log, operation, len(operation.raw))
                else:
                    self._database.run("DELETE FROM operation WHERE arrival = ?", (arrival,))
        for (group_id,) in self._database.run("SELECT DISTINCT group_id FROM forgotten_log"):
            for shape in self.forgotten.shapes(group_id):
                for parent in shape.parents:
                    self._name(group_id, parent)
        self._index.clear()
        self._index.fill()

    def _last_arrival(self) -> int:
        return max(
            self._database.one(f"SELECT coalesce(max(arrival), 0) FROM {table}")  # noqa: S608 - our names
            for table in ("operation", "forgotten_operation")
        )

    def complete_index(self) -> None:
        """Find what the index of orders lacks, after an upgrade; in a transaction of its own."""
        if self._index.lacks_any():
            with self._database.transaction():
                self._index.fill()

    def nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield what bears on orders, by height and id, and what each of it follows."""
        return self._index.nodes(group_id)

    def judged_nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield only those by which orders are judged. Their ancestry takes all `nodes`."""
        return self._index.nodes(group_id, judged=True)

    def frontier(self, group_id: GroupId, operation_id: OperationId) -> tuple[int, ...]:
        """Return the arrivals of the last of these that an operation follows, or is."""
        return self._index.frontier(group_id, operation_id)

    # -- for people ---------------------------------------------------------------------------------------------------

    def in_order(
        self,
        group_id: GroupId,
        after: tuple[int, bytes] = (0, b""),
        most: int = -1,
        upto: int = _EVERY_ARRIVAL,
        *,
        author: DeviceKey | None = None,
        kind: int | None = None,
    ) -> list[StoredOperation]:
        """Return the first operations behind a (height, id), by height and id; -1: every one.

        `upto` leaves out those that arrived after another one; `author` and `kind` those of others.
        """
        which, values = _of(author, kind)
        rows = self._database.run(
            f"SELECT {_COLUMNS} FROM operation WHERE group_id = ? AND (height, hash) > (?, ?) "  # noqa: S608 - our names
            f"AND arrival <= ? {which}ORDER BY height, hash LIMIT ?",
            (group_id, *after, upto, *values, most),
        )
        return [_checked(StoredOperation(*row)) for row in rows]

    def newest_first(
        self,
        group_id: GroupId,
        before: tuple[int, bytes] | None,
        most: int,
        *,
        author: DeviceKey | None = None,
        kind: int | None = None,
    ) -> list[StoredOperation]:
        """Return the last operations before a (height, id), the highest first; None: the very last."""
        height, operation_id = before or (2**62, b"")
        which, values = _of(author, kind)
        rows = self._database.run(
            f"SELECT {_COLUMNS} FROM operation WHERE group_id = ? AND (height, hash) < (?, ?) "  # noqa: S608 - our names
            f"{which}ORDER BY height DESC, hash DESC LIMIT ?",
            (group_id, height, operation_id, *values, most),
        )
        return [_checked(StoredOperation(*row)) for row in rows]

    def arrived_between(self, after: int, upto: int, most: int) -> list[StoredOperation]:
        """Return the first operations, of any group, that came after an event, up to another one, as they came."""
        rows = self._database.run(
            f"SELECT {_COLUMNS} FROM operation WHERE arrival > ? AND arrival <= ? ORDER BY arrival LIMIT ?",  # noqa: S608
            (after, upto, most),
        )
        return [_checked(StoredOperation(*row)) for row in rows]

    def of_kinds_after(self, group_id: GroupId, kinds: Sequence[int], after: int, most: int) -> list[StoredOperation]:
        """Return the first operations of some kinds that came after another one, as they came."""
        marks = ", ".join("?" * len(kinds))
        rows = self._database.run(
            f"SELECT {_COLUMNS} FROM operation WHERE arrival > ? AND group_id = ? AND kind IN ({marks}) "  # noqa: S608
            "ORDER BY arrival LIMIT ?",
            (after, group_id, *kinds, most),
        )
        return [_checked(StoredOperation(*row)) for row in rows]

    def beginning_with(self, group_id: GroupId, first: bytes, last: bytes) -> list[OperationId]:
        """Return the ids between two, both included."""
        rows = self._database.run(
            "SELECT hash FROM operation WHERE hash BETWEEN ? AND ? AND group_id = ? ORDER BY hash",
            (first, last, group_id),
        )
        return [row[0] for row in rows]

    def of_kind(self, group_id: GroupId, kind: int, *, newest_first: bool = False) -> Iterator[StoredOperation]:
        order = "height DESC, hash DESC" if newest_first else "height, hash"
        rows = self._database.each(
            f"SELECT {_COLUMNS} FROM operation WHERE group_id = ? AND kind = ? ORDER BY {order}",  # noqa: S608
            (group_id, kind),
        )
        return (_checked(StoredOperation(*row)) for row in rows)

    def last_arrival_of(self, group_id: GroupId, kinds: Sequence[int]) -> int:
        """Return which operation of some kinds was the last to come, 0 where none has."""
        marks = ", ".join("?" * len(kinds))
        statement = f"SELECT coalesce(max(arrival), 0) FROM operation WHERE group_id = ? AND kind IN ({marks})"  # noqa: S608
        return self._database.one(statement, group_id, *kinds)

    def count(self, group_id: GroupId) -> int:
        """Return how many operations of a group are here, by their numbers: a fork counts once."""
        return self._database.one("SELECT coalesce(sum(last), 0) FROM operation_log WHERE group_id = ?", group_id)

    def forks(self, group_id: GroupId) -> dict[DeviceKey, int]:
        """Return, by author, under how many numbers it has written more than one operation."""
        rows = self._database.run(
            "SELECT author, count(*) FROM (SELECT author FROM ("
            "SELECT author, incarnation, number FROM operation WHERE group_id = ?1 UNION ALL "
            "SELECT author, incarnation, number FROM forgotten_operation JOIN forgotten_log ON forgotten_log.id = log "
            "WHERE group_id = ?1) GROUP BY author, incarnation, number HAVING count(*) > 1) "
            "GROUP BY author ORDER BY author",
            (group_id,),
        )
        return {DeviceKey(author): forks for author, forks in rows}

    def stored_at_us(self, group_id: GroupId, operation_id: OperationId) -> int:
        """Return when an operation that is here came."""
        return self._database.one(
            "SELECT stored_at FROM operation WHERE hash = ? AND group_id = ?", operation_id, group_id
        )

    def forget(self, group_id: GroupId) -> None:
        """Forget a group's history."""
        tables = (
            "operation",
            "operation_log",
            "operation_head",
            "operation_named",
            "announcement",
            "order_frontier",
            "landed_orders",
        )
        for table in (*tables, "landed_membership", "catching_up", "graph_offer"):
            self._database.run(f"DELETE FROM {table} WHERE group_id = ?", (group_id,))  # noqa: S608 - our names
        self.forgotten.forget(group_id)


def _checked(stored: StoredOperation) -> StoredOperation:
    if operation_id(stored.raw) != stored.id:
        raise DamagedStateError("an operation in the state database is damaged")
    return stored


class Announcements:
    """How much of this device's own operations each member has been sent, one row a member."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, group_id: GroupId, member: DeviceKey, log: Log) -> Behind | None:
        row = self._database.first(
            f"SELECT number, {_WAITS} FROM announcement WHERE group_id = ? AND member = ? AND incarnation = ?",  # noqa: S608
            (group_id, member, log.incarnation),
        )
        return None if row is None else Behind(group_id, member, row[0], waits=bool(row[1]))

    def announced(self, group_id: GroupId, member: DeviceKey, place: Place, log: Log, number: int) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO announcement VALUES (?, ?, ?, ?, ?)",
            (group_id, member, log.incarnation, number, place),
        )

    def behind(self, group_id: GroupId, log: Log, member: DeviceKey | None = None) -> list[Behind]:
        rows = self._database.run(
            f"SELECT group_id, member, number, {_WAITS} FROM announcement "  # noqa: S608 - our names
            "JOIN operation_log USING (group_id, incarnation) "
            f"WHERE group_id = ? AND author = ? AND incarnation = ? {'' if member is None else 'AND member = ? '}"
            "AND number < last ORDER BY member",
            (group_id, log.author, log.incarnation, *(() if member is None else (member,))),
        )
        return [Behind(each, member, number, waits=bool(waits)) for each, member, number, waits in rows]

    def forget(self, group_id: GroupId, member: DeviceKey) -> None:
        self._database.run("DELETE FROM announcement WHERE group_id = ? AND member = ?", (group_id, member))


def _shape_of(arrival: int, found: OperationId, late: int, stored_at_us: int, raw: bytes) -> OperationShape:
    it = read_operation(raw, verify=False)
    shape = it.author, it.manifest, it.parents, it.kind
    return OperationShape(arrival, found, *shape, bool(late), stored_at_us, it.log, it.previous, len(raw))


def _of(author: DeviceKey | None, kind: int | None) -> tuple[str, list[bytes | int]]:
    """Return SQL, and its values, for the operations of an author and of a kind; None: of all."""
    which = {"author": author, "kind": kind}
    named = {name: value for name, value in which.items() if value is not None}
    return "".join(f"AND {name} = ? " for name in named), [*named.values()]
