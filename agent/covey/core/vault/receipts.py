"""Receipts: one reading that its device signed, without the others of its batch (docs/protocol/vault.md, "Receipts").

A batch may carry `salt16 || signature64` under key 3 of its body's extension map. The signature covers a *statement*:
the batch's boot, clock and anchors, how many readings it has, and the root of a hash tree over them (RFC 6962, section
2.1). The root is not carried: a reader of the batch computes it.

1. A leaf is the hash of a salt of its own and the reading, so that nobody finds a neighbour by trying values. The salts
   derive from that of the batch, which readers of the batch alone know.
2. A receipt names the device, the reading, its salt, its path to the root, and the statement with its signature.
3. `verify_receipt` believes nothing but the device's key. A manifest in a receipt shows who called the device what.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.telemetry.batch import (
    BOOT_ID_BYTES,
    EXACT,
    MAXIMUM_SCALE,
    Batch,
    ClockKind,
    ClockReading,
    Kind,
    Value,
)
from covey.core.telemetry.decoding import read_batch
from covey.core.wire import cbor, columns
from covey.errors import LimitError, MalformedError, SignatureError
from covey.limits.group import MAXIMUM_MANIFEST_BYTES
from covey.limits.telemetry import (
    MAXIMUM_BATCH_READINGS,
    MAXIMUM_NAME_BYTES,
    MAXIMUM_RECEIPT_BYTES,
    MAXIMUM_TEXT_VALUE_BYTES,
    MAXIMUM_UNIT_BYTES,
)

SALT_BYTES = 16
ROWS_BYTES = SALT_BYTES + crypto.SIGNATURE_BYTES

_DOMAIN = b"covey/1 rows"
_HEADER = "covey/1 receipt"
_VERSION = 1
_HASH_BYTES = 32
_PATH_MAX = (MAXIMUM_BATCH_READINGS - 1).bit_length()
_DOUBLE = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class ProvenReading:
    """What a valid receipt proves: that `author` signed this reading in a batch of `readings`.

    `time_us` is the wall time by the device's clock, whose state `clock` says. `manifest` is there if the receipt holds
    one: it lists the author, and its issuer signed it.
    """

    author: DeviceKey
    name: str
    unit: str
    time_us: int
    value: Value
    clock: ClockReading
    index: int
    readings: int
    manifest: GroupManifest | None


def sign_rows(identity: Identity, batch: bytes, salt: bytes) -> bytes:
    """Return what the body of a batch carries so that each of its readings can be proven: salt and signature.

    Raises:
        MalformedError: no batch.
    """
    read = read_batch(batch)
    statement = _statement(identity.signing_public, read, _levels(_leaves(read, salt))[-1][0])
    return salt + crypto.sign(_DOMAIN, statement, identity)


def write_receipt(author: DeviceKey, batch: Batch, rows: bytes, index: int, manifest: bytes | None = None) -> bytes:
    """Return the receipt of one reading of a batch, by its index.

    Raises:
        LimitError: it would be longer than `MAXIMUM_RECEIPT_BYTES`.
        SignatureError: the author has not signed these readings.
        MalformedError: `rows` is not salt and signature.
    """
    if len(rows) != ROWS_BYTES:
        raise MalformedError("the signature of the readings has the wrong length")
    salt, signature = rows[:SALT_BYTES], rows[SALT_BYTES:]
    levels = _levels(_leaves(batch, salt))
    statement = _statement(author, batch, levels[-1][0])
    crypto.verify(_DOMAIN, statement, signature, author)
    row = next(row for at, row in enumerate(_rows(batch)) if at == index)
    path = [level[at ^ 1] for depth, level in enumerate(levels) if (at := index >> depth) ^ 1 < len(level)]
    receipt = cbor.encode([_HEADER, signature, statement, index, _salt_of(salt, index), row, path, manifest])
    if len(receipt) > MAXIMUM_RECEIPT_BYTES:
        raise LimitError(f"a receipt of {len(receipt)} bytes; at most {MAXIMUM_RECEIPT_BYTES} are allowed")
    return receipt


def verify_receipt(raw: bytes, author: DeviceKey) -> ProvenReading:
    """Verify a receipt with the key of the device that it has to be of, and nothing else.

    Raises:
        LimitError: longer than a receipt may be; nothing was parsed.
        MalformedError: no receipt, or its reading, path or manifest is not what was signed.
        SignatureError: the device did not sign it, or the manifest's issuer not the manifest.
        UnsupportedError: it has a field that must be understood and is not.
    """
    if len(raw) > MAXIMUM_RECEIPT_BYTES:
        raise LimitError(f"a receipt has at most {MAXIMUM_RECEIPT_BYTES} bytes")
    _, signature, statement, index, salt, row, path, manifest = cbor.record(
        cbor.decode_growing(raw, MAXIMUM_RECEIPT_BYTES), "receipt", *_RECEIPT_READERS
    )
    crypto.verify(_DOMAIN, statement, signature, author)
    version, signer, boot_id, clock_kind, monotonic_us, wall_us, readings, root = cbor.record(
        cbor.decode_growing(statement, MAXIMUM_RECEIPT_BYTES), "statement", *_STATEMENT_READERS
    )
    if version != _VERSION or not 1 <= readings <= MAXIMUM_BATCH_READINGS:
        raise MalformedError("statement: an unknown version, or no readings")
    if signer != author:
        raise SignatureError("the statement names another device than the one that signed it")
    if _climb(_leaf(salt, row), index, readings, path) != root:
        raise MalformedError("the reading is not among those that the device signed")
    clock = ClockReading(boot_id, monotonic_us, wall_us, ClockKind(clock_kind))
    name, unit, time_us, value = _read_row(row)
    offset = 0 if clock.kind is ClockKind.ASSERTED else wall_us - monotonic_us
    listed = None if manifest is None else read_manifest(manifest)
    if listed is not None and listed.member(author) is None:
        raise MalformedError("the manifest does not list the device")
    return ProvenReading(author, name, unit, time_us + offset, value, clock, index, readings, listed)


def _statement(author: DeviceKey, batch: Batch, root: bytes) -> bytes:
    clock = batch.clock
    return cbor.encode_growing(
        [
            _VERSION,
            author,
            clock.boot_id,
            int(clock.kind),
            clock.monotonic_us,
            clock.wall_us,
            batch.count,
            root,
        ]
    )


def _rows(batch: Batch) -> Iterator[bytes]:
    """Yield each reading as it is hashed, in index order."""
    numbers, texts = iter(batch.integers()), iter(batch.texts)
    doubles = memoryview(columns.join_planes(batch.floats, 8))
    times = iter(batch.taken_us())
    place = 0
    for series in batch.series:
        for _ in range(series.count):
            value: object
            if series.kind is Kind.DECIMAL:
                value = next(numbers)
            elif series.kind is Kind.BOOLEAN:
                value = next(numbers) != 0
            elif series.kind is Kind.FLOAT:
                value = bytes(doubles[place : place + 8])[::-1]
                place += 8
            else:
                value = next(texts)
            yield cbor.encode([series.name, series.unit, int(series.kind), series.scale, next(times), value])


def _read_row(row: bytes) -> tuple[str, str, int, Value]:
    """Return (name, unit, time by the batch's clock, value) of a row that was signed."""
    value = cbor.decode_growing(row, MAXIMUM_RECEIPT_BYTES)
    name, unit, kind, scale, time_us, content = cbor.record(value, "reading", *_ROW_READERS)
    if not name or scale > MAXIMUM_SCALE or (scale and kind != Kind.DECIMAL):
        raise MalformedError("reading: a name is needed, and only decimals may have a scale")
    return name, unit, time_us, _value(Kind(kind), scale, content)


def _value(kind: Kind, scale: int, content: object) -> Value:
    match kind:
        case Kind.DECIMAL:
            number = cbor.integer(content)
            return number if scale == 0 and abs(number) >= EXACT else number / 10**scale
        case Kind.BOOLEAN:
            return cbor.boolean(content)
        case Kind.FLOAT:
            double: float = _DOUBLE.unpack(cbor.octets(_DOUBLE.size)(content))[0]
            if not isfinite(double):
                raise MalformedError("reading: a float is not finite")
            return double
        case Kind.TEXT:
            return cbor.text(MAXIMUM_TEXT_VALUE_BYTES)(content)
        case Kind.DATA:
            return cbor.octets_to(MAXIMUM_TEXT_VALUE_BYTES)(content)


def _salt_of(salt: bytes, index: int) -> bytes:
    place = index.to_bytes(4, "big")
    return hashlib.blake2b(place, digest_size=SALT_BYTES, key=salt, person=b"covey/1 row salt").digest()


def _leaf(salt: bytes, row: bytes) -> bytes:
    return hashlib.sha256(b"\0" + salt + row).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _leaves(batch: Batch, salt: bytes) -> list[bytes]:
    return [_leaf(_salt_of(salt, index), row) for index, row in enumerate(_rows(batch))]


def _levels(leaves: list[bytes]) -> list[list[bytes]]:
    """Return the tree from its leaves to its root; where a level is odd, its last node is the next one's as it is.

    Raises:
        MalformedError: there are no leaves.
    """
    if not leaves:
        raise MalformedError("a batch without readings has no receipts")
    levels = [leaves]
    while len(below := levels[-1]) > 1:
        above = [_node(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
        levels.append(above + below[len(above) * 2 :])
    return levels


def _climb(node: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """Return the root that a leaf's path leads to.

    Raises:
        MalformedError: the path does not fit the tree.
    """
    if not index < size:
        raise MalformedError("receipt: no such reading in the batch")
    siblings = iter(path)
    while size > 1:
        if index ^ 1 < size:
            sibling = next(siblings, None)
            if sibling is None:
                raise MalformedError("receipt: the path is too short")
            node = _node(sibling, node) if index & 1 else _node(node, sibling)
        index, size = index >> 1, (size + 1) >> 1
    if next(siblings, None) is not None:
        raise MalformedError("receipt: the path is too long")
    return node


def _header(value: object) -> str:
    if value != _HEADER:
        raise MalformedError("this is not a receipt")
    return _HEADER


def _anything(value: object) -> object:
    return value


_RECEIPT_READERS = (
    _header,
    cbor.octets(crypto.SIGNATURE_BYTES),
    cbor.octets_to(MAXIMUM_RECEIPT_BYTES),
    cbor.uint(MAXIMUM_BATCH_READINGS - 1),
    cbor.octets(SALT_BYTES),
    cbor.octets_to(MAXIMUM_RECEIPT_BYTES),
    cbor.many(cbor.octets(_HASH_BYTES), _PATH_MAX),
    cbor.optional(cbor.octets_to(MAXIMUM_MANIFEST_BYTES)),
)
_STATEMENT_READERS = (
    cbor.uint(255),
    cbor.octets(KEY_BYTES),
    cbor.octets(BOOT_ID_BYTES),
    cbor.uint(max(ClockKind)),
    cbor.uint(),
    cbor.uint(),
    cbor.uint(),
    cbor.octets(_HASH_BYTES),
)
_ROW_READERS = (
    cbor.text(MAXIMUM_NAME_BYTES),
    cbor.text(MAXIMUM_UNIT_BYTES),
    cbor.uint(max(Kind)),
    cbor.uint(MAXIMUM_SCALE),
    cbor.integer,
    _anything,
)
