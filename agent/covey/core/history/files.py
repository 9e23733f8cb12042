"""A file's offer to members: what they need to request, verify and open it (002.17, 003.69).

The file is sealed once, for all members that hold an epoch's secret, and is identified by the BLAKE3 hash of the sealed
bytes (002.20). Its key is derived from the epoch's secret and an id of its own (002.22), so outsiders cannot tell which
file it is, and two files never share a key. A file for some members only has its own secret instead of the epoch's,
sealed for these (`core/orders/sealing.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from covey.core.crypto import hkdf_sha256
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.ids import ContentHash, EpochId, GroupId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.content import CHUNK_BYTES, MAXIMUM_CONTENT_BYTES, MAXIMUM_FILE_NAME_BYTES
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_SEALED_BYTES

HASH_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16
FILE_ID_BYTES = 16
_EPOCH_ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class ContentReference:
    """A sealed file: `hash` of its bytes, `index` of the hashes of its chunks, `size` in bytes before it was sealed."""

    hash: ContentHash = field(repr=False)
    index: ContentHash = field(repr=False)
    nonce: bytes = field(repr=False)
    size: int

    @property
    def sealed_size(self) -> int:
        """The bytes that travel (002.21)."""
        return self.size + TAG_BYTES

    @property
    def chunks(self) -> int:
        """How many parts are verified one by one."""
        return -(-self.sealed_size // CHUNK_BYTES)

    @property
    def index_size(self) -> int:
        """The bytes of its index."""
        return self.chunks * HASH_BYTES

    def to_wire(self) -> list[object]:
        """Return `[hash, index, nonce, size]`."""
        return [self.hash, self.index, self.nonce, self.size]

    @classmethod
    def from_wire(cls, value: object) -> ContentReference:
        """Check a decoded reference.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                value,
                "reference",
                cbor.octets(HASH_BYTES),
                cbor.octets(HASH_BYTES),
                cbor.octets(NONCE_BYTES),
                cbor.uint(MAXIMUM_CONTENT_BYTES),
            )
        )


@dataclass(frozen=True, slots=True)
class FileOffer(OperationBody):
    """A file that a member has put: what it is called, and by what it is asked for and opened.

    `sealed_secret`: what it is opened by, for some devices alone; none where the secret of the epoch opens it.
    """

    name: str
    file_id: bytes = field(repr=False)
    epoch_id: EpochId
    content: ContentReference
    sealed_secret: bytes | None = field(default=None, repr=False)
    kind = OperationKind.FILE

    def to_wire(self) -> bytes:
        """Return the body `[name, file_id, epoch_id, [hash, index, nonce, size], ? sealed_secret]`."""
        fields = [self.name, self.file_id, self.epoch_id, self.content.to_wire()]
        return cbor.encode_growing(fields if self.sealed_secret is None else [*fields, self.sealed_secret])

    @classmethod
    def from_wire(cls, body: bytes) -> FileOffer:
        """Parse the body.

        Raises:
            RemoteError: malformed, beyond a bound, or of a name that no file has.
        """
        fields = cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES)
        readers: list[Any] = [
            cbor.text(MAXIMUM_FILE_NAME_BYTES),
            cbor.octets(FILE_ID_BYTES),
            cbor.octets(_EPOCH_ID_BYTES),
            ContentReference.from_wire,
        ]
        if isinstance(fields, list) and len(fields) > len(readers):
            readers.append(cbor.octets_to(MAXIMUM_SEALED_BYTES))
        name, file_id, epoch_id, content, *sealed = cbor.record(fields, "file", *readers)
        if not is_file_name(name):
            raise MalformedError("the file's name is invalid")
        return cls(name, file_id, EpochId(epoch_id), content, *sealed)

    def shown(self) -> dict[str, Any]:
        """Return the file's name, and its size in bytes."""
        return {"text": self.name, "bytes": self.content.size}


def is_file_name(text: str) -> bool:
    """Say whether a text can name a file in any folder: no path, nothing that is not shown, no dots alone."""
    return (
        0 < len(text.encode()) <= MAXIMUM_FILE_NAME_BYTES
        and text.strip() == text
        and text.isprintable()
        and not set(text) & set('/\\:*?"<>|')
        and text.strip(".") != ""
    )


def content_key(secret: bytes, file_id: bytes) -> bytes:
    """Return the key of a file: HKDF-SHA-256 (RFC 5869) of the epoch's secret, or its own, with its id as salt."""
    return hkdf_sha256(secret, file_id, b"covey/1 content key", 32)


def bound_to(group_id: GroupId, offer_id: bytes) -> bytes:
    """Return what a sealed file is bound to: the group and its id, as associated data."""
    return cbor.encode(["covey/1 content", group_id, offer_id])


def chunk_lengths(reference: ContentReference) -> Iterator[int]:
    """Yield the bytes of each chunk, in order."""
    left = reference.sealed_size
    while left:
        yield min(CHUNK_BYTES, left)
        left -= min(CHUNK_BYTES, left)
