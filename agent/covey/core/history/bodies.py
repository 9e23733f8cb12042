"""Bodies of operations that members write, and `read_body` for every kind (docs/protocol/history.md, "History")."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from covey.core.history.body import OperationBody
from covey.core.history.kinds import FIRST_UNJUDGED, KINDS, OperationKind
from covey.core.history.operation import ID_BYTES, Operation, read_operation
from covey.core.ids import OperationId
from covey.core.wire import cbor
from covey.errors import MalformedError, RemoteError
from covey.limits.history import (
    MAXIMUM_AVATAR_BYTES,
    MAXIMUM_DESCRIPTION_BYTES,
    MAXIMUM_MIME_BYTES,
    MAXIMUM_OPERATION_BODY_BYTES,
    MAXIMUM_TITLE_BYTES,
    MAXIMUM_URI_BYTES,
)

_MIME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+/;= ")


@dataclass(frozen=True, slots=True)
class Merge(OperationBody):
    """Nothing: it only follows what no operation had followed."""

    kind = OperationKind.MERGE

    def to_wire(self) -> bytes:
        """Return the body, which is empty."""
        return cbor.encode_growing([])

    @classmethod
    def from_wire(cls, body: bytes) -> Merge:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        cbor.record(cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES), "merge")
        return cls()

    def shown(self) -> dict[str, Any]:
        """Return nothing: it has no words."""
        return {}


@dataclass(frozen=True, slots=True)
class Note(OperationBody):
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
        return cbor.encode_growing([self.mime, self.content, self.about, self.replaces])

    @classmethod
    def from_wire(cls, body: bytes) -> Note:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        mime, content, about, replaces = cbor.record(
            cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
            "note",
            cbor.text(MAXIMUM_MIME_BYTES),
            cbor.octets_to(MAXIMUM_OPERATION_BODY_BYTES),
            cbor.optional(cbor.octets(ID_BYTES)),
            cbor.optional(cbor.octets(ID_BYTES)),
        )
        if not is_mime_type(mime):
            raise MalformedError("the note's MIME type is invalid")
        return cls(mime, content, about, replaces)

    def shown(self) -> dict[str, Any]:
        """Return the text, or what is no text in base64."""
        readable = self.mime.startswith("text/")
        return {
            "mime": self.mime,
            "text": self.content.decode(errors="replace") if readable else None,
            "content": None if readable else b64encode(self.content).decode(),
            "bytes": len(self.content),
            "about": hex_or_none(self.about),
            "replaces": hex_or_none(self.replaces),
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """A group's avatar: an image of a MIME type."""

    mime: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupProfile(OperationBody):
    """What a group is called, what it is for, and its picture; the last one in the history's order holds."""

    title: str = ""
    description: str = ""
    avatar: Picture | None = None
    kind = OperationKind.PROFILE

    def to_wire(self) -> bytes:
        """Return the body `[title, description, [mime, content] / null]`."""
        avatar = None if self.avatar is None else [self.avatar.mime, self.avatar.content]
        return cbor.encode_growing([self.title, self.description, avatar])

    @classmethod
    def from_wire(cls, body: bytes) -> GroupProfile:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
                "group profile",
                cbor.text(MAXIMUM_TITLE_BYTES),
                cbor.text(MAXIMUM_DESCRIPTION_BYTES),
                cbor.optional(_picture),
            )
        )

    def shown(self) -> dict[str, Any]:
        """Return title and description."""
        return {"title": self.title, "text": self.description}


def _picture(value: object) -> Picture:
    mime, content = cbor.record(value, "avatar", cbor.text(MAXIMUM_MIME_BYTES), cbor.octets_to(MAXIMUM_AVATAR_BYTES))
    if not is_mime_type(mime) or not mime.startswith("image/"):
        raise MalformedError("an avatar must be an image")
    return Picture(mime, content)


@dataclass(frozen=True, slots=True)
class Session(OperationBody):
    """People at work on the fleet together: where they meet, since when; and in a second operation, until when.

    The second one repeats what the first one said, and names it as `begun`. Times are the author's wall clock.
    """

    uri: str
    started_at_us: int
    ended_at_us: int | None = None
    begun: OperationId | None = None
    kind = OperationKind.SESSION

    def to_wire(self) -> bytes:
        """Return the body `[uri, started_at, ended_at / null, begun / null]`."""
        return cbor.encode_growing([self.uri, self.started_at_us, self.ended_at_us, self.begun])

    @classmethod
    def from_wire(cls, body: bytes) -> Session:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        uri, started_at_us, ended_at_us, begun = cbor.record(
            cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
            "session",
            cbor.text(MAXIMUM_URI_BYTES),
            cbor.uint(),
            cbor.optional(cbor.uint()),
            cbor.optional(cbor.octets(ID_BYTES)),
        )
        if (ended_at_us is None) != (begun is None):
            raise MalformedError("the end of a session must name its start")
        if ended_at_us is not None and ended_at_us < started_at_us:
            raise MalformedError("the session ends before it starts")
        return cls(uri, started_at_us, ended_at_us, begun)

    def shown(self) -> dict[str, Any]:
        """Return where and when, and the operation that began it."""
        return {
            "uri": self.uri,
            "started_at_us": self.started_at_us,
            "ended_at_us": self.ended_at_us,
            "about": hex_or_none(self.begun),
        }


@dataclass(frozen=True, slots=True)
class Opaque(OperationBody):
    """What this build does not understand: an operation of a newer kind. It has no effect here."""

    number: int
    content: bytes = field(repr=False)

    def to_wire(self) -> bytes:
        """Return the body as it was signed."""
        return self.content

    @classmethod
    def from_wire(cls, body: bytes) -> Opaque:
        """Keep a body as it is, of no kind."""
        return cls(-1, body)

    def shown(self) -> dict[str, Any]:
        """Return that a newer Covey understands it, and how long it is."""
        size = len(self.content)
        return {"text": f"({size} bytes of kind {self.number}: a newer Covey understands them)", "bytes": size}


@cache
def _class_of(kind: OperationKind) -> type[OperationBody]:
    """Return the class of a kind's body; most devices never load most kinds, which saves memory."""
    module, _, name = KINDS[kind].body.partition(":")
    found: type[OperationBody] = getattr(import_module(module), name)
    return found


def read_body(operation: Operation) -> OperationBody:
    """Parse what an operation says; it is `Opaque` where this build does not understand it (`kinds.py`).

    Raises:
        RemoteError: of a kind of version 1, and malformed, beyond a bound, or with a field that must be understood.
    """
    if operation.kind not in KINDS:
        return Opaque(operation.kind, operation.body)
    try:
        return _class_of(OperationKind(operation.kind)).from_wire(operation.body)
    except RemoteError:
        if operation.kind < FIRST_UNJUDGED:
            raise
        return Opaque(operation.kind, operation.body)


def hex_or_none(operation_id: OperationId | None) -> str | None:
    """Return an id as programs read it."""
    return None if operation_id is None else operation_id.hex()


def is_mime_type(text: str) -> bool:
    """Say whether a text can be a MIME type, perhaps with parameters (RFC 6838), in small letters."""
    kind, slash, rest = text.partition("/")
    return bool(kind and slash and rest) and _MIME.issuperset(text) and " " not in kind


def read_profile(raw: bytes | None) -> GroupProfile:
    """Return how a group is described, by the last operation that does; empty where none has said anything."""
    body = GroupProfile() if raw is None else read_body(read_operation(raw, verify=False))
    assert isinstance(body, GroupProfile), "of that kind"
    return body
