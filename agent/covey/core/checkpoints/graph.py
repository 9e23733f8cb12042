"""The graph of the operations that a checkpoint covers: their positions without their bodies.

1. It contains what remains of everything that the checkpoint's merge follows, without that merge, by height and id. So
   the result is the same whether or not a device has forgotten some of it.
2. It is divided into parts of `GRAPH_PART`, each with a hash; the hash of these hashes is in the checkpoint's state. So
   each part can be verified by itself, whichever device delivers it.
3. Operations that others are judged by are marked (`judged`): a device that delivers one without its bytes is not
   believed. Orders that the checkpoint settles (`covered.py`) are not marked; they are listed with their targets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.history.checkpoint import DIGEST_BYTES
from covey.core.history.kinds import KINDS, TARGETED_KINDS, OperationKind
from covey.core.history.operation import ID_BYTES, Log, OperationShape, Remains
from covey.core.ids import INCARNATION_BYTES, KEY_BYTES, GroupId, OperationId
from covey.core.orders.target import OrderTarget
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.history import (
    GRAPH_PART,
    GRAPH_PARTS_AT_ONCE,
    MAXIMUM_GRAPH_PARTS,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_OPERATION_BYTES,
    MAXIMUM_PARENTS,
    MAXIMUM_PROOF,
)
from covey.limits.message import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SEQUENCE

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords

_DOMAIN, _DOMAIN_OF_PART = b"covey/1 graph", b"covey/1 gr part"


def followed_by(shapes: Iterable[OperationShape], covers: Iterable[OperationId]) -> Iterator[OperationShape]:
    """Yield what some operations follow, directly or not, and themselves; of the graph only its width is held."""
    below = set(covers)
    for shape in shapes:
        if shape.id in below:
            below.remove(shape.id)
            below.update(shape.parents)
            yield shape


def covered_graph(
    records: OperationRecords, group_id: GroupId, covers: OperationId, settled: Collection[OperationId]
) -> Iterator[Remains]:
    """Yield the graph of what an operation follows (rules 1 and 3); it needs some 60 bytes of memory for each."""
    below = {each.arrival for each in followed_by(records.shapes(group_id), [covers]) if each.id != covers}
    checkpoints: set[OperationId] = set()
    for arrival, remains, approves in records.remains(group_id):
        if arrival not in below:
            continue
        if remains.kind == OperationKind.CHECKPOINT:
            checkpoints.add(remains.id)
        is_judged = remains.judged and approves not in checkpoints and remains.id not in settled
        yield replace(remains, judged=is_judged)


def divided(graph: Iterable[Remains]) -> Iterator[tuple[Remains, ...]]:
    """Yield the parts of a graph (rule 2)."""
    rest = iter(graph)
    while part := tuple(islice(rest, GRAPH_PART)):
        yield part


def part_digest(part: Iterable[Remains]) -> bytes:
    """Return the hash of a part."""
    return crypto.digest(_DOMAIN_OF_PART, cbor.encode([_to_wire(each) for each in part]))


def digest_of_parts(hashes: bytes) -> bytes:
    """Return the hash that names a graph, from those of its parts, one after the other."""
    return crypto.digest(_DOMAIN, hashes)


def graph_digest(graph: Iterable[Remains]) -> bytes:
    """Return the hash that names a graph."""
    return digest_of_parts(b"".join(map(part_digest, divided(graph))))


@dataclass(frozen=True, slots=True)
class HistoryGraph:
    """A `HISTORY_GRAPH`: parts of a graph from index `first` on, of which `count` operations are to be taken.

    `proof` are the parts of the checkpoint and the approvals of it, `hashes` those of all parts of the graph, and
    `operations` what the sender holds whole of those `count`.
    """

    proof: tuple[bytes, ...] = field(repr=False)
    hashes: bytes = field(repr=False)
    first: int
    count: int
    remains: tuple[Remains, ...] = field(repr=False)
    operations: tuple[bytes, ...] = field(repr=False)

    @property
    def rest(self) -> int:
        """About how many operations the whole graph has from the first of these parts on."""
        return GRAPH_PART * (len(self.hashes) // DIGEST_BYTES - self.first)

    def to_wire(self) -> bytes:
        """Return the body."""
        remains = [_to_wire(each) for each in self.remains]
        return cbor.encode_growing(
            [list(self.proof), self.hashes, self.first, self.count, remains, list(self.operations)]
        )

    @classmethod
    def from_wire(cls, body: bytes) -> HistoryGraph:
        """Parse the body, and check that its parts are those that its hashes name.

        Raises:
            RemoteError: malformed, beyond a bound, or of other parts.
        """
        whole, most = cbor.octets_to(MAXIMUM_OPERATION_BYTES), GRAPH_PART * GRAPH_PARTS_AT_ONCE
        found = cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_MESSAGE_BYTES),
                "history graph",
                cbor.many(whole, MAXIMUM_PROOF),
                cbor.octets_to(MAXIMUM_GRAPH_PARTS * DIGEST_BYTES),
                cbor.uint(MAXIMUM_GRAPH_PARTS),
                cbor.uint(most),
                cbor.many(_from_wire, most),
                cbor.many(whole, most),
            )
        )
        found._check_parts()
        return found

    def _check_parts(self) -> None:
        hashes = b"".join(map(part_digest, divided(self.remains)))
        start = self.first * DIGEST_BYTES
        if not hashes or self.hashes[start : start + len(hashes)] != hashes:
            raise MalformedError("the graph's parts do not match its hashes")


def _to_wire(it: Remains) -> list[object]:
    log = it.log.author, it.log.incarnation
    place = [it.id, *log, it.number, it.height, it.manifest]
    return [*place, it.kind, it.judged, it.length, list(it.parents), it.target]


def _from_wire(value: object) -> Remains:
    found, author, incarnation, *rest = cbor.record(
        value,
        "remains",
        cbor.octets(ID_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.octets(INCARNATION_BYTES),
        cbor.uint(MAXIMUM_SEQUENCE),
        cbor.uint(MAXIMUM_SEQUENCE),
        cbor.octets(ID_BYTES),
        cbor.uint(255),
        cbor.boolean,
        cbor.uint(MAXIMUM_OPERATION_BYTES),
        cbor.many(cbor.octets(ID_BYTES), MAXIMUM_PARENTS),
        cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES),
    )
    remains = Remains(found, Log(author, incarnation), *rest)
    _check_target(remains)
    return remains


def _check_target(it: Remains) -> None:
    """Check that a placeholder for an order has a target, and no other has.

    Raises:
        RemoteError: otherwise.
    """
    if it.kind not in TARGETED_KINDS:
        if it.target:
            raise MalformedError("an operation that is not an order has targets")
    elif (OrderTarget.from_wire(it.target).key is not None) != KINDS[OperationKind(it.kind)].by_key:
        raise MalformedError("an order lacks its key, or has a key that its kind does not set")
