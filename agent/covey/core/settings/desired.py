"""Desired settings: for each key, the latest order that applies to a device (docs/protocol/history.md, "Settings").

1. Of the orders of one group for one key, the last in the history's order (by height, then id) counts among those that
   select the device and that it obeys (`orders/authority.py`). So an order replaces the ones that it follows, and of
   two concurrent ones all devices choose the same. An order that its own author has replaced does not return
   (`orders/authority.py`, rule 8).
2. Between several groups the order with the latest stated time counts, then the highest id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import SettingOrder
from covey.core.ids import DeviceKey, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.replaced import ReplacedSettings
from covey.core.orders.target import OrderTarget
from covey.core.settings.obedience import Desired
from covey.core.settings.secrets import SealedValue

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


@dataclass(frozen=True, slots=True)
class GivenOrder:
    """An operation that sets a key, and what it says."""

    operation: Operation
    order: SettingOrder


class GroupSettings:
    """What operators want in one group, by what a device that has pinned some of them knows."""

    def __init__(
        self, operations: OperationRecords, group: GroupManifest, pins: Pins, void: Collection[OperationId]
    ) -> None:
        self._operations = operations
        self._group = group
        members = {member.keys.signing_public for member in group.members}
        self.weighed: WeighedOrders = weigh_orders(
            operations, group.group_id, pins, members, void, kind=OperationKind.SETTING
        )

    def of(self, members: Iterable[Member]) -> dict[DeviceKey, dict[str, GivenOrder]]:
        """Return by member and key the orders that count for these members (rule 1)."""
        found: dict[DeviceKey, dict[str, GivenOrder]] = {member.keys.signing_public: {} for member in members}
        present = [member for member in self._group.members if member.keys.signing_public in found]
        open_for = {each.subject: present for each in self.weighed.orders}
        replaced = ReplacedSettings()
        for weighed in reversed(self.weighed.orders):  # the last one first; of most keys only that is read
            lacking = open_for[weighed.subject] if weighed.counts or weighed.replaces else ()
            raw = self._operations.raw(self._group.group_id, weighed.id) if lacking else None
            if raw is None:
                continue
            given = read_order(raw)
            is_replaced = replaced.meets(weighed, OrderTarget(given.order.selector, given.order.key))
            if is_replaced or not weighed.counts:
                continue
            selected = [member for member in lacking if given.order.selector.selects(member)]
            for member in selected:
                found[member.keys.signing_public][given.order.key] = given
            open_for[weighed.subject] = [member for member in lacking if member not in selected]
        return found


def desired(given: Iterable[GivenOrder]) -> list[Desired]:
    """Return what is wanted of a device by the orders that count for it, each key once (rule 2)."""
    last: dict[str, GivenOrder] = {}
    for each in given:
        rival = last.get(each.order.key)
        if rival is None or _given_at(rival) < _given_at(each):
            last[each.order.key] = each
    return [
        Desired(
            key,
            each.operation.group_id,
            each.operation.id,
            each.operation.author,
            each.order.value,
            _sealed(each),
        )
        for key, each in sorted(last.items())
    ]


def _sealed(given: GivenOrder) -> SealedValue | None:
    if given.order.sealed is None:
        return None
    operation, order = given.operation, given.order
    return SealedValue.of(given.order.sealed, operation.group_id, operation.author, order.key, order.selector)


def _given_at(given: GivenOrder) -> tuple[int, OperationId]:
    return given.operation.made_at_us, given.operation.id


def read_order(raw: bytes) -> GivenOrder:
    """Read an accepted operation that sets a key."""
    operation = read_operation(raw, verify=False)
    order = read_body(operation)
    assert isinstance(order, SettingOrder), "of that kind"
    return GivenOrder(operation, order)
