"""Messages about files: request a portion, give a part, report completion (docs/protocol/content.md, "Content")."""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.history.files import HASH_BYTES, TAG_BYTES
from covey.core.ids import ContentHash, DeviceKey, GroupId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.content import CHUNK_BYTES, CONTENT_PULL_BYTES, MAXIMUM_CONTENT_BYTES

_SEALED_BYTES = MAXIMUM_CONTENT_BYTES + TAG_BYTES
_PULL_BODY_BYTES = 64
_PART_BODY_BYTES = CHUNK_BYTES + 64


@dataclass(frozen=True, slots=True)
class ContentPull:
    """Asks for `size` bytes of a file, or of an index, from a position on."""

    hash: ContentHash = field(repr=False)
    position: int
    size: int

    def to_wire(self) -> bytes:
        """Return the body `[hash, position, size]`."""
        return cbor.encode_growing([self.hash, self.position, self.size])

    @classmethod
    def from_wire(cls, body: bytes) -> ContentPull:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        readers = cbor.octets(HASH_BYTES), cbor.uint(_SEALED_BYTES), cbor.uint(CONTENT_PULL_BYTES)
        pull = cls(*cbor.record(cbor.decode_growing(body, _PULL_BODY_BYTES), "content pull", *readers))
        if not pull.size:
            raise MalformedError("the content pull requests nothing")
        return pull


@dataclass(frozen=True, slots=True)
class ContentPart:
    """Bytes of a file, or of an index, from a position on; `content` is None where its author does not have it."""

    hash: ContentHash = field(repr=False)
    position: int
    content: bytes | None = field(repr=False)

    def to_wire(self) -> bytes:
        """Return the body `[hash, position, content / null]`."""
        return cbor.encode_growing([self.hash, self.position, self.content])

    @classmethod
    def from_wire(cls, body: bytes) -> ContentPart:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, _PART_BODY_BYTES),
                "content part",
                cbor.octets(HASH_BYTES),
                cbor.uint(_SEALED_BYTES),
                cbor.optional(cbor.octets_to(CHUNK_BYTES)),
            )
        )


@dataclass(frozen=True, slots=True)
class ContentAcknowledgement:
    """Its author has a file whole (002.18)."""

    hash: ContentHash = field(repr=False)

    def to_wire(self) -> bytes:
        """Return the body `[hash]`."""
        return cbor.encode_growing([self.hash])

    @classmethod
    def from_wire(cls, body: bytes) -> ContentAcknowledgement:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        fields = cbor.record(
            cbor.decode_growing(body, _PULL_BODY_BYTES), "content acknowledgement", cbor.octets(HASH_BYTES)
        )
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that this device asks for: `sealed_size` bytes, offered in a group by `author`."""

    hash: ContentHash
    index: ContentHash
    sealed_size: int
    group_id: GroupId
    author: DeviceKey
