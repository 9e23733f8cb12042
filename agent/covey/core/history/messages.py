"""The bodies of messages that carry history (docs/protocol.md, "History").

* `OPERATIONS`: `[[operation, ...], more]`: operations, each after what it follows; `more` says that their sender has
  others that it believes the recipient lacks.
* `HISTORY_PULL`: `[[[author, incarnation, number], ...], [id, ...]]`: how far the asker has come in each log, and
  operations that it wants by id.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.history.operation import ID_BYTES, Log
from covey.core.ids import INCARNATION_BYTES, KEY_BYTES, OperationId
from covey.core.wire import cbor
from covey.core.wire.envelope import sealed_length
from covey.errors import MalformedError
from covey.limits.history import (
    BUNDLE_OPERATION_BYTES,
    BUNDLE_OPERATIONS,
    MAXIMUM_LOGS,
    MAXIMUM_OPERATION_BYTES,
    MAXIMUM_WANTED,
)
from covey.limits.message import MAXIMUM_SEQUENCE, MESSAGE_OVERHEAD_BYTES

_BUNDLE_BYTES = BUNDLE_OPERATION_BYTES + MAXIMUM_OPERATION_BYTES + 16
_PULL_BYTES = MAXIMUM_LOGS * (KEY_BYTES + INCARNATION_BYTES + 16) + MAXIMUM_WANTED * (ID_BYTES + 2) + 16


@dataclass(frozen=True, slots=True)
class OperationBundle:
    """Operations, oldest first, and about how many more their sender believes the recipient to lack."""

    operations: tuple[bytes, ...] = field(repr=False)
    more: int = 0

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode([list(self.operations), self.more])

    @classmethod
    def from_wire(cls, body: bytes) -> OperationBundle:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode(body, _BUNDLE_BYTES),
                "operations",
                cbor.many(cbor.octets_to(MAXIMUM_OPERATION_BYTES), BUNDLE_OPERATIONS),
                cbor.uint(),
            )
        )


def bundle_payload_bytes(operations: int, length: int) -> int:
    """Return how large a publish is at most that carries some operations, which are `length` bytes together."""
    return sealed_length(length + 5 * operations + 16 + MESSAGE_OVERHEAD_BYTES)


@dataclass(frozen=True, slots=True)
class HistoryPull:
    """What an asker has, and what it wants besides what comes after that."""

    ends: dict[Log, int]
    wanted: tuple[OperationId, ...] = ()

    def to_wire(self) -> bytes:
        """Return the body."""
        ends = sorted((log.author, log.incarnation, number) for log, number in self.ends.items())
        return cbor.encode([[list(end) for end in ends], sorted(self.wanted)])

    @classmethod
    def from_wire(cls, body: bytes) -> HistoryPull:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        ends, wanted = cbor.record(
            cbor.decode(body, _PULL_BYTES),
            "history pull",
            cbor.many(_end, MAXIMUM_LOGS),
            cbor.many(cbor.octets(ID_BYTES), MAXIMUM_WANTED),
        )
        logs = dict(ends)
        if len(logs) < len(ends):
            raise MalformedError("a log stands twice")
        return cls(logs, wanted)


def _end(value: object) -> tuple[Log, int]:
    author, incarnation, number = cbor.record(
        value, "log", cbor.octets(KEY_BYTES), cbor.octets(INCARNATION_BYTES), cbor.uint(MAXIMUM_SEQUENCE)
    )
    return Log(author, incarnation), number
