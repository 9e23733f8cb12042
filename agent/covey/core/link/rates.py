"""Token buckets: how much a device processes of what arrives (002.35; docs/protocol/core.md, "The link", Receiving).

1. There is one bucket for all authors together and one for each author. An envelope with news costs little, one without
   news much: honest senders never meet a bound, however fast they send, and others soon do.
2. An author pays only for what it has signed, so no author uses up another's tokens.
3. If an author has no tokens, its envelopes are dropped before signature verification. The relay forgets them, and they
   are not acknowledged: an honest author sends them again.
4. If the common bucket is empty, nothing more is opened until it refills; envelopes stay with the relay.
5. Levels may fall below zero by the cost of one turn. All of it is in memory, bounded, and survives a node.
"""

from __future__ import annotations

from covey.core.ids import DeviceKey
from covey.limits.rate import (
    ALL_TOKENS,
    ALL_TOKENS_PER_SECOND,
    AUTHOR_TOKENS,
    AUTHOR_TOKENS_PER_SECOND,
    RATED_AUTHORS,
)


class TokenBucket:
    """So many tokens a second, up to a bound; full at first."""

    def __init__(self, per_second: int, most: int) -> None:
        self._per_second = per_second
        self._most = most * 1_000_000
        self._level = self._most  # in millionths: what a microsecond brings is then a whole number
        self._at_us = 0

    def spend(self, tokens: int, now_us: int) -> None:
        """Take tokens out, down to less than nothing."""
        self._refill(now_us)
        self._level -= tokens * 1_000_000

    def wait_us(self, now_us: int) -> int:
        """Return how long it is until there is a token; 0 where there is one."""
        self._refill(now_us)
        return max(0, -((self._level - 1_000_000) // self._per_second))

    def next_us(self) -> int:
        """Return when there is a token, in monotonic microseconds; a time that is over where there is one."""
        return self._at_us + max(0, -((self._level - 1_000_000) // self._per_second))

    def holds(self, tokens: int, now_us: int) -> bool:
        """Say whether there are so many tokens."""
        self._refill(now_us)
        return self._level >= tokens * 1_000_000

    def is_full(self, now_us: int) -> bool:
        """Say whether nothing was taken lately."""
        self._refill(now_us)
        return self._level >= self._most

    def _refill(self, now_us: int) -> None:
        if now_us > self._at_us:
            self._level = min(self._most, self._level + (now_us - self._at_us) * self._per_second)
            self._at_us = now_us


class ReceivingRates:
    """The buckets of one device."""

    def __init__(self) -> None:
        self._all = TokenBucket(ALL_TOKENS_PER_SECOND, ALL_TOKENS)
        self._authors: dict[bytes, TokenBucket] = {}

    def spend(self, author: DeviceKey | None, tokens: int, now_us: int) -> None:
        """Let an envelope be paid for; `author` is known only where its signature verified (rule 2)."""
        self._all.spend(tokens, now_us)
        if author is None:
            return
        bucket = self._authors.pop(author, None) or TokenBucket(AUTHOR_TOKENS_PER_SECOND, AUTHOR_TOKENS)
        self._authors[author] = bucket  # the last one that was heard
        if len(self._authors) > RATED_AUTHORS:
            del self._authors[next(iter(self._authors))]
        bucket.spend(tokens, now_us)

    def exhausted(self, author: DeviceKey, now_us: int) -> bool:
        """Say whether an author has no token left (rule 3)."""
        bucket = self._authors.get(author)
        return bucket is not None and bucket.wait_us(now_us) > 0

    def wait_us(self, now_us: int) -> int:
        """Return how long nothing may be opened (rule 4)."""
        return self._all.wait_us(now_us)
