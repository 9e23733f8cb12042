"""What a device says of the groups that it shares with another one (docs/protocol.md, "Heads").

Every acknowledgement and every beat has a digest of them where other messages name their group: 32 bytes that were
zeros before, and are for who shares nothing. A HEADS message has it too, and tells what it is made of, group by group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, GroupId, ManifestHash
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_GROUPS

DIGEST_BYTES = 16
_HISTORY = bytes(GROUP_ID_BYTES - DIGEST_BYTES)
_BODY_BYTES = 64 * 1_024
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class GroupHead:
    """Where one group stands at a device: the highest version that it follows, and the digest of its heads."""

    group_id: GroupId
    version: int
    digest: bytes


def head_digest(heads: Iterable[ManifestHash]) -> bytes:
    """Return the 16-byte digest of a group's heads, the manifests that none follows."""
    return crypto.digest(b"covey/1 heads", b"".join(sorted(heads)))[:DIGEST_BYTES]


def shared_digest(heads: Iterable[GroupHead]) -> GroupId:
    """Return what stands in the place of the group: 16 bytes of manifests, and 16 of histories, zeros as yet."""
    said = b"".join(each.group_id + each.digest for each in sorted(heads, key=lambda each: each.group_id))
    if not said:
        return GroupId(bytes(GROUP_ID_BYTES))
    return GroupId(crypto.digest(b"covey/1 shared", said)[:DIGEST_BYTES] + _HISTORY)


def agree(one: GroupId, other: GroupId) -> bool:
    """Say whether two devices have said the same, as far as both have said anything: a half of zeros says nothing."""
    halves = ((one[:DIGEST_BYTES], other[:DIGEST_BYTES]), (one[DIGEST_BYTES:], other[DIGEST_BYTES:]))
    return all(mine == theirs or not any(mine) or not any(theirs) for mine, theirs in halves)


@dataclass(frozen=True, slots=True)
class HeadsReport:
    """The body of a HEADS message: `wants_answer` asks for the recipient's own, whatever it is."""

    wants_answer: bool
    heads: tuple[GroupHead, ...]

    def to_wire(self) -> bytes:
        """Return the body `[answer, [[group id, version, digest], ...]]`."""
        return cbor.encode([self.wants_answer, [[each.group_id, each.version, each.digest] for each in self.heads]])

    @classmethod
    def from_wire(cls, body: bytes) -> HeadsReport:
        """Parse the body. Fields that a later version adds, to it or to a head, are passed over.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields = _first(cbor.decode(body, _BODY_BYTES), 2)
        wants_answer, heads = cbor.record(fields, "heads", cbor.boolean, cbor.many(_head, MAXIMUM_GROUPS))
        if len({each.group_id for each in heads}) != len(heads):
            raise MalformedError("heads that name a group twice")
        return cls(wants_answer, heads)


def _head(value: object) -> GroupHead:
    fields = cbor.octets(GROUP_ID_BYTES), cbor.uint(), cbor.octets(DIGEST_BYTES)
    group_id, version, digest = cbor.record(_first(value, _FIELDS), "head", *fields)
    return GroupHead(GroupId(group_id), version, digest)


def _first(value: object, count: int) -> object:
    return value[:count] if isinstance(value, list) else value
