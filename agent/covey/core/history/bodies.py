"""What operations say: one body for each kind (docs/protocol.md, "History")."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from covey.core.history.operation import ID_BYTES, Operation
from covey.core.ids import OperationId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.history import MAXIMUM_MIME_BYTES, MAXIMUM_OPERATION_BODY_BYTES

_MIME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+/;= ")


class OperationKind(IntEnum):
    """What an operation is."""

    MERGE = 0
    NOTE = 1


@dataclass(frozen=True, slots=True)
class Merge:
    """Nothing: it only follows what no operation had followed."""

    kind = OperationKind.MERGE

    def to_wire(self) -> bytes:
        """Return the body, which is empty."""
        return cbor.encode([])

    @classmethod
    def from_wire(cls, body: bytes) -> Merge:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        cbor.record(cbor.decode(body, MAXIMUM_OPERATION_BODY_BYTES), "merge")
        return cls()


@dataclass(frozen=True, slots=True)
class Note:
    """What a person has to say: `content` of a MIME type, perhaps about another operation, or in place of one.

    `about` is the operation that it comments, `replaces` the note of the same author that it takes the place of.
    """

    mime: str
    content: bytes = field(repr=False)
    about: OperationId | None = None
    replaces: OperationId | None = None
    kind = OperationKind.NOTE

    def to_wire(self) -> bytes:
        """Return the body `[mime, content, about, replaces]`."""
        return cbor.encode([self.mime, self.content, self.about, self.replaces])

    @classmethod
    def from_wire(cls, body: bytes) -> Note:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        mime, content, about, replaces = cbor.record(
            cbor.decode(body, MAXIMUM_OPERATION_BODY_BYTES),
            "note",
            cbor.text(MAXIMUM_MIME_BYTES),
            cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES),
            cbor.optional(cbor.octets(ID_BYTES)),
            cbor.optional(cbor.octets(ID_BYTES)),
        )
        if not is_mime_type(mime):
            raise MalformedError("a note's MIME type is none")
        return cls(mime, content, about, replaces)


Body: TypeAlias = Merge | Note

_BODIES: dict[int, type[Merge | Note]] = {OperationKind.MERGE: Merge, OperationKind.NOTE: Note}


def read_body(operation: Operation) -> Body:
    """Parse what an operation says.

    Raises:
        MalformedError: of a kind that this Covey does not know, or not of its kind's shape.
        LimitError: beyond a bound.
    """
    body = _BODIES.get(operation.kind)
    if body is None:
        raise MalformedError(f"operation of kind {operation.kind}: a newer Covey?")
    return body.from_wire(operation.body)


def is_mime_type(text: str) -> bool:
    """Say whether a text can be a MIME type, perhaps with parameters (RFC 6838), in small letters."""
    kind, slash, rest = text.partition("/")
    return bool(kind and slash and rest) and _MIME.issuperset(text) and " " not in kind
