"""Which sizes one relay accepts, learned from its answers and its disconnections.

A relay should announce the largest packet that it accepts. Some announce nothing and end the connection on a large
publish; so do proxies with a limit of their own. Sent again after each reconnection, that one message would block all
others forever. Rules:

    1. When a connection ends, the largest unanswered message may be the cause. From then on messages of its size are
       sent alone: after all others are answered, and with none next to them. So others pass, and the next disconnection
       has one possible cause.
    2. A relay that ends `HANG_UPS` connections in a row during a message that was alone does not accept that size. Nor
       does one that ends a connection with the reason "packet too large".
    3. A size that failed is refused for `REFUSED_SIZE_US`; then one message of that size is tried, alone. Another
       disconnection refuses it for twice as long, up to `REFUSED_SIZE_US_MAX`. An answer ends the refusal: the relay
       was fixed.
    4. A size that this relay has answered since the last loss is not suspected: the connection ended for another
       reason. Nor is anything below `SUSPECT_BYTES_MIN`, or a message that had waited for its answer for longer than
       `HANG_UP_WITHIN_US`: relays hang up on what they have just been sent.
    5. Divisible messages are divided to sizes that the relay has answered, or to half of the size that failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from covey.limits.link import (
    HANG_UP_WITHIN_US,
    HANG_UPS,
    REFUSED_SIZE_US,
    REFUSED_SIZE_US_MAX,
    SAME_SIZE_BYTES,
    SUSPECT_BYTES_MIN,
)


class SizeAdmission(Enum):
    """Whether a message may go to a relay now."""

    NOW = "it may go"
    ALONE_LATER = "it may go when nothing else is unanswered"
    AFTER_THE_SUSPECT = "nothing may go beside a message that the relay may hang up on"
    NEVER = "the relay does not take this size"


@dataclass(frozen=True, slots=True)
class _Sent:
    size: int
    at_us: int


class TakenSizes:
    """One relay's sizes; times are microseconds of the caller's clock."""

    def __init__(self) -> None:
        self._announced = 0
        self._unanswered: dict[int, _Sent] = {}
        self._answered_bytes = 0
        self._suspect_bytes: int | None = None
        self._hang_ups = 0
        self._refused_bytes: int | None = None
        self._refused_until_us = 0
        self._pause_us = REFUSED_SIZE_US

    @property
    def largest(self) -> int:
        """The largest envelope, in bytes, that the relay may take."""
        return self._announced if self._refused_bytes is None else min(self._announced, self._refused_bytes - 1)

    @property
    def divided(self) -> int:
        """The size, in bytes, to which content that can be divided is divided (rule 5)."""
        if self._refused_bytes is None:
            return self._announced
        return min(self.largest, max(self._answered_bytes, self._refused_bytes // 2))

    @property
    def refusal(self) -> tuple[int, int] | None:
        """The size, in bytes, from which on the relay refuses, and the next pause, in microseconds; None: nothing."""
        return None if self._refused_bytes is None else (self._refused_bytes, self._pause_us)

    def restore(self, refused_bytes: int, pause_us: int, now_us: int) -> None:
        """Take up a refusal that an earlier process learned: it lasts as long as its last pause once more."""
        self._refused_bytes = max(1, refused_bytes)
        self._pause_us = max(REFUSED_SIZE_US, min(pause_us, REFUSED_SIZE_US_MAX))
        self._refused_until_us = now_us + self._pause_us // 2

    def came_up(self, announced: int) -> None:
        """Note what the relay announces on a new connection."""
        self._announced = announced
        self._unanswered.clear()

    def admission(self, size: int, now_us: int) -> SizeAdmission:
        """Say whether a message may go now."""
        self._forget_refusal(now_us)
        if self._refused_bytes is not None and size >= self._refused_bytes:
            return SizeAdmission.NEVER
        suspect = self._suspect_bytes
        if suspect is None or not self._unanswered:
            return SizeAdmission.NOW
        if size >= suspect:
            return SizeAdmission.ALONE_LATER
        beside_it = any(sent.size >= suspect for sent in self._unanswered.values())
        return SizeAdmission.AFTER_THE_SUSPECT if beside_it else SizeAdmission.NOW

    def sent(self, handle: int, size: int, now_us: int) -> None:
        """Note that the relay's adapter took a message."""
        self._unanswered[handle] = _Sent(size, now_us)

    def answered(self, handle: int, *, taken: bool) -> None:
        """Note the relay's answer."""
        sent = self._unanswered.pop(handle, None)
        if sent is None or not taken:
            return
        size = sent.size
        self._answered_bytes = max(self._answered_bytes, size)
        if self._suspect_bytes is not None and size >= self._suspect_bytes:
            self._suspect_bytes, self._hang_ups = None, 0
            self._pause_us = REFUSED_SIZE_US

    def went_down(self, now_us: int, *, too_large: bool = False) -> int | None:
        """Note the end of a connection; return the size that the relay turns out not to take, if any."""
        unanswered, self._unanswered = self._unanswered.values(), {}
        sizes = [sent.size for sent in unanswered if now_us - sent.at_us <= HANG_UP_WITHIN_US]
        largest = max(sizes, default=0)
        if not largest or (largest < SUSPECT_BYTES_MIN and not too_large):
            return None
        if too_large:
            return self._refuse(largest, now_us)
        if self._suspect_bytes is not None and len(sizes) == 1 and largest >= self._suspect_bytes:
            self._hang_ups += 1
            return self._refuse(largest, now_us) if self._hang_ups >= HANG_UPS else None
        if largest <= self._answered_bytes:
            self._answered_bytes = 0  # the relay may have changed: the next loss over this size counts
        elif self._suspect_bytes is None or largest < self._suspect_bytes:
            self._suspect_bytes, self._hang_ups = largest, 0
        return None

    def _refuse(self, size: int, now_us: int) -> int:
        self._answered_bytes = min(self._answered_bytes, size - 1)
        self._refused_bytes = max(self._answered_bytes + 1, size - SAME_SIZE_BYTES)
        self._refused_until_us = now_us + self._pause_us
        self._pause_us = min(2 * self._pause_us, REFUSED_SIZE_US_MAX)
        self._suspect_bytes, self._hang_ups = None, 0
        return size

    def _forget_refusal(self, now_us: int) -> None:
        """Let one message of the refused size be tried once its time is over (rule 3)."""
        if self._refused_bytes is not None and now_us >= self._refused_until_us:
            self._suspect_bytes, self._hang_ups = self._refused_bytes, HANG_UPS - 1
            self._refused_bytes = None
