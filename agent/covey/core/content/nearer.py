"""One file from a source that delivers bytes in order: a peer of the same network, or an object store.

The source is asked for a range; its answer is cut into chunks, and each is verified before it is stored. It may give no
more than requested, and one wrong byte ends its turn. Whole chunks are not copied: they are hashed and written from
where they arrived.

`look_us` decides when members at a relay are asked for a file that nearby sources may have:

1. While a file is looked for nearby, no member is asked for it, from the moment it is wanted.
2. If there are peers, or the search for them still runs, that lasts a bounded time even if none of them has the file.
   The time is derived from this device's key and the file's hash. So among many devices that want a file at once one
   asks the relay first; the others look again, see that it does, and wait for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from enum import Enum

from covey.core.content.progress import FileProgress
from covey.core.ids import ContentHash, DeviceKey
from covey.errors import CoveyError, WrongContentError
from covey.limits.content import NEAR_LOOK_SPREAD_US, NEAR_LOOK_US

Reader = Callable[[ContentHash, int, int], Iterable[bytes | memoryview] | None]
"""Gives the bytes of what has a hash, from one position to another one; None where that is not there. Each piece holds
until the next one is taken.

Raises what a `CoveyError` is where they end before."""


class NearEnd(Enum):
    """How one place's turn has ended."""

    WHOLE = "all is here"
    ABSENT = "it does not have the file"
    BROKEN = "it gave less than it was asked for"
    WRONG = "it gave what is not of the file"
    NO_ROOM = "the disk has no room"
    STOPPED = "nobody wants the file any more"


def read_from(
    read: Reader, progress: FileProgress, is_wanted: Callable[[], bool], now_us: Callable[[], int]
) -> NearEnd:
    """Take from one place what is not here of a file; say how that has ended. What came is kept, whatever ends it."""
    end = _read(read, progress, is_wanted, now_us)
    return end if progress.synchronise() else NearEnd.NO_ROOM


def _read(read: Reader, progress: FileProgress, is_wanted: Callable[[], bool], now_us: Callable[[], int]) -> NearEnd:
    try:
        while not progress.is_complete:
            pieces = read(progress.hash, 0 if not progress.has_index else progress.position, progress.end)
            if pieces is None:
                return NearEnd.ABSENT
            end = _take(pieces, progress, is_wanted, now_us)
            if end is not None:
                return end
    except WrongContentError:
        return NearEnd.WRONG
    except CoveyError:
        return NearEnd.BROKEN
    return NearEnd.WHOLE


def _take(
    pieces: Iterable[bytes | memoryview],
    progress: FileProgress,
    is_wanted: Callable[[], bool],
    now_us: Callable[[], int],
) -> NearEnd | None:
    had_index, opened = progress.has_index, b""
    for piece in pieces:
        size = len(opened) + len(piece)
        if size > progress.end - progress.position:
            return NearEnd.WRONG  # more than it was asked for
        whole = progress.whole_bytes(size)
        if whole:
            left = memoryview(piece)[whole - len(opened) :]
            if not progress.keep([opened, memoryview(piece)[: whole - len(opened)]], now_us()):
                return NearEnd.NO_ROOM
            if progress.has_index is not had_index or progress.is_complete:
                return None
            opened = bytes(left)
        else:
            opened += piece
        if not is_wanted():
            return NearEnd.STOPPED
    return NearEnd.BROKEN


_DRAWN_BYTES = 8


def look_us(own: DeviceKey, content: ContentHash, *, has_peers: bool) -> int:
    """Return how long a device looks for a file nearby before it asks members, in microseconds."""
    if not has_peers:
        return 0
    drawn = hashlib.blake2b(own + content, digest_size=_DRAWN_BYTES).digest()
    return NEAR_LOOK_US + int.from_bytes(drawn, "big") % NEAR_LOOK_SPREAD_US
