"""The key of a file that only some devices can open (docs/protocol.md, "Content", *For some alone*).

A secret of the file's own takes the place of the epoch's. It is sealed as `sealing.py` lays down, and opens as what it
was given for only: in that group, of that author, for that file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from covey.core.crypto import NoiseKeys
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.orders.sealing import open_sealed, seal
from covey.core.wire import cbor
from covey.errors import MalformedError

FILE_SECRET_BYTES = 32


def seal_file_secret(
    secret: bytes,
    readers: Collection[NoisePublic],
    group_id: GroupId,
    author: DeviceKey,
    file_id: bytes,
    rng: Callable[[int], bytes],
) -> bytes:
    """Return what stands in an offer, that only these readers can open."""
    assert len(secret) == FILE_SECRET_BYTES
    return seal(secret, readers, _binding(group_id, author, file_id), rng)


def open_file_secret(sealed: bytes, group_id: GroupId, author: DeviceKey, file_id: bytes, keys: NoiseKeys) -> bytes:
    """Return a file's secret.

    Raises:
        DecryptionError: it is not for these keys, or was sealed for another file.
        RemoteError: malformed, or beyond a bound.
    """
    secret = open_sealed(sealed, _binding(group_id, author, file_id), keys)
    if len(secret) != FILE_SECRET_BYTES:
        raise MalformedError("a file's secret of another length")
    return secret


def _binding(group_id: GroupId, author: DeviceKey, file_id: bytes) -> bytes:
    return cbor.encode(["covey/1 file", group_id, author, file_id])
