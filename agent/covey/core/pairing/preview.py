"""The inviter's description of a group, shown before a person accepts the invitation (003.14, 003.58)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES, MAXIMUM_MEMBERS
from covey.limits.history import (
    MAXIMUM_AVATAR_BYTES,
    MAXIMUM_DESCRIPTION_BYTES,
    MAXIMUM_MIME_BYTES,
    MAXIMUM_TITLE_BYTES,
)
from covey.limits.pairing import NAMED_OPERATORS, PREVIEWED_MEMBERS

OPERATORS_BYTES = 8 + NAMED_OPERATORS * (KEY_BYTES + 8)
_DESCRIBED_BYTES = MAXIMUM_TITLE_BYTES + MAXIMUM_DESCRIPTION_BYTES + MAXIMUM_MIME_BYTES + MAXIMUM_AVATAR_BYTES
PREVIEW_BYTES = 96 + _DESCRIBED_BYTES + PREVIEWED_MEMBERS * (KEY_BYTES + MAXIMUM_LABEL_BYTES + 8)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """What a group is called, what it is for, and its picture: MIME type and content."""

    title: str = ""
    description: str = ""
    picture: tuple[str, bytes] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class GroupPreview:
    """How many members a group has, some of them (signing key and label), and how it is described."""

    title: str
    count: int
    members: tuple[tuple[DeviceKey, str], ...]
    description: str = ""
    picture: tuple[str, bytes] | None = field(default=None, repr=False)

    def to_wire(self) -> list[object]:
        """Return the array `[title, count, [[key, label], ...], description, [mime, content] / null]`."""
        picture = None if self.picture is None else list(self.picture)
        return [self.title, self.count, [[key, label] for key, label in self.members], self.description, picture]

    @classmethod
    def from_wire(cls, value: object) -> GroupPreview:
        """Parse the array.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                value,
                "preview",
                cbor.text(MAXIMUM_TITLE_BYTES),
                cbor.uint(MAXIMUM_MEMBERS),
                cbor.many(_member, PREVIEWED_MEMBERS),
                cbor.text(MAXIMUM_DESCRIPTION_BYTES),
                cbor.optional(_picture),
            )
        )


def read_operators(value: object) -> tuple[DeviceKey, ...]:
    """Read the operators that an inviter names: signing keys, ascending and distinct, one at least.

    Raises:
        RemoteError: malformed or beyond a bound.
    """
    found = cbor.many(cbor.octets(KEY_BYTES), NAMED_OPERATORS)(value)
    if not found or any(before >= after for before, after in pairwise(found)):
        raise MalformedError("operators must ascend and be distinct, at least one")
    return tuple(map(DeviceKey, found))


def _member(value: object) -> tuple[DeviceKey, str]:
    key, label = cbor.record(value, "member", cbor.octets(KEY_BYTES), cbor.text(MAXIMUM_LABEL_BYTES))
    return DeviceKey(key), label


def _picture(value: object) -> tuple[str, bytes]:
    mime, content = cbor.record(value, "picture", cbor.text(MAXIMUM_MIME_BYTES), cbor.octets_to(MAXIMUM_AVATAR_BYTES))
    if not mime.startswith("image/"):
        raise MalformedError("a picture that is none")
    return mime, content
