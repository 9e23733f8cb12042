"""The vault: immutable sealed segments and one sealed manifest per node (docs/protocol.md, "Vault").

A segment holds signed messages verbatim, with the time at which the collector had each. A vault manifest lists a
node's segments; it is signed by the node and sealed with the vault key. Whoever reads it checks:

    1. The object opens under the vault key, bound to the vault, node (and segment) that its key names
       (004.19-004.21).
    2. The ids inside are those of the key.
    3. The manifest is signed by a key whose node id is the one it stands under.
    4. `manifest_seq` is not below the highest one seen (004.15, 004.16); the caller keeps that floor.
    5. Segment numbers ascend from 1 without a gap, so that a position is one number.

A manifest lists its newest segments one by one. The older ones stand in sealed, immutable ranges of 1,000, each named
by first and last number and hash (004.11), so that a manifest stays small however long a node writes.

Clear header of all: a 6-byte magic and the 8-byte id of the vault key. Ids are checked before they stand in a path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.core import crypto, wire
from agent.core.crypto import Identity
from agent.core.ids import INCARNATION_BYTES, KEY_BYTES, NODE_ID_BYTES, VAULT_ID_BYTES, from_hex, node_id
from agent.core.limits import (
    MAXIMUM_CAPABILITIES,
    MAXIMUM_CAPABILITY_BYTES,
    MAXIMUM_MESSAGE_BYTES,
    MAXIMUM_SEGMENT_BYTES,
    MAXIMUM_SEGMENT_RECORDS,
    MAXIMUM_VAULT_ITEMS,
    MAXIMUM_VAULT_MANIFEST_BYTES,
    MAXIMUM_VAULT_RANGES,
    MAXIMUM_VAULT_SEGMENTS,
)
from agent.core.vault_keys import VaultKey
from agent.errors import (
    DecryptionError,
    LimitError,
    MalformedError,
    RollbackError,
    WrongVaultError,
)

_SEGMENT_MAGIC = b"HXSEG\x01"
_MANIFEST_MAGIC = b"HXMAN\x01"
_RANGE_MAGIC = b"HXRNG\x01"
_HEADER_BYTES = 6 + 8
_MANIFEST_DOMAIN = b"covey/1 vault manifest"
_HASH_DOMAIN = b"covey/1 vm hash"
_NO_HASH = bytes(32)
SUPPORTS = ("segments", "tombstones")


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """One landed message: when the collector had it (its wall clock, microseconds) and its exact bytes."""

    received_at_us: int
    message: bytes


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """What a vault manifest says of a segment."""

    number: int
    incarnation: bytes
    hash: bytes
    size: int
    created_at_us: int
    records: int

    def to_wire(self) -> list[object]:
        """Return the entry's array."""
        return [self.number, self.incarnation, self.hash, self.size, self.created_at_us, self.records]

    @classmethod
    def from_wire(cls, value: object) -> SegmentEntry:
        """Parse an entry.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *wire.record(
                value,
                "segment entry",
                wire.uint(),
                wire.octets(INCARNATION_BYTES),
                wire.octets(32),
                wire.uint(MAXIMUM_SEGMENT_BYTES),
                wire.uint(),
                wire.uint(MAXIMUM_SEGMENT_RECORDS),
            )
        )


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
            *wire.record(
                value,
                "segment range",
                wire.uint(),
                wire.uint(),
                wire.octets(32),
                wire.uint(MAXIMUM_VAULT_MANIFEST_BYTES),
            )
        )


@dataclass(frozen=True, slots=True)
class VaultManifest:
    """One node's account of what it has put into a vault: ranges, then the newest segments one by one."""

    vault_id: bytes
    signing_public: bytes
    incarnation: bytes
    manifest_seq: int
    prev: bytes
    created_at_us: int
    ranges: tuple[SegmentRange, ...]
    segments: tuple[SegmentEntry, ...]
    raw: bytes = b""

    @property
    def node_id(self) -> bytes:
        """The node id that the signing key gives."""
        return node_id(self.signing_public)

    @property
    def hash(self) -> bytes:
        """What the next manifest's `prev` names."""
        return crypto.digest(_HASH_DOMAIN, self.raw)

    @property
    def last_number(self) -> int:
        """The number of the newest segment, or 0."""
        return self.segments[-1].number if self.segments else self.last_in_ranges

    @property
    def last_in_ranges(self) -> int:
        """The number of the newest segment that a range names, or 0."""
        return self.ranges[-1].last if self.ranges else 0


def manifest_prefix(vault_id: bytes) -> str:
    """Return the prefix under which all nodes' manifests lie."""
    return f"vaults/{vault_id.hex()}/objects/manifests/"


def manifest_key(vault_id: bytes, node: bytes) -> str:
    """Return the key of a node's manifest (004.02)."""
    return f"{manifest_prefix(vault_id)}{node.hex()}.hxman"


def node_of_manifest_key(key: str) -> bytes:
    """Return the node id that a manifest's key names.

    Raises:
        MalformedError: not a manifest's key.
    """
    name = key.rpartition("/")[2]
    if not name.endswith(".hxman"):
        raise MalformedError("not a vault manifest's key")
    return from_hex(name.removesuffix(".hxman"), NODE_ID_BYTES)


def segment_key(vault_id: bytes, node: bytes, number: int, incarnation: bytes) -> str:
    """Return the key of a segment."""
    return f"vaults/{vault_id.hex()}/objects/segments/{node.hex()}/{number:016x}-{incarnation.hex()}.hxseg"


def range_key(vault_id: bytes, node: bytes, first: int, last: int) -> str:
    """Return the key of a range of older segments."""
    return f"vaults/{vault_id.hex()}/objects/ranges/{node.hex()}/{first:016x}-{last:016x}.hxrange"


def _range_binding(vault_id: bytes, node: bytes, first: int, last: int) -> bytes:
    return wire.encode(["covey/1 range", vault_id, node, first, last])


def _segment_binding(vault_id: bytes, node: bytes, number: int, incarnation: bytes) -> bytes:
    return wire.encode(["covey/1 segment", vault_id, node, number, incarnation])


def _manifest_binding(vault_id: bytes, node: bytes) -> bytes:
    return wire.encode(["covey/1 vault manifest", vault_id, node])


def _seal(magic: bytes, key: VaultKey, binding: bytes, nonce: bytes, plaintext: bytes) -> bytes:
    header = magic + key.key_id
    return header + nonce + crypto.aead_seal(plaintext, header + binding, nonce, key.key)


def _open(magic: bytes, key: VaultKey, binding: bytes, content: bytes, maximum: int) -> bytes:
    if len(content) > maximum:
        raise LimitError(f"a vault object longer than {maximum} bytes")
    header, nonce = content[:_HEADER_BYTES], content[_HEADER_BYTES : _HEADER_BYTES + crypto.NONCE_BYTES]
    if len(nonce) != crypto.NONCE_BYTES or not header.startswith(magic):
        raise MalformedError("not a vault object of this kind")
    if header != magic + key.key_id:
        raise DecryptionError("sealed with another vault key")
    return crypto.aead_open(content[_HEADER_BYTES + crypto.NONCE_BYTES :], header + binding, nonce, key.key)


def seal_segment(
    key: VaultKey,
    signing_public: bytes,
    number: int,
    incarnation: bytes,
    created_at_us: int,
    records: list[SegmentRecord],
    nonce: bytes,
) -> tuple[SegmentEntry, bytes]:
    """Return a segment's entry and content. The same arguments give the same bytes, so a crash can repeat it."""
    node = node_id(signing_public)
    plaintext = wire.encode([1, created_at_us, [[each.received_at_us, each.message] for each in records]])
    content = _seal(_SEGMENT_MAGIC, key, _segment_binding(key.vault_id, node, number, incarnation), nonce, plaintext)
    entry = SegmentEntry(
        number,
        incarnation,
        crypto.digest(b"covey/1 segment", content),
        len(content),
        created_at_us,
        len(records),
    )
    return entry, content


def is_segment(entry: SegmentEntry, content: bytes) -> bool:
    """Say whether these are the sealed bytes that a manifest lists; no key is needed."""
    return len(content) == entry.size and crypto.same(crypto.digest(b"covey/1 segment", content), entry.hash)


def open_segment(key: VaultKey, node: bytes, entry: SegmentEntry, content: bytes) -> tuple[SegmentRecord, ...]:
    """Open a segment that a manifest lists.

    Raises:
        RemoteError: another segment's bytes, tampered with, or malformed.
    """
    if not is_segment(entry, content):
        raise DecryptionError("the segment is not the one that the manifest lists")
    binding = _segment_binding(key.vault_id, node, entry.number, entry.incarnation)
    plaintext = _open(_SEGMENT_MAGIC, key, binding, content, MAXIMUM_SEGMENT_BYTES)
    version, _, records = wire.record(
        wire.decode(plaintext, MAXIMUM_SEGMENT_BYTES),
        "segment",
        wire.uint(255),
        wire.uint(),
        wire.many(_read_record, MAXIMUM_SEGMENT_RECORDS),
    )
    if version != 1:
        raise MalformedError(f"segment version {version}: a newer Covey?")
    if len(records) != entry.records:
        raise MalformedError("segment: a lying number of records")
    return tuple(records)


def _read_record(value: object) -> SegmentRecord:
    return SegmentRecord(*wire.record(value, "record", wire.uint(), wire.octets_to(MAXIMUM_MESSAGE_BYTES)))


def seal_vault_manifest(key: VaultKey, manifest: VaultManifest, identity: Identity, nonce: bytes) -> bytes:
    """Sign, seal and return a vault manifest's content."""
    raw = _manifest_document(manifest)
    signed = wire.encode([crypto.sign(_MANIFEST_DOMAIN, raw, identity), raw])
    return _seal(_MANIFEST_MAGIC, key, _manifest_binding(key.vault_id, manifest.node_id), nonce, signed)


def _manifest_document(manifest: VaultManifest) -> bytes:
    return wire.encode(
        [
            1,
            manifest.vault_id,
            manifest.node_id,
            manifest.signing_public,
            manifest.incarnation,
            manifest.manifest_seq,
            manifest.prev,
            manifest.created_at_us,
            [each.to_wire() for each in manifest.ranges],
            [entry.to_wire() for entry in manifest.segments],
            [],
            {"format_version": 0, "supports": list(SUPPORTS)},
        ]
    )


def open_vault_manifest(key: VaultKey, node: bytes, content: bytes, floor: int = 0) -> VaultManifest:
    """Open the manifest that stands under a node's key.

    Raises:
        DecryptionError: rule 1.
        WrongVaultError: rules 2 and 3.
        SignatureError: rule 3.
        RollbackError: rule 4: `manifest_seq` is below `floor`.
        MalformedError: rule 5, or not a manifest.
    """
    signed = _open(_MANIFEST_MAGIC, key, _manifest_binding(key.vault_id, node), content, MAXIMUM_VAULT_MANIFEST_BYTES)
    signature, document = wire.record(
        wire.decode(signed, MAXIMUM_VAULT_MANIFEST_BYTES),
        "vault manifest",
        wire.octets(crypto.SIGNATURE_BYTES),
        wire.octets_to(MAXIMUM_VAULT_MANIFEST_BYTES),
    )
    fields = wire.record(
        wire.decode(document, MAXIMUM_VAULT_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS),
        "vault manifest document",
        wire.uint(255),
        wire.octets(VAULT_ID_BYTES),
        wire.octets(NODE_ID_BYTES),
        wire.octets(KEY_BYTES),
        wire.octets(INCARNATION_BYTES),
        wire.uint(),
        wire.octets(32),
        wire.uint(),
        wire.many(SegmentRange.from_wire, MAXIMUM_VAULT_RANGES),
        wire.many(SegmentEntry.from_wire, MAXIMUM_VAULT_SEGMENTS),
        wire.many(wire.octets(32), MAXIMUM_VAULT_SEGMENTS),
        _read_capabilities,
    )
    (
        version,
        vault_id,
        named_node,
        signing_public,
        incarnation,
        manifest_seq,
        prev,
        created_at,
        ranges,
        segments,
        _,
        _,
    ) = fields
    if version != 1:
        raise MalformedError(f"vault manifest version {version}: a newer Covey?")
    if vault_id != key.vault_id or named_node != node or node_id(signing_public) != node:
        raise WrongVaultError("the manifest belongs under another key")
    crypto.verify(_MANIFEST_DOMAIN, document, signature, signing_public)
    if manifest_seq < max(floor, 1):
        raise RollbackError(f"manifest_seq {manifest_seq} where {floor} was seen")
    manifest = VaultManifest(
        vault_id, signing_public, incarnation, manifest_seq, prev, created_at, ranges, segments, raw=document
    )
    _check_numbers(manifest)
    return manifest


def _check_numbers(manifest: VaultManifest) -> None:
    """Apply rule 5."""
    expected = 1
    for each in manifest.ranges:
        if each.first != expected or each.last < each.first:
            raise MalformedError("ranges must ascend from 1 without a gap")
        expected = each.last + 1
    if any(entry.number != number for number, entry in enumerate(manifest.segments, expected)):
        raise MalformedError("segment numbers must ascend from 1 without a gap")


def seal_range(
    key: VaultKey, signing_public: bytes, entries: tuple[SegmentEntry, ...], nonce: bytes
) -> tuple[SegmentRange, bytes]:
    """Return the range that names these contiguous segments, and its object's content."""
    first, last = entries[0].number, entries[-1].number
    binding = _range_binding(key.vault_id, node_id(signing_public), first, last)
    content = _seal(_RANGE_MAGIC, key, binding, nonce, wire.encode([entry.to_wire() for entry in entries]))
    return SegmentRange(first, last, crypto.digest(b"covey/1 range", content), len(content)), content


def open_range(key: VaultKey, node: bytes, named: SegmentRange, content: bytes) -> tuple[SegmentEntry, ...]:
    """Open a range that a manifest names.

    Raises:
        RemoteError: another range's bytes, tampered with, or malformed.
    """
    if len(content) != named.size or not crypto.same(crypto.digest(b"covey/1 range", content), named.hash):
        raise DecryptionError("the range is not the one that the manifest names")
    binding = _range_binding(key.vault_id, node, named.first, named.last)
    plaintext = _open(_RANGE_MAGIC, key, binding, content, MAXIMUM_VAULT_MANIFEST_BYTES)
    entries = wire.many(SegmentEntry.from_wire, MAXIMUM_VAULT_SEGMENTS)(
        wire.decode(plaintext, MAXIMUM_VAULT_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS)
    )
    if [entry.number for entry in entries] != list(range(named.first, named.last + 1)):
        raise MalformedError("the range does not hold the segments that it is named after")
    return entries


def _read_capabilities(value: object) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != {"format_version", "supports"}:
        raise MalformedError("capabilities")
    version = wire.uint()(value["format_version"])
    if version != 0:
        raise MalformedError(f"vault format {version}: a newer Covey?")
    wire.many(wire.text(MAXIMUM_CAPABILITY_BYTES), MAXIMUM_CAPABILITIES)(value["supports"])
    return value


def next_manifest(
    before: VaultManifest | None,
    key: VaultKey,
    signing_public: bytes,
    incarnation: bytes,
    created_at_us: int,
    added: tuple[SegmentEntry, ...],
    folded: SegmentRange | None = None,
) -> VaultManifest:
    """Return the manifest that follows `before`, with segments added (004.12-004.14).

    `folded` names the oldest listed segments together: its object is in the vault already.
    """
    listed = before.segments if before else ()
    ranges = before.ranges if before else ()
    if folded is not None:
        ranges = (*ranges, folded)
        listed = tuple(entry for entry in listed if entry.number > folded.last)
    manifest = VaultManifest(
        key.vault_id,
        signing_public,
        incarnation,
        before.manifest_seq + 1 if before else 1,
        before.hash if before else _NO_HASH,
        created_at_us,
        ranges,
        (*listed, *added),
    )
    return replace(manifest, raw=_manifest_document(manifest))
