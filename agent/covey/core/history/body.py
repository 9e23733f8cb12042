"""What the body of every kind of operation provides (`kinds.py` lists the kinds and their other traits)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from covey.core.history.kinds import OperationKind
    from covey.core.orders.selector import Selector


class OperationBody(ABC):
    """The parsed body of an operation; immutable."""

    __slots__ = ()
    kind: ClassVar[OperationKind]

    @abstractmethod
    def to_wire(self) -> bytes:
        """Return the body's deterministic CBOR (docs/protocol/ has the array of each kind)."""

    @classmethod
    @abstractmethod
    def from_wire(cls, body: bytes) -> Self:
        """Parse a body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """

    @abstractmethod
    def shown(self) -> dict[str, Any]:
        """Return what people and programs read: fields of `app.history.documents.HistoryEntry`.

        `text` is the sentence of a person's history, without the devices of `target`. Sealed content is not shown.
        """

    def subject(self) -> bytes | None:
        """Return what the index of orders keeps of it: the key of a setting, the plan of a wave, the approved order."""
        return None

    def target(self) -> tuple[Selector, str | None] | None:
        """Return a targeted kind's targets, and the key of a setting; this remains when the content is deleted."""
        return None

    def plan_fields(self) -> list[object] | None:
        """Return what all orders of one plan for several groups have in common, with their once-id (`orders/plans.py`).

        None: it can be part of no plan.
        """
        return None

    def order_row(self) -> dict[str, Any]:
        """Return the columns `subject`, `value`, `secret`, `selector`, `deadline` and `once` of an order's table row.

        `value` is a value of JSON, `deadline` in microseconds since 1970; for sealed content only `secret` is set.
        """
        raise NotImplementedError(f"{type(self).__name__} is not an order")
