"""What a device keeps of the operations that bear on orders: what each is, and which of the others it follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from covey.core.history.operation import Log
from covey.core.ids import DeviceKey, GroupId, OperationId


class OrderNode(NamedTuple):
    """An operation that bears on orders, or joins some that do. A tuple: each judgement makes one of every node.

    `arrival` is a number of this device's own. `follows` are the arrivals of nodes: all nodes that this operation
    follows are these, and what they follow. `subject` is the key that it sets, the operation that it approves, or the
    plan that it is a wave of. `target` is what stays of an order whose words are forgotten (`target.py`), else empty.
    """

    arrival: int
    height: int
    id: OperationId
    log: Log
    number: int
    kind: int
    subject: bytes | None
    follows: tuple[int, ...]
    target: bytes = b""

    @property
    def author(self) -> DeviceKey:
        """The signing key of whoever wrote it."""
        return self.log.author


class OrderRecords(Protocol):
    """A group's operations, as they are judged."""

    def nodes(self, group_id: GroupId) -> Iterator[OrderNode]:
        """Yield what bears on orders, by height and id."""

    def raw(self, group_id: GroupId, operation_id: OperationId) -> bytes | None:
        """Return an operation's bytes."""
