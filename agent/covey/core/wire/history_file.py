"""A group's history in a file, sealed for some of its members (docs/protocol/content.md, "Export files").

A file is a CBOR sequence of byte strings. The first one gives each recipient the file's key. All others are sealed by
it, numbered, the last one marked: so nothing can be changed, left out or cut off unnoticed, and a truncated file is
usable up to its end. Documents are believed only for what they prove by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from covey.core import crypto
from covey.core.crypto import NoiseKeys
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.wire import cbor
from covey.errors import DecryptionError, MalformedError, NotForUsError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.history import BUNDLE_OPERATIONS, HISTORY_FILE_PART_BYTES

_MAGIC = "covey/1 history"
_NONCE_BYTES = 24
_SEALED_KEY_BYTES = KEY_BYTES + 16
_HEADER_BYTES = 256 + MAXIMUM_MEMBERS * (KEY_BYTES + _SEALED_KEY_BYTES + 8)
_HEADER_ITEMS = 8 + 3 * MAXIMUM_MEMBERS
_SEALED_PART_BYTES = HISTORY_FILE_PART_BYTES + 16
_BYTES_HEADS = {0x58: 1, 0x59: 2, 0x5A: 4}

Read = Callable[[int], bytes]
"""Returns the next so many bytes of a file, fewer only at its end."""


class PartKind(IntEnum):
    """What the documents of a part are."""

    MANIFESTS = 0
    OPERATIONS = 1


@dataclass(frozen=True, slots=True)
class Part:
    """Some documents of a group, each after what it follows; `last` says that the file ends here."""

    group_id: GroupId
    kind: PartKind
    documents: tuple[bytes, ...]
    last: bool = False


class HistoryFileWriter:
    """Seals the parts of one file; `key`, `ephemeral_secret` and `nonce` are fresh random bytes."""

    def __init__(self, key: bytes, ephemeral_secret: bytes, nonce: bytes) -> None:
        self._key = key
        self._ephemeral_secret = ephemeral_secret
        self._nonce = nonce
        self._number = 0

    def header(self, recipients: Iterable[tuple[DeviceKey, NoisePublic]]) -> bytes:
        """Return the first item, which gives the key to recipients.

        Raises:
            DecryptionError: a recipient's key is unusable.
        """
        sealed = [
            [device, crypto.box_seal(self._key, self._nonce, noise_public, self._ephemeral_secret)]
            for device, noise_public in sorted(recipients)
        ]
        return cbor.encode(cbor.encode([_MAGIC, crypto.scalar_base(self._ephemeral_secret), self._nonce, sealed]))

    def part(self, part: Part) -> bytes:
        """Return the next item."""
        plaintext = cbor.encode([part.group_id, int(part.kind), list(part.documents)])
        sealed = crypto.secretbox_seal(plaintext, _part_nonce(self._number, last=part.last), self._key)
        self._number += 1
        return cbor.encode(sealed)


def read_parts(read: Read, own: DeviceKey, noise: NoiseKeys) -> Iterator[Part]:
    """Yield the parts of a file, as far as it is whole.

    Raises:
        NotForUsError: it is sealed for others.
        MalformedError: no such file, or from here on it is damaged or cut off.
    """
    header = _item(read, _HEADER_BYTES)
    if header is None:
        raise MalformedError("the file is empty")
    magic, ephemeral_public, nonce, sealed = cbor.record(
        cbor.decode(header, _HEADER_BYTES, _HEADER_ITEMS),
        "history file",
        cbor.text(64),
        cbor.octets(KEY_BYTES),
        cbor.octets(_NONCE_BYTES),
        cbor.many(_recipient, MAXIMUM_MEMBERS),
    )
    if magic != _MAGIC:
        raise MalformedError("not a Covey history file")
    key = _opened(dict(sealed).get(own), ephemeral_public, nonce, noise)
    number, last = 0, False
    while not last:
        item = _item(read, _SEALED_PART_BYTES)
        if item is None:
            raise MalformedError("the file was cut off")
        part = _opened_part(item, number, key)
        yield part
        number, last = number + 1, part.last


def _opened(sealed: bytes | None, ephemeral_public: bytes, nonce: bytes, noise: NoiseKeys) -> bytes:
    for each in noise.keys if sealed is not None else ():
        try:
            return crypto.box_open(sealed or b"", nonce, ephemeral_public, each.secret.reveal())
        except DecryptionError:
            continue
    raise NotForUsError("the file is sealed for other devices")


def _opened_part(item: bytes, number: int, key: bytes) -> Part:
    for last in (False, True):
        try:
            plaintext = crypto.secretbox_open(item, _part_nonce(number, last=last), key)
        except DecryptionError:
            continue
        group_id, kind, documents = cbor.record(
            cbor.decode(plaintext, HISTORY_FILE_PART_BYTES),
            "part of a history",
            cbor.octets(GROUP_ID_BYTES),
            cbor.uint(max(PartKind)),
            cbor.many(cbor.octets_to(HISTORY_FILE_PART_BYTES), BUNDLE_OPERATIONS),
        )
        return Part(group_id, PartKind(kind), tuple(documents), last)
    raise MalformedError("a part of the file was changed, or is missing")


def _part_nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(8) + bytes([last]) + bytes(_NONCE_BYTES - 9)


def _recipient(value: object) -> tuple[DeviceKey, bytes]:
    device, sealed = cbor.record(value, "recipient", cbor.octets(KEY_BYTES), cbor.octets(_SEALED_KEY_BYTES))
    return device, sealed


def _item(read: Read, maximum: int) -> bytes | None:
    """Return the next byte string of a file; None at its end.

    Raises:
        MalformedError: none, too long, or cut off.
    """
    head = read(1)
    if not head:
        return None
    width = _BYTES_HEADS.get(head[0], 0)
    length = int.from_bytes(read(width)) if width else head[0] - 0x40
    if not (width or 0x40 <= head[0] < 0x58) or length > maximum:
        raise MalformedError("not a part of a history")
    item = read(length)
    if len(item) < length:
        raise MalformedError("the file was cut off")
    return item
