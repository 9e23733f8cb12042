"""What history reads and writes of the durable state."""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.history.operation import Log
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId


@dataclass(frozen=True, slots=True)
class Held:
    """What acceptance asks of an operation that is here: where it stands, and the version of its manifest."""

    height: int
    manifest_version: int
    log: Log
    number: int


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """An operation as it lies here: the how-manieth to come, and when that was."""

    arrival: int
    height: int
    stored_at_us: int
    id: OperationId
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class OperationShape:
    """Where an operation stands, whether it is here or was forgotten; `stored_at_us` is None where it was.

    `late` says that it came when its author was known to be no member any more.
    """

    arrival: int
    id: OperationId
    author: DeviceKey
    manifest: ManifestHash
    parents: tuple[OperationId, ...]
    kind: int
    late: bool
    stored_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Remains:
    """What remains of an operation where what it says is forgotten; `length` is that of the whole one, in bytes.

    `judged` says that others are judged by what it says, so that it is never forgotten by a checkpoint that covers it.
    `target` is what stays of an order's words (`core/orders/target.py`), empty of everything else; None in a graph of
    the form that has none.
    """

    id: OperationId
    log: Log
    number: int
    height: int
    manifest: ManifestHash
    kind: int
    judged: bool
    length: int
    parents: tuple[OperationId, ...]
    target: bytes | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """How much is here: logs, and the bytes of their operations."""

    logs: int
    length: int


@dataclass(frozen=True, slots=True)
class Behind:
    """A member that has been sent a log up to a number; `waits` says that it has not acknowledged that yet."""

    group_id: GroupId
    member: DeviceKey
    number: int
    waits: bool


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a log has come: its highest number, an operation of that, and how many bytes its operations have."""

    number: int
    last: OperationId
    length: int


@dataclass(frozen=True, slots=True)
class OfferWait:
    """How long a device that was offered a graph has waited, in microseconds of running: since it was given operations
    last, and in all. None: it was given some since the last offer."""

    since_given_us: int | None
    whole_us: int
