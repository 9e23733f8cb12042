"""Fetch one file or secret: choose the members to ask, and verify each part.

1. The index comes first, verified by its own hash; then the chunks, in order. Each chunk is verified by the index and
   stored before the next request. So a fetch continues where it ended, whichever member gives the rest.
2. One member is asked at a time. A member's turn ends if it lacks the file, is silent for `CONTENT_PULL_US`, or gives a
   chunk that is not of the file. Then the next one is asked; after `HOLDERS_TRIED` of them the fetch pauses, longer
   each time. A member that has given something is asked once more before its turn ends for silence, unless it gave no
   whole chunk for `CHUNK_PATIENCE_US`, however it drips. The fetch also pauses while the disk has no room.
3. A portion is what arrives in about a second: that keeps a fast link busy, and on a slow one other messages do not
   wait long. The next portion is requested when half of the last one is here.
4. Parts arrive in order, as relays preserve it. A part that does not begin where the one before ended is dropped, and
   its content requested again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from covey.core.content.messages import ContentPart, ContentPull, WantedFile
from covey.core.ids import ContentHash, DeviceKey
from covey.core.now import Now
from covey.errors import WrongContentError
from covey.limits.content import (
    CHUNK_BYTES,
    CHUNK_PATIENCE_US,
    CONTENT_PULL_BYTES,
    CONTENT_PULL_US,
    FETCH_REST_US,
    FIRST_PULL_BYTES,
    HOLDERS_TRIED,
    QUICK_PULL_US,
    SLOW_PULL_US,
)


class FetchProgress(Protocol):
    """What is here of what is fetched, and what of it comes next."""

    @property
    def hash(self) -> ContentHash:
        """By what it is asked for next."""

    @property
    def position(self) -> int:
        """The bytes that are here."""

    @property
    def end(self) -> int:
        """The bytes of what comes next."""

    @property
    def next_bytes(self) -> int:
        """How many bytes are verified at once next."""

    @property
    def has_index(self) -> bool:
        """Whether what comes next is the last that comes."""

    @property
    def is_complete(self) -> bool:
        """Whether all of it is here."""

    def keep(self, pieces: Sequence[bytes | memoryview], now_us: int) -> bool:
        """Keep what comes next; False where the disk has no room for it.

        Raises:
            WrongContentError: it is not that.
        """

    def synchronise(self) -> bool:
        """Wait until what is kept is on the disk; False where that refuses."""


class Portions:
    """What a holder was asked for and has not given yet, and how much to ask for next (rule 3)."""

    def __init__(self) -> None:
        self.size = FIRST_PULL_BYTES
        self._asked: deque[tuple[int, int]] = deque()

    @property
    def asked_to(self) -> int:
        """Up to which byte was asked for; 0: nothing is to come."""
        return self._asked[-1][0] if self._asked else 0

    def clear(self) -> None:
        """Expect nothing more."""
        self._asked.clear()

    def asked(self, end: int, now_us: int) -> None:
        """Note what was asked for, up to a byte."""
        self._asked.append((end, now_us))

    def came(self, end: int, now_us: int) -> None:
        """Note how far it has come."""
        while self._asked and end >= self._asked[0][0]:
            self._adapt(now_us - self._asked.popleft()[1])

    def _adapt(self, took_us: int) -> None:
        if took_us < QUICK_PULL_US:
            self.size = min(2 * self.size, CONTENT_PULL_BYTES)
        elif took_us > SLOW_PULL_US:
            self.size = max(self.size // 2, CHUNK_BYTES)


class Fetch:
    """Fetches one file. What is verified of it is `progress`; what has come of the next chunk is here."""

    def __init__(self, wanted: WantedFile, progress: FetchProgress) -> None:
        self.wanted = wanted
        self.progress = progress
        self._open = bytearray()
        self._tried: set[DeviceKey] = set()
        self._turns = 0
        self._rests_since_us = 0
        self._rest_us = CONTENT_PULL_US
        self._gives = False
        """Whether the holder has given something since it was asked last."""
        self._waits_until_us = 0
        self._chunk_since_us = 0
        """When the holder gave a whole chunk last, or had its turn."""
        self._portions = Portions()
        self.holder: DeviceKey | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all chunks are here."""
        return self.progress.is_complete

    @property
    def deadline_us(self) -> int:
        """When somebody is to be asked, if nothing comes before."""
        return self._waits_until_us

    def ask(self, candidates: Callable[[], Iterable[DeviceKey]], now: Now) -> ContentPull | None:
        """Return what is to be asked of `holder` now; None where the answer, or the end of a rest, is waited for."""
        if now.monotonic_us >= self._waits_until_us:
            if not self._choose(candidates(), now):
                return None
        elif self.holder is None or not self._is_running_low():
            return None
        pull = self._next_pull()
        return pull if pull.size else None

    def asked(self, pull: ContentPull, now: Now) -> None:
        """Note that the holder was asked."""
        self._portions.asked(pull.position + pull.size, now.monotonic_us)
        self._waits_until_us = now.monotonic_us + CONTENT_PULL_US

    def seen(self, device: DeviceKey, now: Now) -> None:
        """End a pause, unless it has just begun: the device that offers the file is online (003.75)."""
        if (
            self.holder is None
            and device == self.wanted.author
            and now.monotonic_us >= self._rests_since_us + CONTENT_PULL_US
        ):
            self._tried.discard(device)
            self._waits_until_us = 0

    def take(self, part: ContentPart, now: Now) -> bool:
        """Take what the holder gives; return whether it was of use.

        Raises:
            WrongContentError: it is not of the file.
        """
        if part.content is None:
            self.end_turn()
            return True
        progress = self.progress
        if part.position != self._position + len(self._open) or part.hash != progress.hash or not part.content:
            return False  # rule 4
        self._open += part.content
        self._portions.came(self._position + len(self._open), now.monotonic_us)
        patience_us = self._chunk_since_us + CHUNK_PATIENCE_US
        self._waits_until_us = min(now.monotonic_us + CONTENT_PULL_US, patience_us)
        self._gives, self._rest_us = now.monotonic_us < patience_us, CONTENT_PULL_US
        if len(self._open) < progress.next_bytes:
            return True
        chunk = bytes(self._open)
        self._open.clear()
        self._keep(chunk, now)
        return True

    def _keep(self, chunk: bytes, now: Now) -> None:
        had_index = self.progress.has_index
        try:
            kept = self.progress.keep([chunk], now.monotonic_us)
        except WrongContentError:
            self.end_turn()
            raise
        self._chunk_since_us = now.monotonic_us
        if not kept:
            self._rest(now)
        elif not had_index:
            self._portions.clear()

    def _choose(self, candidates: Iterable[DeviceKey], now: Now) -> bool:
        self._open.clear()
        self._portions.clear()
        if not self.progress.synchronise():
            self._rest(now)
            return False
        if self._gives:
            self._gives = False
            return True
        if self.holder is not None:
            self._tried.add(self.holder)
        self._turns += 1
        self._chunk_since_us = now.monotonic_us
        self.holder = next((each for each in candidates if each not in self._tried), None)
        if self.holder is not None and self._turns <= HOLDERS_TRIED:
            return True
        if self.holder is None:
            self._tried.clear()
        self._rest(now)
        return False

    def end_turn(self) -> None:
        """Have the next holder asked: this one has not what it should, or is no member any more."""
        self._gives, self._waits_until_us = False, 0

    def _rest(self, now: Now) -> None:
        self.holder, self._turns, self._gives = None, 0, False
        self._rests_since_us, self._waits_until_us = now.monotonic_us, now.monotonic_us + self._rest_us
        self._rest_us = min(2 * self._rest_us, FETCH_REST_US)

    def _is_running_low(self) -> bool:
        """Return whether so little of the request is outstanding that more may be requested."""
        return self._portions.asked_to - self._position - len(self._open) <= self._portions.size // 2

    def _next_pull(self) -> ContentPull:
        position = max(self._portions.asked_to, self._position + len(self._open))
        return ContentPull(self.progress.hash, position, max(0, min(self._portions.size, self.progress.end - position)))

    @property
    def _position(self) -> int:
        return self.progress.position
