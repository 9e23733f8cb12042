"""The content of an ephemeral message, and what a device remembers of received ones, in memory only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from covey.core.ids import DeviceKey, GroupId
from covey.core.link.rates import TokenBucket
from covey.core.now import Now
from covey.core.wire import cbor
from covey.limits.ephemeral import (
    EPHEMERAL_KEPT,
    EPHEMERAL_PER_SECOND,
    EPHEMERAL_SAVED,
    EPHEMERAL_US,
    MAXIMUM_EPHEMERAL_BYTES,
)

_BODY_BYTES = MAXIMUM_EPHEMERAL_BYTES + 16


@dataclass(frozen=True, slots=True)
class Ephemeral:
    """The body of an EPHEMERAL: `content` is the application's, `said_at_us` the author's wall clock."""

    said_at_us: int
    content: bytes

    def to_wire(self) -> bytes:
        """Return the body `[said-at, content]`."""
        return cbor.encode_growing([self.said_at_us, self.content])

    @classmethod
    def from_wire(cls, body: bytes) -> Ephemeral:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, _BODY_BYTES),
                "ephemeral",
                cbor.uint(),
                cbor.octets_to(MAXIMUM_EPHEMERAL_BYTES),
            )
        )


@dataclass(frozen=True, slots=True)
class ReceivedEphemeral:
    """What a member of a group has said just now."""

    group_id: GroupId
    author: DeviceKey
    said_at_us: int
    content: bytes


@dataclass(slots=True)
class Waiting:
    """What no relay has taken for these yet; worthless from `until_us` of the monotonic clock on."""

    group_id: GroupId
    body: bytes
    until_us: int
    members: deque[DeviceKey]


class Author:
    """When an author has last said something, and how much it may (rules 1 to 3)."""

    def __init__(self) -> None:
        self.last_us = -1
        self._bucket = TokenBucket(EPHEMERAL_PER_SECOND, EPHEMERAL_SAVED)

    def is_recent(self, now: Now) -> bool:
        """Say whether it matters still when its last one was said: of another time nothing is taken."""
        return abs(self.last_us - now.wall_us) <= EPHEMERAL_US

    def wait_us(self, said_at_us: int) -> int:
        """Return how much later it would have to be said; 0 where it may be."""
        return self._bucket.wait_us(said_at_us)

    def said(self, said_at_us: int) -> None:
        """Note what was said."""
        self._bucket.spend(1, said_at_us)
        self.last_us = said_at_us


@dataclass(slots=True)
class EphemeralState:
    """What waits, what came and who said it: what a transaction that failed does not undo."""

    own: Author = field(default_factory=Author)
    authors: dict[DeviceKey, Author] = field(default_factory=dict)
    waiting: deque[Waiting] = field(default_factory=deque)
    received: deque[ReceivedEphemeral] = field(default_factory=lambda: deque(maxlen=EPHEMERAL_KEPT))
