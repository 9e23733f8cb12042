"""The bodies of messages about a group's membership (docs/protocol/groups.md, "Group messages").

* `GROUP_MANIFEST`: `[[manifest, ...], [secret32, ...]]`: manifests, each after those that it follows, and epoch secrets
  that the recipient may have. A manifest names its epoch's secret by hash, so the recipient discards a wrong secret.
* `GROUP_PULL`: `[from_version]`: asks a member for the manifests from that version on, and for the epoch's secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from covey.core.ids import DeviceKey, GroupId
from covey.core.wire import cbor
from covey.core.wire.envelope import sealed_length
from covey.core.wire.message import MessageType
from covey.limits.group import BUNDLE_BYTES, BUNDLE_MANIFESTS, MAXIMUM_MANIFEST_BYTES
from covey.limits.message import MAXIMUM_MESSAGE_BYTES, MESSAGE_OVERHEAD_BYTES

SECRET_BYTES = 32
_SECRETS = 16


@dataclass(frozen=True, slots=True)
class GroupSend:
    """A message about a group that is to be queued in the same transaction.

    Without a lifetime it waits until it is acknowledged or withdrawn.
    """

    recipient: DeviceKey
    type: MessageType
    group_id: GroupId
    body: bytes = field(repr=False)
    lifetime_us: int | None = None


class Departed(NamedTuple):
    """A device that shares no group with this one any more; `is_owed` says that it is to be told by this one."""

    device: DeviceKey
    is_owed: bool


class Parted(NamedTuple):
    """A device that is no longer in a group together with this one; `is_out` says that it is this one that went."""

    group_id: GroupId
    device: DeviceKey
    is_out: bool


@dataclass(frozen=True, slots=True)
class Bundle:
    """Manifests, oldest first, and secrets."""

    manifests: tuple[bytes, ...]
    secrets: tuple[bytes, ...] = field(default=(), repr=False)

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([list(self.manifests), list(self.secrets)])

    @classmethod
    def from_wire(cls, body: bytes) -> Bundle:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_MESSAGE_BYTES),
                "group manifests",
                cbor.many(cbor.octets_to(MAXIMUM_MANIFEST_BYTES), BUNDLE_MANIFESTS),
                cbor.many(cbor.octets(SECRET_BYTES), _SECRETS),
            )
        )


def first_that_fit(manifests: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the first manifests that one message carries, at least one; the rest is asked for again."""
    size = 0
    for place, raw in enumerate(manifests):
        size += len(raw) + 5
        if place and (size > BUNDLE_BYTES or place >= BUNDLE_MANIFESTS):
            return tuple(manifests[:place])
    return tuple(manifests)


def payload_bytes(sizes: Iterable[int]) -> int:
    """Return how large a publish is at most that carries manifests of so many bytes and the secret of an epoch."""
    body = sum(size + 5 for size in sizes) + 3 + 3 + SECRET_BYTES + 2
    return sealed_length(body + MESSAGE_OVERHEAD_BYTES)


def first_within(manifests: Sequence[bytes], maximum_payload: int) -> tuple[bytes, ...]:
    """Return the first manifests that one message carries by a relay that takes so much; none if not even the first."""
    fitting = first_that_fit(manifests)
    while fitting and payload_bytes(map(len, fitting)) > maximum_payload:
        fitting = fitting[:-1]
    return fitting


def taken_at_once(manifests: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the manifests of one message that are read: of too many the first ones, and the last.

    The last one then follows something unknown, and what is missing is asked for.
    """
    if len(first_that_fit(manifests)) == len(manifests):
        return tuple(manifests)
    last, *first = first_that_fit((manifests[-1], *manifests[:-1]))
    return (*first, last)


def pull_to_wire(from_version: int) -> bytes:
    """Return the body of `GROUP_PULL`."""
    return cbor.encode_growing([from_version])


def pull_from_wire(body: bytes) -> int:
    """Parse the body of `GROUP_PULL`.

    Raises:
        RemoteError: malformed.
    """
    (from_version,) = cbor.record(cbor.decode_growing(body, 64), "group pull", cbor.uint())
    return int(from_version)
