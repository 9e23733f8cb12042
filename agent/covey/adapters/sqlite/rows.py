"""What several tables share: digests of rows, and places of queues as keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from covey.core.wire.sequences import Range
from covey.errors import DamagedStateError, DecryptionError

if TYPE_CHECKING:
    from covey.adapters.keys.storage_key import StorageKey

_DIGEST_BYTES = 8
"""Against chance, not against people: who can write here has the keys, too."""

PLACE_BITS = 40
LAST_PLACE = (1 << PLACE_BITS) - 1
OF_PEER = f"outbox.id BETWEEN peer.id << {PLACE_BITS} AND peer.id << {PLACE_BITS} | {LAST_PLACE}"
"""Joins a recipient's row to its queue."""

OLDEST = f"SELECT queued_at FROM outbox WHERE {OF_PEER} ORDER BY outbox.id LIMIT 1"  # noqa: S608 - our names
"""When the first message of a recipient's queue was queued."""


def digest(*parts: object) -> bytes:
    """Return what shows that a row is as it was written: SQLite does not, and a worn card lies."""
    joined = b"".join([part if isinstance(part, bytes) else repr(part).encode() for part in parts])
    return hashlib.blake2b(joined, digest_size=_DIGEST_BYTES).digest()


def check_digest(stored: bytes, *parts: object) -> None:
    """Compare the digest of a row.

    Raises:
        DamagedStateError: the row is not what was written.
    """
    if stored != digest(*parts):
        raise DamagedStateError("a row of the state database is damaged")


def unwrapped(storage_key: StorageKey, stored: bytes, *bound_to: str | bytes) -> bytes:
    """Return the secret of a row, which was wrapped for its place.

    Raises:
        DamagedStateError: the row is not what was written.
    """
    try:
        return storage_key.unwrap(stored, *bound_to)
    except DecryptionError as error:
        raise DamagedStateError("a secret in the state database is damaged") from error


def read_ranges(stored: str | None) -> tuple[Range, ...]:
    """Return ranges that are stored as JSON; none where there is nothing."""
    return () if stored is None else tuple([(first, last) for first, last in json.loads(stored)])


def written_ranges(ranges: Sequence[Range]) -> str | None:
    """Return what `read_ranges` reads."""
    return json.dumps(ranges, separators=(",", ":")) if ranges else None


def drop_oldest(remembered: dict[Any, Any], most: int) -> None:
    """Forget what has been remembered for longest, where that is more than so many."""
    for key in list(islice(remembered, max(0, len(remembered) - most))):
        del remembered[key]


def extend(ranges: list[Range], first: int, last: int) -> None:
    """Add places to ascending ranges."""
    if ranges and ranges[-1][1] == first - 1:
        ranges[-1] = (ranges[-1][0], last)
    else:
        ranges.append((first, last))
