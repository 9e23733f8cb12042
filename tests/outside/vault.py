"""Sections 13 and 14: what the nodes of a vault have landed, from a folder or an object store, by its key file."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import cbor2
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt as open_aead
from nacl.exceptions import CryptoError
from pyarrow.fs import FileSelector, FileSystem

from tests.outside.primitives import (
    HASH,
    INCARNATION,
    KEY,
    NODE_ID,
    SIGNATURE,
    UINT63,
    VAULT_ID,
    RefusedError,
    check_signature,
    fits,
    grown,
    hashed,
    parsed,
)
from tests.outside.telemetry import COLUMN, inflate, integers

_MAGIC_BYTES, _KEY_ID_BYTES, _NONCE_BYTES = 6, 8, 24
_CHECK_BYTES = 8
_HEADER_BYTES = _MAGIC_BYTES + _KEY_ID_BYTES
_SEGMENT, _MANIFEST, _RANGE = b"HXSEG\x01", b"HXMAN\x01", b"HXRNG\x01"
_LISTING_ITEMS = 880_000
_SEGMENT_ITEMS = 65_536
_SEGMENT_BYTES, _LISTING_BYTES = 33_554_432, 8_388_608
_ENTRY = (UINT63, INCARNATION, HASH, range(_SEGMENT_BYTES + 1), UINT63, UINT63, UINT63)
_THINNED = b"\xff" * 8
_MERGED = bytes(8)
_MERGED_NUMBERS = 1_000
_NAMED = (UINT63, UINT63, HASH, UINT63)
_TOMBSTONE = (*_NAMED, UINT63)
_ERASURE = (object, UINT63, UINT63, object, UINT63)
_DOCUMENT = (
    *(1, VAULT_ID, NODE_ID, KEY, INCARNATION, UINT63, HASH, UINT63),
    *([_NAMED], [_ENTRY], [_TOMBSTONE], {"supports": [str], "format_version": 0}, [_ERASURE]),
)
_RECORD = (UINT63, bytes)
_NUMBERS = (KEY, INCARNATION, [(UINT63, UINT63)])
_PACKED = (2, range(_SEGMENT_BYTES + 1), bytes)
_UNPACKED = (UINT63, [_NUMBERS], [(UINT63, UINT63, range(20_001))], COLUMN, COLUMN, COLUMN, bytes)
_MESSAGE_BYTES = 1_000_000


class Entry(NamedTuple):
    """A segment as its node lists it; it stands for `covers` numbers, of which `number` is the last."""

    number: int
    incarnation: bytes
    hash: bytes
    size: int
    created_at: int
    records: int
    covers: int

    @property
    def first(self) -> int:
        """The first number that it stands for."""
        return self.number - self.covers + 1


class Erasure(NamedTuple):
    """What a node says was erased: of an author or, None, of all; until when it had come, and up to which number."""

    author: bytes | None
    until: int
    last: int
    note: bytes | None
    completed_at: int


class Erased(NamedTuple):
    """Numbers of an author's batches that a thinned segment says are gone."""

    author: bytes
    incarnation: bytes
    numbers: list[tuple[int, int]]


class Node(NamedTuple):
    """A device that lands, and all that it lists, in order."""

    id: bytes
    device: bytes
    entries: list[Entry]
    erasures: list[Erasure]


class Record(NamedTuple):
    """What was landed, exactly as it came, and when."""

    number: int
    received_at: int
    content: bytes


class Vault:
    """One vault, for whoever has its key file."""

    def __init__(self, location: str, key_file: Path) -> None:
        self._files, root = FileSystem.from_uri(location if "://" in location else Path(location).absolute().as_uri())
        keys = json.loads(key_file.read_text())
        self.id = bytes.fromhex(keys["vault_id"])
        self._keys = {bytes.fromhex(each["key_id"]): bytes.fromhex(each["key"]) for each in keys["keys"]}
        wrong = any(hashed(key, "covey/1 vkey id", _KEY_ID_BYTES) != key_id for key_id, key in self._keys.items())
        if wrong or check_of(keys) != bytes.fromhex(keys.get("check", "")):
            raise RefusedError("malformed", "key file")
        self._root = f"{root}/vaults/{self.id.hex()}/objects"

    def nodes(self) -> list[bytes]:
        """Return the ids of the nodes that have a manifest."""
        found = self._files.get_file_info(FileSelector(f"{self._root}/manifests", allow_not_found=True))
        names = sorted(each.base_name for each in found if each.base_name.endswith(".hxman"))
        return [bytes.fromhex(name.removesuffix(".hxman")) for name in names]

    def node(self, node: bytes) -> Node:
        """Read a node's manifest and its ranges."""
        content = self._get(f"manifests/{node.hex()}.hxman", _LISTING_BYTES)
        return self.read_manifest(content, node, self._range)

    def _range(self, node: bytes, named: list[Any]) -> list[Entry]:
        first, last, digest, _ = named
        content = self._get(f"ranges/{node.hex()}/{_span(first, last, digest)}.hxrange", _LISTING_BYTES)
        return self.read_range(content, node, named)

    def segment(self, node: bytes, entry: Entry) -> tuple[list[Record], list[Erased]]:
        """Read a segment that a node lists: its records, and the numbers that were erased from it."""
        name = f"{entry.number:016x}-{entry.incarnation.hex()}"
        if entry.covers > 1 or entry.incarnation == _THINNED:
            name = _span(entry.first, entry.number, entry.hash)
        content = self._get(f"segments/{node.hex()}/{name}.hxseg", _SEGMENT_BYTES)
        if entry.incarnation == _THINNED:
            return self.read_thinned(content, node, entry)
        return self.read_segment(content, node, entry), []

    def read_manifest(
        self, content: bytes, node: bytes, read_range: Callable[[bytes, list[Any]], list[Entry]], floor: int = 1
    ) -> Node:
        """Verify a manifest, and return what it and its ranges list; `floor` is the highest sequence seen before."""
        plaintext = self._open(content, _MANIFEST, ["covey/1 vault manifest", self.id, node])
        signature, document = parsed(plaintext, (SIGNATURE, bytes), items=_LISTING_ITEMS)
        _, vault, inside, device, _, sequence, _, _, ranges, segments, tombstones, _, said = grown(
            document, _DOCUMENT, items=_LISTING_ITEMS
        )
        if (vault, inside) != (self.id, node) or node != hashed(device, "covey/1 node", 16):
            raise RefusedError("wrong_vault", node.hex())
        check_signature("covey/1 vault manifest", device, signature, document)
        if sequence < floor:
            raise RefusedError("rollback", node.hex())
        end = _end_of(ranges, [Entry(*each) for each in segments])
        if any(not 1 <= first <= last <= end for first, last, *_ in tombstones):
            raise RefusedError("malformed", "tombstone")
        erasures = _erasures(said)
        upto = max((each.last for each in erasures), default=0)
        listed = [entry for named in ranges for entry in read_range(node, named)]
        listed += [Entry(*each) for each in segments]
        if upto > end or any(each.incarnation == _THINNED and each.number > upto for each in listed):
            raise RefusedError("malformed", "erasures")
        return Node(node, device, listed, erasures)

    def read_range(self, content: bytes, node: bytes, named: list[Any]) -> list[Entry]:
        """Return the entries of a range object that a manifest names."""
        first, last, digest, size = named
        _check_object(content, digest, size, "covey/1 range")
        plaintext = self._open(content, _RANGE, ["covey/1 range", self.id, node, first, last])
        entries = [Entry(*each) for each in parsed(plaintext, [_ENTRY], items=_LISTING_ITEMS)]
        if not entries or _end_of([], entries, first) != last:
            raise RefusedError("malformed", "range")
        return entries

    def read_segment(self, content: bytes, node: bytes, entry: Entry) -> list[Record]:
        """Return the records of a segment object, of each number that it stands for."""
        _check_object(content, entry.hash, entry.size, "covey/1 segment")
        if entry.covers == 1:
            binding = ["covey/1 segment", self.id, node, entry.number, entry.incarnation]
            _, _, records = parsed(self._open(content, _SEGMENT, binding), (1, UINT63, [_RECORD]), items=_SEGMENT_ITEMS)
            parts = [[entry.number, 0, records]]
        else:
            binding = ["covey/1 merged segment", self.id, node, entry.first, entry.number]
            plaintext = self._open(content, _SEGMENT, binding)
            erased_at, parts, said = _unpacked(plaintext)
            if erased_at or said:
                raise RefusedError("malformed", "erased from a merged segment")
        numbers = [number for number, _, _ in parts]
        found = [Record(number, *record) for number, _, records in parts for record in records]
        first = entry.first if entry.covers <= _MERGED_NUMBERS else entry.number + 1  # a hole has no parts
        if numbers != [*range(first, entry.number + 1)] or len(found) != entry.records:
            raise RefusedError("malformed", "segment")
        return found

    def read_thinned(self, content: bytes, node: bytes, entry: Entry) -> tuple[list[Record], list[Erased]]:
        """Return what is left of the numbers that a thinned segment stands for, and what was erased."""
        _check_object(content, entry.hash, entry.size, "covey/1 segment")
        binding = ["covey/1 thinned segment", self.id, node, entry.first, entry.number]
        plaintext = self._open(content, _SEGMENT, binding)
        _, parts, said = _unpacked(plaintext)
        numbers = [number for number, _, _ in parts]
        found = [Record(number, *record) for number, _, records in parts for record in records]
        erased = [Erased(author, incarnation, [(*span,) for span in spans]) for author, incarnation, spans in said]
        whole = numbers == sorted({*numbers} & {*range(entry.first, entry.number + 1)}) and all(
            part[2] for part in parts
        )
        names = [(each.author, each.incarnation) for each in erased]
        apart = all(
            each.numbers and all(1 <= first <= last for first, last in each.numbers) and _apart(each.numbers)
            for each in erased
        )
        if not whole or len(found) != entry.records or names != sorted({*names}) or not apart:
            raise RefusedError("malformed", "thinned segment")
        return found, erased

    def _open(self, content: bytes, magic: bytes, binding: list[Any]) -> bytes:
        header, nonce = content[:_HEADER_BYTES], content[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES]
        if len(nonce) < _NONCE_BYTES or not header.startswith(magic):
            raise RefusedError("malformed", "header")
        key = self._keys.get(header[_MAGIC_BYTES:])
        if key is None:
            raise RefusedError("vault_key", header[_MAGIC_BYTES:].hex())
        bound = header + cbor2.dumps(binding, canonical=True)
        try:
            return open_aead(content[_HEADER_BYTES + _NONCE_BYTES :], bound, nonce, key)
        except (CryptoError, ValueError):
            raise RefusedError("decryption", str(binding[0])) from None

    def _get(self, name: str, limit: int) -> bytes:
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                content = bytes(stream.read())
        except FileNotFoundError:
            raise RefusedError("missing", name) from None
        if len(content) > limit:
            raise RefusedError("limit", name)
        return content


def _unpacked(plaintext: bytes) -> tuple[int, list[Any], list[Any]]:
    """Return when something was erased, the parts and the numbers of a packed segment."""
    _, size, packed = parsed(plaintext, _PACKED)
    said = parsed(inflate(packed, size), _UNPACKED, items=_LISTING_ITEMS)
    erased_at, erased, counted, received, places, lengths, joined = said
    count = sum(records for _, _, records in counted)
    at, places, lengths = (integers(column, count) for column in (received, places, lengths))
    if max(lengths, default=0) > _MESSAGE_BYTES:
        raise RefusedError("limit", "message")
    ends = [*accumulate(lengths, initial=0)]
    if min([*at, *lengths], default=0) < 0 or ends[-1] != len(joined) or sorted(places) != [*range(count)]:
        raise RefusedError("malformed", "packed segment")
    contents = {place: joined[first:last] for place, (first, last) in zip(places, pairwise(ends), strict=True)}
    landed = iter([[moment, contents[place]] for place, moment in enumerate(at)])
    parts = [[number, created_at, [*islice(landed, records)]] for number, created_at, records in counted]
    return erased_at, parts, erased


def _erasures(said: list[list[Any]]) -> list[Erasure]:
    found = [Erasure(*each) for each in said]
    for each in found:
        for value in (each.author, each.note):
            if value is not None and not fits(value, HASH):
                raise RefusedError("malformed", "erasure")
    names = [each.author or b"" for each in found]
    if names != sorted({*names}):
        raise RefusedError("malformed", "erasures")
    return found


def _apart(spans: list[tuple[int, int]]) -> bool:
    return all(before[1] + 1 < after[0] for before, after in pairwise(spans))


def _span(first: int, last: int, digest: bytes) -> str:
    return f"{first:016x}-{last:016x}-{digest[:8].hex()}"


def _end_of(ranges: list[list[Any]], entries: list[Entry], first: int = 1) -> int:
    """Return the last number that a list comes to, from `first` on without a gap."""
    spans = [(named[0], named[1]) for named in ranges] + [(entry.first, entry.number) for entry in entries]
    wide = [each for each in entries if each.covers > _MERGED_NUMBERS and each.incarnation != _THINNED]
    if any(each.records or each.incarnation != _MERGED for each in wide):  # else it is a hole
        raise RefusedError("malformed", "numbers of a segment")
    for begin, end in spans:
        if begin != first or end < begin:
            raise RefusedError("malformed", "numbers of segments")
        first = end + 1
    return first - 1


def _check_object(content: bytes, digest: bytes, size: int, person: str) -> None:
    if len(content) != size or hashed(content, person) != digest:
        raise RefusedError("decryption", "not the object that is listed")


def check_of(keys: dict[str, Any]) -> bytes:
    """Section 14: what shows that a key file is damaged."""

    def octets(text: str | None) -> bytes | None:
        return None if text is None else bytes.fromhex(text)

    epochs = keys.get("epochs")
    content = [
        octets(keys["vault_id"]),
        [[octets(each["key"]), each.get("since_us", 0)] for each in keys["keys"]],
        None if epochs is None else sorted([octets(group), octets(epoch)] for group, epoch in epochs.items()),
        [[octets(each["public"]), octets(each["device"])] for each in keys.get("readers", ())],
        octets(keys.get("reader_secret")),
    ]
    return hashed(cbor2.dumps(content, canonical=True), "covey/1 vkeyfile", _CHECK_BYTES)
