"""Desired settings: for each key, the latest order that applies to a device (docs/protocol/history.md, "Settings").

1. Of the orders of one group for one key, the last in the history's order (by height, then id) counts among those that
   select the device and that it obeys (`orders/authority.py`). So an order replaces the ones that it follows, and of
   two concurrent ones all devices choose the same. An order that its own author has replaced does not return
   (`orders/authority.py`, rule 8).
2. Between several groups the order with the latest stated time counts, then the highest id. Each group is told what
   has become of its own order: what is told of the one that holds, if both ask for the same value, else that it is
   replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import SettingOrder
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins, WeighedOrders, weigh_orders
from covey.core.orders.replaced import ReplacedSettings
from covey.core.orders.target import OrderTarget
from covey.core.settings.obedience import Desired, Outweighed
from covey.core.settings.ordered import OrderedSetting
from covey.core.settings.secrets import SealedValue
from covey.core.settings.states import ReportedSetting, SettingState

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
    by_key: dict[str, list[GivenOrder]] = {}
    for each in given:
        by_key.setdefault(each.order.key, []).append(each)
    found = []
    for key, orders in sorted(by_key.items()):
        *others, last = sorted(orders, key=_given_at)
        operation, order = last.operation, last.order
        outweighs = tuple(
            Outweighed(each.operation.group_id, each.operation.id, _agree(each.order, order)) for each in others
        )
        wanted = (key, operation.group_id, operation.id, operation.author, order.value, _sealed(last), outweighs)
        found.append(Desired(*wanted))
    return found


def reported(held: Iterable[OrderedSetting], wanted: Iterable[Desired]) -> dict[GroupId, list[ReportedSetting]]:
    """Return what a device tells each of its groups of the orders that count there, by ascending keys (rule 2).

    `held` is the state of each key that the device has taken up.
    """
    states = {each.key: each for each in held}
    found: dict[GroupId, list[ReportedSetting]] = {}
    for state in states.values():
        found.setdefault(state.group_id, []).append(state.reported)
    for each in wanted:
        holding = states.get(each.key)
        if holding is None or holding.operation != each.operation:
            continue  # it has yet to take up the order, or has too many
        for other in each.outweighs:
            said = ReportedSetting(each.key, other.operation, SettingState.REPLACED)
            if other.agrees:
                said = replace(holding.reported, operation=other.operation)
            found.setdefault(other.group_id, []).append(said)
    return {group_id: sorted(settings, key=lambda each: each.key) for group_id, settings in found.items()}


def _agree(order: SettingOrder, other: SettingOrder) -> bool:
    """Whether both ask for the same value; sealed ones cannot be compared, and True is not 1."""
    is_open = order.sealed is None and other.sealed is None
    return is_open and type(order.value) is type(other.value) and order.value == other.value


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
