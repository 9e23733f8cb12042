"""The target and the setting's key of an order whose body was deleted.

With them a device still knows which other orders of that author this one replaced, or which replaced it, and whether it
was for this device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.history.bodies import read_body
from covey.core.history.kinds import TARGETED_KINDS
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import GroupId
from covey.core.orders.nodes import OrderNode
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.errors import LocalError
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES

if TYPE_CHECKING:
    from covey.core.records.history import OrderRecords


@dataclass(frozen=True, slots=True)
class OrderTarget:
    """The targets of an order, and the key if its kind sets one."""

    selector: Selector
    key: str | None = None

    def to_wire(self) -> bytes:
        """Return the encoding of `[selector, key / null]`."""
        return cbor.encode([self.selector.to_wire(), self.key])

    @classmethod
    def from_wire(cls, target: bytes) -> OrderTarget:
        """Parse it.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode(target, MAXIMUM_OPERATION_BODY_BYTES),
                "target",
                Selector.from_wire,
                cbor.optional(cbor.text(MAXIMUM_SETTING_KEY_BYTES)),
            )
        )


def target_of(operation: Operation) -> bytes:
    """Return the target of an accepted operation; empty where it has none."""
    target = read_body(operation).target() if operation.kind in TARGETED_KINDS else None
    return b"" if target is None else OrderTarget(*target).to_wire()


def target_of_node(records: OrderRecords, group_id: GroupId, node: OrderNode) -> OrderTarget:
    """Return the target of an order, whether its words are here or forgotten.

    Raises:
        LocalError: neither those nor its target are here.
    """
    raw = None if node.target else records.raw(group_id, node.id)
    target = node.target if raw is None else target_of(read_operation(raw, verify=False))
    if not target:
        raise LocalError("this device has deleted the order's targets")
    return OrderTarget.from_wire(target)
