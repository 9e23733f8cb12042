"""Where operations stand, whether what they say is here or was forgotten."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.events import EventTable
from covey.adapters.sqlite.history.forgotten import ForgottenOperations
from covey.adapters.sqlite.history.order_index import OrderIndex
from covey.core.history.kinds import JUDGED_BY_PLACE, OperationKind
from covey.core.history.operation import Log, Operation, Remains, read_operation
from covey.core.ids import GroupId, OperationId
from covey.core.orders.target import target_of


class OperationPlaces:
    """The places of operations: in their logs, among the heads, and in the graph."""

    def __init__(
        self, database: Database, events: EventTable, index: OrderIndex, forgotten: ForgottenOperations
    ) -> None:
        self._database = database
        self._events = events
        self._index = index
        self._forgotten = forgotten

    def remains(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
        """Yield by height and id what remains of each operation, or would, with its arrival, and what it approves."""
        both = self._here(group_id), self._forgotten.remains(group_id)
        return heapq.merge(*both, key=lambda each: (each[1].height, each[1].id))

    def _here(self, group_id: GroupId) -> Iterator[tuple[int, Remains, OperationId | None]]:
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
        self.note(group_id, remains.log, remains, remains.length)

    def note(self, group_id: GroupId, log: Log, operation: Operation | Remains, length: int) -> None:
        """Count an operation to its log, and as a head instead of those that it follows."""
        self._database.run(
            "INSERT INTO operation_log VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "last = max(last, excluded.last), length = length + excluded.length",
            (group_id, log.author, log.incarnation, operation.number, length),
        )
        for parent in operation.parents:
            self._database.run("DELETE FROM operation_head WHERE group_id = ? AND hash = ?", (group_id, parent))
        self._database.run("INSERT INTO operation_head VALUES (?, ?)", (group_id, operation.id))
