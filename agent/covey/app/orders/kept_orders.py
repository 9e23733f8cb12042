"""Caches the operators' orders of each group, and judges them again only if the result may differ: after new orders,
also such as others had deleted, a new manifest, other void operations, or other pins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from covey.core.ids import GroupId, OperationId

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.kinds import OperationKind
    from covey.core.node import Node
    from covey.core.orders.authority import Pins

Weighed = TypeVar("Weighed")


class KeptOrders(Generic[Weighed]):
    """What `weigh(group, pins, void)` found, for each group; the operations of `kinds` are what may change it."""

    def __init__(
        self,
        store: SqliteStore,
        kinds: Sequence[OperationKind],
        pins_of: Callable[[GroupId], Pins],
        weigh: Callable[[GroupManifest, Pins, Collection[OperationId]], Weighed],
    ) -> None:
        self._operations = store.operations
        self._kinds = kinds
        self._pins_of = pins_of
        self._weigh = weigh
        self._found: dict[GroupId, tuple[object, Weighed]] = {}

    def stamp(self, node: Node, group: GroupManifest) -> object:
        """Return another object whenever other orders may count."""
        arrival = self._operations.last_arrival_of(group.group_id, self._kinds)
        deleted = self._operations.forgotten.last_arrival()
        return (group.hash, arrival, deleted, node.history.standing(group.group_id).void, self._pins_of(group.group_id))

    def of(self, node: Node, group: GroupManifest) -> Weighed:
        """Return what holds now."""
        stamp, found = self.stamp(node, group), self._found.get(group.group_id)
        if found is None or found[0] != stamp:
            void = node.history.standing(group.group_id).void
            found = stamp, self._weigh(group, self._pins_of(group.group_id), void)
            self._found[group.group_id] = found
        return found[1]

    def last(self, group_id: GroupId) -> Weighed | None:
        """Return what was found last, whether or not it still holds."""
        found = self._found.get(group_id)
        return None if found is None else found[1]
