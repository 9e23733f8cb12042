"""The state in a checkpoint: operators, settings and the group's description (docs/protocol/history.md, "Checkpoints").

1. It is computed from the operations that the checkpoint follows, all of which count for it; from the operators and the
   threshold that it names; and from the members in its manifest. So all devices with these operations compute the same
   bytes, whatever else they hold and whenever it arrived.
2. For each key it contains the orders that can still hold for a device: the last one that counts, and earlier ones for
   other selectors, down to one for all devices; none that its own author has replaced (`orders/authority.py`, rule 8).
3. It records only that a sealed value was set, not the value.
4. It names the graph of what the checkpoint follows (`graph.py`), so that members can give that graph to a newcomer.
   States of older builds name none, or one of a form in which no order is settled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covey.core.checkpoints.covered import settled, weigh_covered
from covey.core.checkpoints.graph import covered_graph, graph_digest
from covey.core.history.checkpoint import DIGEST_BYTES
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import ID_BYTES, Operation, read_operation
from covey.core.history.orders import Scalar, SettingOrder, read_scalar
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.nodes import OrderNode
from covey.core.orders.selector import Selector, SelectorKind
from covey.core.wire import cbor
from covey.errors import LocalError, MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES, MAXIMUM_MEMBERS
from covey.limits.history import (
    CHECKPOINT_PART_BYTES,
    CHECKPOINT_PARTS,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_STATE_ENTRIES,
)
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


@dataclass(frozen=True, slots=True)
class KeptOrder:
    """An order for a key: its operation, author, stated time, targets and value."""

    operation: OperationId
    author: DeviceKey
    made_at_us: int
    selector: Selector
    value: Scalar | None = field(repr=False)
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class KeptProfile:
    """How a group is described: the operation that does so, and its body."""

    operation: OperationId
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """A state: `covers` follows everything that it is computed from, `pins` are its initial operators.

    `operators` are these and the ones they added, with labels; `settings` are orders by key, the last one first.
    `graph` names the remains of everything that `covers` follows (`graph.py`).
    """

    covers: OperationId
    pins: Pins
    operators: dict[DeviceKey, str]
    profile: KeptProfile | None
    settings: dict[str, tuple[KeptOrder, ...]]
    graph: bytes

    def to_wire(self) -> bytes:
        """Return the one encoding of it."""
        authors = sorted({each.author for orders in self.settings.values() for each in orders})
        places = {author: place for place, author in enumerate(authors)}
        return cbor.encode(
            [
                self.covers,
                sorted(self.pins.operators),
                self.pins.threshold,
                [[key, self.operators[key]] for key in sorted(self.operators)],
                None if self.profile is None else [self.profile.operation, self.profile.body],
                authors,
                [
                    [key, [_order_to_wire(each, places[each.author]) for each in self.settings[key]]]
                    for key in sorted(self.settings)
                ],
                self.graph,
            ]
        )

    @classmethod
    def from_wire(cls, state: bytes) -> CheckpointState:
        """Parse a state.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        covers, pinned, threshold, operators, profile, authors, settings, graph = cbor.record(
            cbor.decode(state, CHECKPOINT_PARTS * CHECKPOINT_PART_BYTES, 16 * MAXIMUM_STATE_ENTRIES),
            "state",
            cbor.octets(ID_BYTES),
            _KEYS,
            cbor.uint(MAXIMUM_MEMBERS),
            cbor.many(_operator, MAXIMUM_STATE_ENTRIES),
            cbor.optional(_profile),
            _KEYS,
            cbor.many(_setting, MAXIMUM_STATE_ENTRIES),
            cbor.octets(DIGEST_BYTES),
        )
        try:
            orders = {
                key: tuple(KeptOrder(operation, authors[place], *rest) for operation, place, *rest in kept)
                for key, kept in settings
            }
        except IndexError as error:
            raise MalformedError("the state names an author that it does not list") from error
        found = cls(covers, Pins(frozenset(pinned), threshold), dict(operators), profile, orders, graph)
        if found.to_wire() != state:
            raise MalformedError("the state's entries are out of order")
        return found


def _order_to_wire(order: KeptOrder, index: int) -> list[object]:
    return [order.operation, index, order.made_at_us, order.selector.to_wire(), order.value, order.sealed]


_KEYS: cbor.Read[Any] = cbor.many(cbor.octets(KEY_BYTES), MAXIMUM_STATE_ENTRIES)


def _operator(value: object) -> tuple[DeviceKey, str]:
    key, label = cbor.record(value, "operator", cbor.octets(KEY_BYTES), cbor.text(MAXIMUM_LABEL_BYTES))
    return key, label


def _profile(value: object) -> KeptProfile:
    readers = cbor.octets(ID_BYTES), cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES)
    return KeptProfile(*cbor.record(value, "profile", *readers))


def _setting(value: object) -> tuple[str, tuple[list[object], ...]]:
    orders = cbor.many(_order, MAXIMUM_STATE_ENTRIES)
    key, kept = cbor.record(value, "setting", cbor.text(MAXIMUM_SETTING_KEY_BYTES), orders)
    return key, kept


def _order(value: object) -> list[object]:
    return cbor.record(
        value,
        "order",
        cbor.octets(ID_BYTES),
        cbor.uint(MAXIMUM_STATE_ENTRIES),
        cbor.uint(),
        Selector.from_wire,
        cbor.optional(read_scalar),
        cbor.boolean,
    )


# -- making one -------------------------------------------------------------------------------------------------------


def state_of(
    records: OperationRecords,
    group_id: GroupId,
    covered: list[OrderNode],
    covers: OperationId,
    pins: Pins,
    members: Collection[DeviceKey],
) -> CheckpointState:
    """Return what covered operations come to (rules 1 to 4).

    Raises:
        LocalError: the profile that it has is not here any more, or a setting.
    """
    weighed = weigh_covered(records, group_id, covered, pins, members)
    gone = settled(records, group_id, covered, weighed)
    profiles = [each.id for each in covered if each.kind == OperationKind.PROFILE]
    profile = KeptProfile(profiles[-1], _operation(records, group_id, profiles[-1]).body) if profiles else None
    newest_first = [each.id for each in reversed(weighed.orders) if each.counts and each.id not in gone]
    settings = _kept(_given(records, group_id, newest_first))
    graph = graph_digest(covered_graph(records, group_id, covers, gone))
    return CheckpointState(covers, pins, weighed.operators, profile, settings, graph)


def _given(
    records: OperationRecords, group_id: GroupId, newest_first: Iterable[OperationId]
) -> Iterator[tuple[str, KeptOrder]]:
    for operation_id in newest_first:
        operation = _operation(records, group_id, operation_id)
        order = SettingOrder.from_wire(operation.body)
        sealed = order.sealed is not None
        yield (
            order.key,
            KeptOrder(operation_id, operation.author, operation.made_at_us, order.selector, order.value, sealed),
        )


def _kept(newest_first: Iterable[tuple[str, KeptOrder]]) -> dict[str, tuple[KeptOrder, ...]]:
    """Return the orders that can still hold for a device (rule 2)."""
    found: dict[str, list[KeptOrder]] = {}
    for key, order in newest_first:
        kept = found.setdefault(key, [])
        if all(each.selector not in {order.selector, _EVERYBODY} for each in kept):
            kept.append(order)
    return {key: tuple(orders) for key, orders in found.items()}


_EVERYBODY = Selector(SelectorKind.ALL)


def _operation(records: OperationRecords, group_id: GroupId, operation_id: OperationId) -> Operation:
    raw = records.raw(group_id, operation_id)
    if raw is None:
        raise LocalError("this device has deleted history that a new checkpoint needs")
    return read_operation(raw, verify=False)
