"""A device's report of the groups that it shares with another one (docs/protocol/groups.md, "Heads").

Every acknowledgement and every beat carries a digest of these groups in the place of the group id in other messages: 20
bytes and 12 zeros, or 32 zeros of a device that shares no group. A HEADS message carries it too, with its parts, group
by group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, GroupId, ManifestHash, NoisePublic, OperationId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_GROUPS

DIGEST_BYTES = 16
_HALF_BYTES = 10
SHARED_BYTES = 2 * _HALF_BYTES
_BODY_BYTES = 64 * 1_024
_FIELDS = 3
_FIELDS_WITH_HISTORY = 4


@dataclass(frozen=True, slots=True)
class GroupHead:
    """A device's state of one group: the highest version that it follows, and the digest of its heads.

    `history` is the digest of the heads of its history; None if the device does not report it.
    """

    group_id: GroupId
    version: int
    digest: bytes
    history: bytes | None = None


def head_digest(heads: Iterable[ManifestHash]) -> bytes:
    """Return the 16-byte digest of a group's heads, the manifests that none follows."""
    return crypto.digest(b"covey/1 heads", b"".join(sorted(heads)))[:DIGEST_BYTES]


def history_digest(heads: Iterable[OperationId]) -> bytes:
    """Return the 16-byte digest of a history's heads, the operations that none follows; also of none at all."""
    return crypto.digest(b"covey/1 op heads", b"".join(sorted(heads)))[:DIGEST_BYTES]


def shared_digest(heads: Iterable[GroupHead]) -> GroupId:
    """Return the digest in place of the group: 10 bytes of manifests, 10 of histories, 12 zeros; zeros of nothing."""
    in_order = sorted(heads, key=lambda each: each.group_id)
    manifests = b"".join(each.group_id + each.digest for each in in_order)
    histories = b"".join(each.group_id + each.history for each in in_order if each.history is not None)
    return GroupId((_half(manifests) + _half(histories)).ljust(GROUP_ID_BYTES, b"\0"))


def _half(said: bytes) -> bytes:
    return crypto.digest(b"covey/1 shared", said)[:_HALF_BYTES] if said else bytes(_HALF_BYTES)


def of_manifests(said: GroupId) -> GroupId:
    """Return what was said of manifests alone."""
    return GroupId(said[:_HALF_BYTES].ljust(GROUP_ID_BYTES, b"\0"))


def of_histories(said: GroupId) -> bytes:
    """Return what was said of histories: 10 bytes, zeros of nothing."""
    return said[_HALF_BYTES:SHARED_BYTES]


def agree(one: GroupId, other: GroupId) -> bool:
    """Say whether two devices have said the same, as far as both have said anything: a half of zeros says nothing."""
    first, second = slice(_HALF_BYTES), slice(_HALF_BYTES, SHARED_BYTES)
    halves = ((one[first], other[first]), (one[second], other[second]))
    return all(mine == theirs or not any(mine) or not any(theirs) for mine, theirs in halves)


@dataclass(frozen=True, slots=True)
class HeadsReport:
    """The body of a HEADS message: `wants_answer` asks for the recipient's own, whatever it is.

    `takes_tags` says that its author takes a `HISTORY_PULL` that names logs by tags. `opens` is the author's noise key.
    """

    wants_answer: bool
    heads: tuple[GroupHead, ...]
    takes_tags: bool = False
    opens: NoisePublic | None = None

    def to_wire(self) -> bytes:
        """Return the body `[answer, [[group id, version, digest, history], ...], tags, opens]`.

        `history` and `opens` are there only if reported, and `tags` only if true or followed by `opens`.
        """
        rest = [] if self.opens is None else [self.opens]
        tags = [self.takes_tags] if self.takes_tags or rest else []
        return cbor.encode_growing([self.wants_answer, [_to_wire(each) for each in self.heads], *tags, *rest])

    @classmethod
    def from_wire(cls, body: bytes) -> HeadsReport:
        """Parse the body. Fields that a later version adds, to it or to a head, are passed over.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        decoded = cbor.decode_growing(body, _BODY_BYTES)
        fields, rest = _first(decoded, 2), decoded[2:] if isinstance(decoded, list) else []
        wants_answer, heads = cbor.record(fields, "heads", cbor.boolean, cbor.many(_head, MAXIMUM_GROUPS))
        if len({each.group_id for each in heads}) != len(heads):
            raise MalformedError("the heads name a group twice")
        opens = None
        if len(rest) > 1:
            opens = NoisePublic(cbor.octets(KEY_BYTES)(rest[1]))
            crypto.check_noise_key(opens)
        return cls(wants_answer, heads, bool(rest) and rest[0] is True, opens)


def _to_wire(head: GroupHead) -> list[object]:
    history = [] if head.history is None else [head.history]
    return [head.group_id, head.version, head.digest, *history]


def _head(value: object) -> GroupHead:
    fields = cbor.octets(GROUP_ID_BYTES), cbor.uint(), cbor.octets(DIGEST_BYTES)
    history = (cbor.octets(DIGEST_BYTES),) if isinstance(value, list) and len(value) > _FIELDS else ()
    known = _first(value, _FIELDS_WITH_HISTORY if history else _FIELDS)
    return GroupHead(*cbor.record(known, "head", *fields, *history))


def _first(value: object, count: int) -> object:
    return value[:count] if isinstance(value, list) else value
