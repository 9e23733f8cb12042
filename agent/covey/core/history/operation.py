"""One signed operation of a group's history (docs/protocol/history.md, "History").

An operation is `[signature64, document]`. `document` is the exact bytes of `[1, group_id, author, incarnation, number,
previous, parents, height, manifest, made_at, kind, body]`. This module checks one operation by itself:

    1. The signature verifies under the author's key, over the exact bytes with a domain tag.
    2. At most `MAXIMUM_PARENTS` parents, sorted, without duplicates; height 1 without parents, above 1 with some.
    3. Numbers count from 1 in each incarnation of the author; every operation except the first names the one before.

`acceptance.py` decides what may follow what; `bodies.py` reads the body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import (
    GROUP_ID_BYTES,
    INCARNATION_BYTES,
    KEY_BYTES,
    DeviceKey,
    GroupId,
    Incarnation,
    ManifestHash,
    OperationId,
)
from covey.core.wire import cbor, shapes
from covey.errors import LimitError, MalformedError
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES, MAXIMUM_OPERATION_BYTES, MAXIMUM_PARENTS
from covey.limits.message import MAXIMUM_SEQUENCE

_DOMAIN = b"covey/1 operation"
_LOG_DOMAIN = b"covey/1 own log"
_ID_DOMAIN = b"covey/1 op id"
_VERSION = 1
ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Log:
    """The operations of one author in one incarnation: they are numbered from 1 without a gap."""

    author: DeviceKey
    incarnation: Incarnation


@dataclass(frozen=True)
class Operation:
    """One operation; `raw` is the exact signed bytes.

        `previous` is the operation before it in its log. `height` is one more than the highest among the parents',
    is a number of `kinds.OperationKind`, or of a
        newer Covey.
    """

    group_id: GroupId
    log: Log
    number: int
    previous: OperationId | None
    parents: tuple[OperationId, ...]
    height: int
    manifest: ManifestHash
    made_at_us: int
    kind: int
    body: bytes = field(repr=False)
    raw: bytes = field(default=b"", repr=False)

    @cached_property
    def id(self) -> OperationId:
        """The 32-byte BLAKE2b hash that later operations' parents name."""
        return operation_id(self.raw)

    @property
    def author(self) -> DeviceKey:
        """The author's signing key."""
        return self.log.author


def operation_id(raw: bytes) -> OperationId:
    """Return the hash by which others name an operation."""
    return OperationId(crypto.digest(_ID_DOMAIN, raw))


_SHAPE = shapes.shape(rb"\x82\x58\x40.{64}(?:%(octets)b)[\x8c\x8d]" % {b"octets": shapes.OCTETS})


def is_operation(raw: bytes) -> bool:
    """Say whether bytes that are either a message or an operation are an operation, by the fields of what is signed."""
    return _SHAPE.match(raw) is not None


def next_log(group_id: GroupId, incarnation: Incarnation) -> Incarnation:
    """Return the incarnation of the next log if the author has forgotten its own, as after a removal.

    Its numbers start again: under the old incarnation they would prove a fork.
    """
    return Incarnation(crypto.digest(_LOG_DOMAIN, incarnation + group_id)[:INCARNATION_BYTES])


def sign_operation(operation: Operation, identity: Identity) -> Operation:
    """Return the operation signed by its author, which `identity` is."""
    assert operation.author == identity.signing_public, "everybody signs its own"
    document = cbor.encode_growing(
        [
            _VERSION,
            operation.group_id,
            operation.author,
            operation.log.incarnation,
            operation.number,
            operation.previous,
            list(operation.parents),
            operation.height,
            operation.manifest,
            operation.made_at_us,
            operation.kind,
            operation.body,
        ]
    )
    raw = cbor.encode([crypto.sign(_DOMAIN, document, identity), document])
    return read_operation(raw, verify=False)


def _bounded(read: cbor.Read[Any], bound: str) -> cbor.Read[Any]:
    """Return a reader whose error describes an exceeded bound."""

    def reads(value: object) -> Any:
        try:
            return read(value)
        except LimitError as error:
            raise LimitError(bound) from error

    return reads


_READERS = (
    cbor.uint(255),
    cbor.octets(GROUP_ID_BYTES),
    cbor.octets(KEY_BYTES),
    cbor.octets(INCARNATION_BYTES),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.optional(cbor.octets(ID_BYTES)),
    _bounded(cbor.many(cbor.octets(ID_BYTES), MAXIMUM_PARENTS), f"it follows more than {MAXIMUM_PARENTS} others"),
    cbor.uint(MAXIMUM_SEQUENCE),
    cbor.octets(ID_BYTES),
    cbor.uint(),
    cbor.uint(255),
    _bounded(cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES), f"it says more than {MAXIMUM_OPERATION_BODY_BYTES:,} bytes"),
)


def read_operation(raw: bytes, *, verify: bool = True) -> Operation:
    """Parse an operation and check rules 1 to 3; what this device has stored was verified before.

    Raises:
        LimitError: too long, or too many parents; nothing was parsed beyond the bound.
        MalformedError: rules 2 and 3, or an unknown version.
        SignatureError: rule 1.
    """
    signature, document = cbor.record(
        cbor.decode(raw, MAXIMUM_OPERATION_BYTES),
        "operation",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_OPERATION_BYTES),
    )
    fields: list[Any] = cbor.record(
        cbor.decode_growing(document, MAXIMUM_OPERATION_BYTES), "signed operation", *_READERS
    )
    version, group_id, author, incarnation, number, previous, parents, height, manifest, made_at_us, kind, body = fields
    if version != _VERSION:
        raise MalformedError(f"operation version {version}: a newer Covey?")
    if verify:
        crypto.verify(_DOMAIN, document, signature, author)
    if list(parents) != sorted(set(parents)):
        raise MalformedError("an operation's parents must be sorted and distinct")
    if (height == 1) != (not parents) or height < 1:
        raise MalformedError("exactly the operations of height 1 must have no parents")
    if (number == 1) != (previous is None) or number < 1:
        raise MalformedError("operations must be numbered from 1 and name their predecessor")
    log = Log(author, incarnation)
    return Operation(group_id, log, number, previous, parents, height, manifest, made_at_us, kind, body, raw)


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
    log: Log | None = None
    previous: OperationId | None = None
    length: int = 0


@dataclass(frozen=True, slots=True)
class Remains:
    """What remains of an operation where what it says is forgotten; `length` is that of the whole one, in bytes.

    `judged` says that others are judged by what it says, so that it is never forgotten by a checkpoint that covers it.
    `target` is what stays of an order's words (`core/orders/target.py`), empty of everything else.
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
    target: bytes


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
