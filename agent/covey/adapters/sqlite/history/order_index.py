"""An index of the operations that affect orders and of their parents, stored with the operations.

A *node* is an operation that makes up a group's state: a change of operators or of a release, an order, an approval, a
device's statement that it obeys, a profile or a part of a checkpoint. The *frontier* of an operation is the set of last
nodes that it follows: those of its parents that are nodes, and the frontiers of the others. So the ancestors of an
order are found without reading the operations in between: judging costs by the orders of a history, not by its length.
Most operations share a frontier with their parents, and cost one number.

1. A frontier is computed in the commit that stores its operation, after those of all its ancestors.
2. It may include a node that another of its nodes follows: an obvious one is left out, and others do no harm.
3. An operation whose frontier has more than `_MOST_NODES` is a node itself, though it affects nothing: so the room for
   frontiers grows with the operations, however many concurrent ones there are.
4. Orders are *judged* by all nodes but these, and but the statements that devices obey: of those a large group has one
   for each device, and they matter only where it matters what follows what.
5. Missing entries, after a salvage, are computed from the operations.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from struct import pack, unpack

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.history.forgotten import parents_of
from covey.core.history.bodies import read_body
from covey.core.history.kinds import BEARING_ON_ORDERS, OperationKind
from covey.core.history.operation import Log, Operation, read_operation
from covey.core.ids import GroupId, OperationId
from covey.core.orders.nodes import OrderNode
from covey.core.orders.target import OrderTarget

_MOST_NODES = 64
_NONE = 0
_NO_NODE, _NODE, _JUDGED = range(3)


class OrderIndex:
    """The ancestry of what bears on orders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def place(self, operation: Operation) -> tuple[int, int, bytes | None]:
        """Return an operation's frontier, whether it is a node and orders are judged by it, and what it is about."""
        frontier, node = self.place_of(operation.group_id, operation.parents, operation.kind)
        return frontier, node, read_body(operation).subject() if operation.kind in BEARING_ON_ORDERS else None

    def place_of(self, group_id: GroupId, parents: Iterable[OperationId], kind: int) -> tuple[int, int]:
        """Return the same of one of which only its place is known, without what it is about."""
        bears = kind in BEARING_ON_ORDERS
        frontier, is_node = self._place(group_id, parents, bears=bears)
        return frontier, _JUDGED if bears and kind != OperationKind.OBEYING else _NODE if is_node else _NO_NODE

    def _place(self, group_id: GroupId, parents: Iterable[OperationId], *, bears: bool) -> tuple[int, bool]:
        nodes, frontiers = self._of_parents(group_id, parents)
        if not nodes and len(frontiers) < 2:
            return (frontiers.pop() if frontiers else _NONE), bears
        nodes = nodes.union(*map(self._nodes, frontiers))
        if len(nodes) > 1:
            nodes = nodes.difference(*(self._nodes(self._frontier_of(each)) for each in nodes))
        return self._frontier(group_id, nodes), bears or len(nodes) > _MOST_NODES

    def _of_parents(self, group_id: GroupId, parents: Iterable[OperationId]) -> tuple[set[int], set[int]]:
        nodes: set[int] = set()
        frontiers: set[int] = set()
        for parent in parents:
            arrival, frontier, is_node = self._stored(group_id, parent) or (0, _NONE, False)
            if is_node:
                nodes.add(arrival)
            elif frontier != _NONE:
                frontiers.add(frontier)
        return nodes, frontiers

    def _stored(self, group_id: GroupId, operation_id: OperationId) -> tuple[int, int, int] | None:
        """Return the arrival of an operation, its frontier, and whether it is a node; None: it is not known."""
        found: tuple[int, int, int] | None = self._database.first(
            "SELECT arrival, frontier, node FROM operation WHERE hash = ? AND group_id = ?", (operation_id, group_id)
        ) or self._database.first(
            "SELECT arrival, frontier, node FROM forgotten_operation WHERE hash = ?", (operation_id,)
        )
        return found

    def _nodes(self, frontier: int) -> frozenset[int]:
        row = self._database.first("SELECT nodes FROM order_frontier WHERE id = ?", (frontier,))
        return frozenset() if row is None else frozenset(_read(row[0]))

    def _frontier_of(self, arrival: int) -> int:
        [row] = self._database.run(
            "SELECT frontier FROM operation WHERE arrival = ?1 "
            "UNION ALL SELECT frontier FROM forgotten_operation WHERE arrival = ?1",
            (arrival,),
        )
        found: int = row[0]
        return found

    def _frontier(self, group_id: GroupId, nodes: Iterable[int]) -> int:
        ordered = sorted(nodes)
        key = group_id, pack(f">{len(ordered)}Q", *ordered)
        row = self._database.first("SELECT id FROM order_frontier WHERE group_id = ? AND nodes = ?", key)
        if row is None:
            self._database.run("INSERT INTO order_frontier (group_id, nodes) VALUES (?, ?)", key)
            row = self._database.first("SELECT id FROM order_frontier WHERE group_id = ? AND nodes = ?", key)
        found: int = row[0]
        return found

    def nodes(self, group_id: GroupId, *, judged: bool = False) -> Iterator[OrderNode]:
        """Yield the nodes of a group by height and id, so each after those that it follows; or the judged ones."""
        which = f"node = {_JUDGED}" if judged else "node"
        here = self._database.each(
            "SELECT height, hash, arrival, author, incarnation, number, kind, subject, nodes, x'' FROM operation "  # noqa: S608 - our number
            "LEFT JOIN order_frontier ON order_frontier.id = frontier "
            f"WHERE operation.group_id = ? AND {which} ORDER BY height, hash",
            (group_id,),
        )
        forgotten = self._database.each(
            "SELECT height, hash, arrival, author, incarnation, number, kind, NULL, nodes, target "  # noqa: S608 - our number
            "FROM forgotten_operation JOIN forgotten_log ON forgotten_log.id = log "
            "LEFT JOIN order_frontier ON order_frontier.id = frontier "
            f"WHERE forgotten_log.group_id = ? AND {which} ORDER BY height, hash",
            (group_id,),
        )
        first = next(forgotten, None)
        if first is not None:  # else merging would take a third of the time, for what hardly any group has
            here = heapq.merge(here, itertools.chain((first,), forgotten), key=lambda row: row[:2])
        for height, operation_id, arrival, author, incarnation, number, kind, about, nodes, target in here:
            follows = () if nodes is None else _read(nodes)
            key = OrderTarget.from_wire(target).key if target else None
            subject = about if key is None else key.encode()
            yield OrderNode(
                arrival, height, operation_id, Log(author, incarnation), number, kind, subject, follows, target
            )

    def frontier(self, group_id: GroupId, operation_id: OperationId) -> tuple[int, ...]:
        """Return the arrivals of the last nodes that an operation follows, itself among them if it is one."""
        found = self._stored(group_id, operation_id)
        assert found is not None, "it is here, or was forgotten"
        arrival, frontier, is_node = found
        return (arrival,) if is_node else tuple(sorted(self._nodes(frontier)))

    def fill(self) -> None:
        """Find what is missing (rule 5); inside a transaction."""
        window = (
            "SELECT arrival, raw, NULL, NULL, NULL FROM operation WHERE frontier IS NULL UNION ALL "
            "SELECT arrival, NULL, group_id, parents, kind FROM forgotten_operation "
            "JOIN forgotten_log ON forgotten_log.id = log WHERE frontier IS NULL ORDER BY arrival LIMIT 256"
        )
        while rows := self._database.run(window):
            for arrival, raw, group_id, parents, kind in rows:
                if raw is None:
                    frontier, node = self.place_of(group_id, parents_of(parents), kind)
                    statement = "UPDATE forgotten_operation SET frontier = ?, node = ? WHERE arrival = ?"
                    self._database.run(statement, (frontier, node, arrival))
                    continue
                placed = self.place(read_operation(raw, verify=False))
                self._database.run(
                    "UPDATE operation SET frontier = ?, node = ?, subject = ? WHERE arrival = ?", (*placed, arrival)
                )

    def lacks_any(self) -> bool:
        """Say whether an operation's frontier has not been found."""
        return any(
            self._database.one(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE frontier IS NULL)")  # noqa: S608 - our names
            for table in ("operation", "forgotten_operation")
        )

    def clear(self) -> None:
        """Delete all of it, so that `fill` recomputes it."""
        self._database.run("DELETE FROM order_frontier")
        self._database.run("UPDATE operation SET frontier = NULL, node = 0, subject = NULL")
        self._database.run("UPDATE forgotten_operation SET frontier = NULL, node = 0")


def _read(nodes: bytes) -> tuple[int, ...]:
    if len(nodes) == 8:  # as mostly
        return (int.from_bytes(nodes, "big"),)
    return unpack(f">{len(nodes) // 8}Q", nodes)
