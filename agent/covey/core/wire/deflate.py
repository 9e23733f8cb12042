"""Raw deflate (RFC 1951) of bytes whose inflated size is known, and is checked before and after."""

from __future__ import annotations

import zlib

from covey.errors import LimitError, MalformedError

_LEVEL = 6
_RAW = -zlib.MAX_WBITS


def deflate(content: bytes) -> bytes:
    """Return a raw deflate stream."""
    return zlib.compress(content, _LEVEL, _RAW)


def inflate(packed: bytes, size: int, what: str) -> bytes:
    """Inflate to exactly `size` bytes; never more, whatever the stream would give. `what` begins an error's text.

    Raises:
        LimitError: it gives more.
        MalformedError: no deflate stream, or one that gives less, or does not end with the bytes.
    """
    inflater = zlib.decompressobj(_RAW)
    try:
        content = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise MalformedError(f"{what}: not a deflate stream") from error
    if len(content) > size:
        raise LimitError(f"{what}: inflates to more than its stated length")
    if not inflater.eof or inflater.unused_data:
        raise MalformedError(f"{what}: the deflate stream does not end where it should")
    if len(content) != size:
        raise MalformedError(f"{what}: the stated length is wrong")
    return content
