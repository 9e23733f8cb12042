"""The vault: immutable sealed segments and one sealed manifest per node (docs/protocol/vault.md, "Vault").

A segment holds signed messages verbatim, with the time at which the collector received each. A vault manifest lists a
node's segments; the node signs it and seals it with the vault key. A reader checks:

    1. The object opens under the vault key, bound to the vault, node (and segment) that its key names (004.19-004.21).
    2. The ids inside are those of the key.
    3. The manifest is signed by a key whose node id matches its place.
    4. `manifest_seq` is not below the highest one seen (004.15, 004.16); the caller keeps that floor.
    5. Segment numbers ascend from 1 without gaps, so that a position is one number. A merged segment covers all
       positions of those that it replaces (`vault/merging.py`).
    6. It states what was erased, by whose decision, and up to which position; a thinned segment, from which something
       was erased, appears nowhere else (`core/vault/erasing.py`).

A manifest lists its newest segments one by one. The older ones are in sealed, immutable ranges of 1,000, each
identified by first and last number and hash (004.11), so that a manifest stays small however long a node writes.
Tombstones name what merged segments have replaced.

Clear header of all: a 6-byte magic and the 8-byte id of the vault key. Ids are checked before they are used in a path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import (
    INCARNATION_BYTES,
    KEY_BYTES,
    NODE_ID_BYTES,
    VAULT_ID_BYTES,
    DeviceKey,
    Incarnation,
    NodeId,
    VaultId,
    node_id,
)
from covey.core.vault.entries import (
    Erasure,
    SegmentEntry,
    SegmentPart,
    SegmentRange,
    SegmentRecord,
    Tombstone,
    entry_key,
    last_of_segment_key,
    manifest_key,
    manifest_prefix,
    node_of_manifest_key,
    range_key,
    segment_key,
    segment_prefix,
    tombstone_key,
)
from covey.core.vault.keys import VaultKey
from covey.core.vault.sealing import content_nonce, open_object, seal_object
from covey.core.vault.segments import is_segment, open_parts, open_segment, open_whole, seal_segment
from covey.core.wire import cbor
from covey.errors import (
    DecryptionError,
    MalformedError,
    RollbackError,
    WrongVaultError,
)
from covey.limits.group import MAXIMUM_CAPABILITIES, MAXIMUM_CAPABILITY_BYTES
from covey.limits.vault import (
    MAXIMUM_VAULT_ERASURES,
    MAXIMUM_VAULT_ITEMS,
    MAXIMUM_VAULT_MANIFEST_BYTES,
    MAXIMUM_VAULT_RANGES,
    MAXIMUM_VAULT_SEGMENTS,
    MAXIMUM_VAULT_TOMBSTONES,
)

__all__ = [
    "Erasure",
    "SegmentEntry",
    "SegmentPart",
    "SegmentRange",
    "SegmentRecord",
    "Tombstone",
    "VaultManifest",
    "entry_key",
    "is_range",
    "is_segment",
    "last_of_segment_key",
    "manifest_key",
    "manifest_prefix",
    "next_manifest",
    "node_of_manifest_key",
    "open_parts",
    "open_range",
    "open_segment",
    "open_vault_manifest",
    "open_whole",
    "range_key",
    "rewritten_manifest",
    "seal_range",
    "seal_segment",
    "seal_vault_manifest",
    "segment_key",
    "segment_prefix",
    "tombstone_key",
]

_MANIFEST_MAGIC = b"HXMAN\x01"
_RANGE_MAGIC = b"HXRNG\x01"
_MANIFEST_DOMAIN = b"covey/1 vault manifest"
_HASH_DOMAIN = b"covey/1 vm hash"
_NO_HASH = bytes(32)
SUPPORTS = ("segments", "tombstones")


@dataclass(frozen=True, slots=True)
class VaultManifest:
    """One node's account of what it has put into a vault: ranges, then the newest segments one by one."""

    vault_id: VaultId
    signing_public: DeviceKey
    incarnation: Incarnation
    manifest_seq: int
    prev: bytes
    created_at_us: int
    ranges: tuple[SegmentRange, ...]
    segments: tuple[SegmentEntry, ...]
    tombstones: tuple[Tombstone, ...] = ()
    erasures: tuple[Erasure, ...] = ()
    raw: bytes = b""

    @property
    def node_id(self) -> NodeId:
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

    @property
    def erased_upto(self) -> int:
        """The last position from which something may have been erased, or 0."""
        return max((each.last for each in self.erasures), default=0)


def _range_binding(vault_id: VaultId, node: NodeId, first: int, last: int) -> bytes:
    return cbor.encode(["covey/1 range", vault_id, node, first, last])


def _manifest_binding(vault_id: VaultId, node: NodeId) -> bytes:
    return cbor.encode(["covey/1 vault manifest", vault_id, node])


def seal_vault_manifest(key: VaultKey, manifest: VaultManifest, identity: Identity, nonce: bytes) -> bytes:
    """Sign, seal and return a vault manifest's content."""
    raw = _manifest_document(manifest)
    signed = cbor.encode([crypto.sign(_MANIFEST_DOMAIN, raw, identity), raw])
    return seal_object(_MANIFEST_MAGIC, key, _manifest_binding(key.vault_id, manifest.node_id), nonce, signed)


def _manifest_document(manifest: VaultManifest) -> bytes:
    return cbor.encode_growing(
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
            [each.to_wire() for each in manifest.tombstones],
            {"format_version": 0, "supports": list(SUPPORTS)},
            [each.to_wire() for each in manifest.erasures],
        ]
    )


def open_vault_manifest(key: VaultKey, node: NodeId, content: bytes, floor: int = 0) -> VaultManifest:
    """Open the manifest that stands under a node's key.

    Raises:
        DecryptionError: rule 1.
        WrongVaultError: rules 2 and 3.
        SignatureError: rule 3.
        RollbackError: rule 4: `manifest_seq` is below `floor`.
        MalformedError: rule 5, or not a manifest.
    """
    signed = open_object(
        _MANIFEST_MAGIC, key, _manifest_binding(key.vault_id, node), content, MAXIMUM_VAULT_MANIFEST_BYTES
    )
    signature, document = cbor.record(
        cbor.decode(signed, MAXIMUM_VAULT_MANIFEST_BYTES),
        "vault manifest",
        cbor.octets(crypto.SIGNATURE_BYTES),
        cbor.octets_to(MAXIMUM_VAULT_MANIFEST_BYTES),
    )
    value = cbor.decode_growing(document, MAXIMUM_VAULT_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS)
    version, vault_id, named_node, signing_public, *rest = cbor.record(
        value, "vault manifest document", *_MANIFEST_READERS
    )
    incarnation, manifest_seq, prev, created_at, ranges, segments, tombstones, _, erasures = rest
    if version != 1:
        raise MalformedError(f"vault manifest version {version}: a newer Covey?")
    if vault_id != key.vault_id or named_node != node or node_id(signing_public) != node:
        raise WrongVaultError("the manifest's ids do not match its key")
    crypto.verify(_MANIFEST_DOMAIN, document, signature, signing_public)
    if manifest_seq < max(floor, 1):
        raise RollbackError(f"manifest_seq {manifest_seq} is below {floor}, which this reader has seen")
    manifest = VaultManifest(
        vault_id,
        signing_public,
        incarnation,
        manifest_seq,
        prev,
        created_at,
        ranges,
        segments,
        tombstones,
        erasures,
        document,
    )
    _check_numbers(manifest)
    _check_erasures(manifest)
    return manifest


def _check_numbers(manifest: VaultManifest) -> None:
    """Apply rule 5."""
    expected = 1
    for each in manifest.ranges:
        if each.first != expected or each.last < each.first:
            raise MalformedError("ranges must ascend from 1 without a gap")
        expected = each.last + 1
    _check_run(manifest.segments, expected)
    if any(not 1 <= each.first <= each.last <= manifest.last_number for each in manifest.tombstones):
        raise MalformedError("the tombstone covers unknown positions")


def _check_erasures(manifest: VaultManifest) -> None:
    """Apply rule 6."""
    names = [each.author or b"" for each in manifest.erasures]
    if any(before >= after for before, after in pairwise(names)):
        raise MalformedError("erasures must ascend by author, with the one for all authors first")
    if manifest.erased_upto > manifest.last_number:
        raise MalformedError("the erasure covers unknown positions")
    if any(entry.is_thinned and entry.number > manifest.erased_upto for entry in manifest.segments):
        raise MalformedError("no erasure applies to a thinned segment")


def _check_run(entries: tuple[SegmentEntry, ...], expected: int) -> None:
    for entry in entries:
        if entry.first != expected:
            raise MalformedError("segment numbers must ascend from 1 without a gap")
        expected = entry.number + 1


def seal_range(
    key: VaultKey, signing_public: DeviceKey, entries: tuple[SegmentEntry, ...], nonce: bytes | None = None
) -> tuple[SegmentRange, bytes]:
    """Return the range that names these contiguous segments, and its object's content.

    Without a nonce, the same segments give the same bytes: so the range can be made again from them, and compared with
    what a manifest names.
    """
    first, last = entries[0].first, entries[-1].number
    binding = _range_binding(key.vault_id, node_id(signing_public), first, last)
    plaintext = cbor.encode([entry.to_wire() for entry in entries])
    content = seal_object(_RANGE_MAGIC, key, binding, nonce or content_nonce(key, binding, plaintext), plaintext)
    return SegmentRange(first, last, crypto.digest(b"covey/1 range", content), len(content)), content


def is_range(named: SegmentRange, content: bytes) -> bool:
    """Say whether these are the sealed bytes of the range that a manifest names; no key is needed."""
    return len(content) == named.size and crypto.same(crypto.digest(b"covey/1 range", content), named.hash)


def open_range(key: VaultKey, node: NodeId, named: SegmentRange, content: bytes) -> tuple[SegmentEntry, ...]:
    """Open a range that a manifest names.

    Raises:
        RemoteError: another range's bytes, tampered with, or malformed.
    """
    if not is_range(named, content):
        raise DecryptionError("the range does not match the manifest")
    binding = _range_binding(key.vault_id, node, named.first, named.last)
    plaintext = open_object(_RANGE_MAGIC, key, binding, content, MAXIMUM_VAULT_MANIFEST_BYTES)
    entries = cbor.many(SegmentEntry.from_wire, MAXIMUM_VAULT_SEGMENTS)(
        cbor.decode(plaintext, MAXIMUM_VAULT_MANIFEST_BYTES, MAXIMUM_VAULT_ITEMS)
    )
    _check_run(entries, named.first)
    if not entries or entries[-1].number != named.last:
        raise MalformedError("the range does not contain the segments in its name")
    return entries


def _read_capabilities(value: object) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != {"format_version", "supports"}:
        raise MalformedError("the capabilities are malformed")
    version = cbor.uint()(value["format_version"])
    if version != 0:
        raise MalformedError(f"vault format {version}: a newer Covey?")
    cbor.many(cbor.text(MAXIMUM_CAPABILITY_BYTES), MAXIMUM_CAPABILITIES)(value["supports"])
    return value


def next_manifest(
    before: VaultManifest | None,
    key: VaultKey,
    signing_public: DeviceKey,
    incarnation: Incarnation,
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
        listed = tuple([entry for entry in listed if entry.number > folded.last])
    tombstones = before.tombstones if before else ()
    erasures = before.erasures if before else ()
    objects = ranges, (*listed, *added), tombstones, erasures
    return _following(before, key, signing_public, incarnation, created_at_us, *objects)


def rewritten_manifest(
    before: VaultManifest,
    key: VaultKey,
    created_at_us: int,
    ranges: tuple[SegmentRange, ...],
    segments: tuple[SegmentEntry, ...],
    tombstones: tuple[Tombstone, ...],
    erasures: tuple[Erasure, ...] | None = None,
) -> VaultManifest:
    """Return the manifest that follows `before` and names the same positions by other objects."""
    said = before.erasures if erasures is None else erasures
    own, objects = before.signing_public, (ranges, segments, tombstones, said)
    return _following(before, key, own, before.incarnation, created_at_us, *objects)


def _following(
    before: VaultManifest | None,
    key: VaultKey,
    signing_public: DeviceKey,
    incarnation: Incarnation,
    created_at_us: int,
    ranges: tuple[SegmentRange, ...],
    segments: tuple[SegmentEntry, ...],
    tombstones: tuple[Tombstone, ...],
    erasures: tuple[Erasure, ...],
) -> VaultManifest:
    manifest = VaultManifest(
        key.vault_id,
        signing_public,
        incarnation,
        before.manifest_seq + 1 if before else 1,
        before.hash if before else _NO_HASH,
        created_at_us,
        ranges,
        segments,
        tombstones,
        erasures,
    )
    return replace(manifest, raw=_manifest_document(manifest))


_MANIFEST_READERS = (
    cbor.uint(255),
    cbor.octets(VAULT_ID_BYTES),
    cbor.octets(NODE_ID_BYTES),
    cbor.octets(KEY_BYTES),
    cbor.octets(INCARNATION_BYTES),
    cbor.uint(),
    cbor.octets(32),
    cbor.uint(),
    cbor.many(SegmentRange.from_wire, MAXIMUM_VAULT_RANGES),
    cbor.many(SegmentEntry.from_wire, MAXIMUM_VAULT_SEGMENTS),
    cbor.many(Tombstone.from_wire, MAXIMUM_VAULT_TOMBSTONES),
    _read_capabilities,
    cbor.many(Erasure.from_wire, MAXIMUM_VAULT_ERASURES),
)
