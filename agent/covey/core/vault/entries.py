"""Entries of vault documents, and the keys of the objects that they list (docs/protocol/vault.md, "Vault").

Keys are built only from checked ids, never from a store's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from covey.core.ids import (
    INCARNATION_BYTES,
    KEY_BYTES,
    NODE_ID_BYTES,
    DeviceKey,
    Incarnation,
    NodeId,
    OperationId,
    VaultId,
    from_hex,
)
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.vault import (
    MAXIMUM_SEGMENT_BYTES,
    MAXIMUM_SEGMENT_PARTS,
    MAXIMUM_SEGMENT_RECORDS,
    MAXIMUM_VAULT_MANIFEST_BYTES,
)

MERGED = Incarnation(bytes(8))
"""In the place of an incarnation, in the entry of a merged segment, or of a hole (`SegmentEntry.is_hole`)..."""

THINNED = Incarnation(b"\xff" * 8)
"""...and in that of a thinned one: it covers positions of which some may be empty."""

_POSITION = re.compile("[0-9a-f]{16}")
_POSITIONED = re.compile("[0-9a-f]{16}(-[0-9a-f]{16}){1,2}")
_PLAIN_NAME = 16 + 1 + 2 * INCARNATION_BYTES


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One landed message: when the collector had it (its wall clock, microseconds) and its exact bytes.

    An opened segment says of each where it was landed: the position, and the index among the messages there.
    """

    received_at_us: int
    message: bytes
    number: int = field(default=0, compare=False)
    index: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What a vault manifest says of a segment. A merged one covers several positions, of which `number` is the last."""

    number: int
    incarnation: Incarnation
    hash: bytes
    size: int
    created_at_us: int
    records: int
    covers: int = 1

    @property
    def first(self) -> int:
        """The first position that it covers."""
        return self.number - self.covers + 1

    @property
    def is_thinned(self) -> bool:
        """Whether something was erased from it."""
        return self.incarnation == THINNED

    @property
    def is_hole(self) -> bool:
        """Whether it stands for positions that nobody may use: of a merged segment that covers more than one can."""
        return not self.is_thinned and self.covers > MAXIMUM_SEGMENT_PARTS

    @property
    def parts(self) -> int:
        """How many parts it has, at most."""
        return min(self.covers, self.records) if self.is_thinned else self.covers

    def to_wire(self) -> list[object]:
        """Return the entry's array."""
        return [self.number, self.incarnation, self.hash, self.size, self.created_at_us, self.records, self.covers]

    @classmethod
    def from_wire(cls, value: object) -> SegmentEntry:
        """Parse an entry.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        entry = cls(
            *cbor.record(
                value,
                "segment entry",
                cbor.uint(),
                cbor.octets(INCARNATION_BYTES),
                cbor.octets(32),
                cbor.uint(MAXIMUM_SEGMENT_BYTES),
                cbor.uint(),
                cbor.uint(MAXIMUM_SEGMENT_RECORDS),
                cbor.uint(),
            )
        )
        if not 1 <= entry.covers <= entry.number or (entry.is_hole and (entry.incarnation != MERGED or entry.records)):
            raise MalformedError("segment entry: it covers impossible positions")
        return entry


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Older segments that a manifest names together: their entries stand in an object of their own."""

    first: int
    last: int
    hash: bytes
    size: int

    def to_wire(self) -> list[object]:
        """Return the range's array."""
        return [self.first, self.last, self.hash, self.size]

    @classmethod
    def from_wire(cls, value: object) -> SegmentRange:
        """Parse a range.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                value,
                "segment range",
                cbor.uint(),
                cbor.uint(),
                cbor.octets(32),
                cbor.uint(MAXIMUM_VAULT_MANIFEST_BYTES),
            )
        )


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What merged segments of the positions `first` to `last` have replaced: an object of its own names it."""

    first: int
    last: int
    hash: bytes
    size: int
    created_at_us: int

    def to_wire(self) -> list[object]:
        """Return the tombstone's array."""
        return [self.first, self.last, self.hash, self.size, self.created_at_us]

    @classmethod
    def from_wire(cls, value: object) -> Tombstone:
        """Parse a tombstone.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        size = cbor.uint(MAXIMUM_VAULT_MANIFEST_BYTES)
        return cls(*cbor.record(value, "tombstone", cbor.uint(), cbor.uint(), cbor.octets(32), size, cbor.uint()))


@dataclass(frozen=True, slots=True)
class Erasure:
    """What a node's owner has had erased: of one device, or of all, what had come by some moment.

    `note` is the operation in a group's history that says so; None where nobody has noted it. While `completed_at_us`
    is 0, some of it may still be there.
    """

    author: DeviceKey | None
    until_us: int
    """Of all: readings, losses and what no reader understands, that came before; of one: all that it has signed."""
    last: int
    """The last position that it reaches."""
    note: OperationId | None = None
    completed_at_us: int = 0

    def to_wire(self) -> list[object]:
        """Return the erasure's array."""
        return [self.author, self.until_us, self.last, self.note, self.completed_at_us]

    @classmethod
    def from_wire(cls, value: object) -> Erasure:
        """Parse an erasure.

        Raises:
            RemoteError: malformed.
        """
        author, note = cbor.optional(cbor.octets(KEY_BYTES)), cbor.optional(cbor.octets(32))
        return cls(*cbor.record(value, "erasure", author, cbor.uint(), cbor.uint(), note, cbor.uint()))


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """What was landed at one position."""

    number: int
    created_at_us: int
    records: tuple[SegmentRecord, ...]

    def to_wire(self) -> list[object]:
        """Return the part's array."""
        return [self.number, self.created_at_us, [[each.received_at_us, each.message] for each in self.records]]


def manifest_prefix(vault_id: VaultId) -> str:
    """Return the prefix under which all nodes' manifests lie."""
    return f"vaults/{vault_id.hex()}/objects/manifests/"


def manifest_key(vault_id: VaultId, node: NodeId) -> str:
    """Return the key of a node's manifest (004.02)."""
    return f"{manifest_prefix(vault_id)}{node.hex()}.hxman"


def node_of_manifest_key(key: str) -> NodeId:
    """Return the node id that a manifest's key names.

    Raises:
        MalformedError: not a manifest's key.
    """
    name = key.rpartition("/")[2]
    if not name.endswith(".hxman"):
        raise MalformedError("not a vault manifest's key")
    return NodeId(from_hex(name.removesuffix(".hxman"), NODE_ID_BYTES))


def segment_prefix(vault_id: VaultId, node: NodeId) -> str:
    """Return the prefix under which all of a node's segments lie."""
    return f"vaults/{vault_id.hex()}/objects/segments/{node.hex()}/"


def last_of_segment_key(key: str) -> int:
    """Return the last position of the segment that lies under a key; of a key that is no segment's, beyond all."""
    name, _, kind = key.rpartition("/")[2].partition(".")
    numbers = [int(each, 16) for each in name.split("-") if _POSITION.fullmatch(each)]
    plain = len(name) == _PLAIN_NAME
    return (numbers[0] if plain else numbers[1]) if kind == "hxseg" and len(numbers) > 1 else MAXIMUM_COUNTER


def positions_of_segment_key(key: str) -> tuple[int, int, Incarnation | None] | None:
    """Return the first and last position that a segment's key names; of a plain segment the incarnation, too."""
    name, _, kind = key.rpartition("/")[2].partition(".")
    if kind != "hxseg" or not _POSITIONED.fullmatch(name):
        return None
    first = int(name[:16], 16)
    if len(name) == _PLAIN_NAME:
        return first, first, Incarnation(bytes.fromhex(name[17:]))
    return first, int(name[17:33], 16), None


def segment_key(vault_id: VaultId, node: NodeId, number: int, incarnation: Incarnation) -> str:
    """Return the key of a segment."""
    return f"{segment_prefix(vault_id, node)}{number:016x}-{incarnation.hex()}.hxseg"


def entry_key(vault_id: VaultId, node: NodeId, entry: SegmentEntry) -> str:
    """Return the key of a segment that a manifest lists; a merged or thinned one is named by its content, too."""
    if entry.covers == 1 and not entry.is_thinned:
        return segment_key(vault_id, node, entry.number, entry.incarnation)
    return f"{segment_prefix(vault_id, node)}{_span(entry.first, entry.number, entry.hash)}.hxseg"


def range_key(vault_id: VaultId, node: NodeId, named: SegmentRange) -> str:
    """Return the key of a range of older segments."""
    return f"vaults/{vault_id.hex()}/objects/ranges/{node.hex()}/{_span(named.first, named.last, named.hash)}.hxrange"


def _span(first: int, last: int, content_hash: bytes) -> str:
    return f"{first:016x}-{last:016x}-{content_hash[:8].hex()}"


def tombstone_key(vault_id: VaultId, node: NodeId, named: Tombstone) -> str:
    """Return the key of a tombstone."""
    span = _span(named.first, named.last, named.hash)
    return f"vaults/{vault_id.hex()}/objects/tombstones/{node.hex()}/{span}.hxtomb"
