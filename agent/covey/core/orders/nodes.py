"""The stored graph of operations that affect orders: each operation's content and parents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NewType

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
        """The author's signing key."""
        return self.log.author


Subject = NewType("Subject", bytes)
"""What a report is of: the id of an order, and behind it the key of a board if it is one's; empty: all at once."""


@dataclass(frozen=True, slots=True)
class SentReport:
    """What a recipient was sent last of a subject: its digest.

    `waits` says that it has not acknowledged it yet; `lacks` that it has not got it, or may not have (rule 2).
    """

    digest: bytes
    waits: bool
    lacks: bool


@dataclass(frozen=True, slots=True)
class Lacked:
    """A report of one subject that a recipient lacks."""

    group_id: GroupId
    recipient: DeviceKey
    subject: Subject
