"""What an invitation shows of the group before anybody is in it: its inviter's word (003.14, 003.58)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES, MAXIMUM_MEMBERS
from covey.limits.history import MAXIMUM_TITLE_BYTES
from covey.limits.pairing import NAMED_OPERATORS, PREVIEWED_MEMBERS

OPERATORS_BYTES = 8 + NAMED_OPERATORS * (KEY_BYTES + 8)
PREVIEW_BYTES = 64 + MAXIMUM_TITLE_BYTES + PREVIEWED_MEMBERS * (KEY_BYTES + MAXIMUM_LABEL_BYTES + 8)


@dataclass(frozen=True, slots=True)
class GroupPreview:
    """A group's title, how many members it has, and some of them: signing key and label."""

    title: str
    count: int
    members: tuple[tuple[DeviceKey, str], ...]

    def to_wire(self) -> list[object]:
        """Return the array `[title, count, [[key, label], ...]]`."""
        return [self.title, self.count, [[key, label] for key, label in self.members]]

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
