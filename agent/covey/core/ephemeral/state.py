"""The content of an ephemeral message, and what a device remembers of received ones, in memory only."""

from __future__ import annotations

from collections import Counter, deque
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


class KeptEphemeral:
    """The messages received last, each with a number; `EPHEMERAL_KEPT` at most.

    Each author has its share: beyond the bound the author with the most messages loses its oldest.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, ReceivedEphemeral]] = deque()
        self.last_number = 0

    def add(self, received: ReceivedEphemeral) -> None:
        """Keep a message."""
        if len(self._kept) >= EPHEMERAL_KEPT:
            [(most, _)] = Counter(each.author for _, each in self._kept).most_common(1)
            del self._kept[next(at for at, (_, each) in enumerate(self._kept) if each.author == most)]
        self._kept.append((self.last_number + 1, received))
        self.last_number += 1

    def after(self, number: int) -> list[tuple[int, ReceivedEphemeral]]:
        """Return the messages with higher numbers, oldest first. Other threads may call this."""
        return [each for each in self._kept.copy() if each[0] > number] if number < self.last_number else []

    def take(self) -> list[ReceivedEphemeral]:
        """Remove and return all messages, oldest first."""
        found = [received for _, received in self._kept]
        self._kept.clear()
        return found


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
    received: KeptEphemeral = field(default_factory=KeptEphemeral)
