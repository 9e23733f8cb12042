"""Sealed values: parts of an order that only some devices can read (docs/protocol/history.md, "Settings", *Secret
values*).

1. A value is sealed for the noise keys of its targets in the author's manifest. A device that joins later, or has
   deleted that key before it opened the value, cannot read it.
2. Each sealing draws a fresh ephemeral key and content key.
3. A value opens only with the binding that it was sealed with: a text that names the purpose, and the rest of its
   order.
4. Its length shows only as a bucket, and its recipients only by their number.

A file that only some devices can open (docs/protocol/content.md, "Content", *For some alone*) has its own secret
instead of the epoch's. It is sealed in the same way, bound to its group, author and file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from covey.core import crypto
from covey.core.crypto import NoiseKeys
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.wire import cbor
from covey.errors import DecryptionError, LimitError, LocalError, MalformedError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.orders import MAXIMUM_SEALED_BYTES, MAXIMUM_SECRET_BYTES

_VERSION = 1
_CONTENT_KEY_BYTES = 32
_BOX_BYTES = _CONTENT_KEY_BYTES + crypto.SEAL_BYTES
_END = b"\x80"
_BUCKETS_BYTES = (64, 256, 1_024, 4_096, MAXIMUM_SECRET_BYTES)
"""What is padded to: a password, a token, a key, some keys, a chain of certificates."""


def seal(plain: bytes, recipients: Collection[NoisePublic], binding: bytes, rng: Callable[[int], bytes]) -> bytes:
    """Return what only these recipients can read, with that binding.

    Raises:
        LocalError: it is longer than the largest bucket, or there is nobody to read it.
    """
    if not recipients:
        raise LocalError("no device could read it")
    content = plain + _END
    bucket = next((each for each in _BUCKETS_BYTES if len(content) <= each), None)
    if bucket is None:
        raise LocalError(f"a secret must have at most {MAXIMUM_SECRET_BYTES - 4:,} bytes")
    ephemeral_secret, content_key = rng(KEY_BYTES), rng(_CONTENT_KEY_BYTES)
    ephemeral = crypto.scalar_base(ephemeral_secret)
    nonce = _nonce(ephemeral, binding)
    boxes = [crypto.box_seal(content_key, nonce, each, ephemeral_secret) for each in sorted(set(recipients))]
    ciphertext = crypto.aead_seal(content.ljust(bucket, b"\0"), binding, nonce, content_key)
    return cbor.encode([_VERSION, ephemeral, b"".join(boxes), ciphertext])


def open_sealed(sealed: bytes, binding: bytes, keys: NoiseKeys) -> bytes:
    """Return what was sealed.

    Raises:
        DecryptionError: it is not for these keys, or was sealed with another binding.
        RemoteError: malformed, or beyond a bound.
    """
    ephemeral, boxes, ciphertext = _read(sealed)
    nonce = _nonce(ephemeral, binding)
    for key in keys.keys:
        shared = crypto.box_shared(ephemeral, key.secret.reveal())
        for start in range(0, len(boxes), _BOX_BYTES):
            try:
                content_key = crypto.secretbox_open(boxes[start : start + _BOX_BYTES], nonce, shared)
            except DecryptionError:
                continue
            return _unpadded(crypto.aead_open(ciphertext, binding, nonce, content_key))
    raise DecryptionError("the value is sealed for other devices")


def _nonce(ephemeral: bytes, binding: bytes) -> bytes:
    """Return the nonce of every box, each under its own key, and of the content under its key."""
    return crypto.digest(b"covey/1 secret", ephemeral + binding)[: crypto.NONCE_BYTES]


def _read(sealed: bytes) -> tuple[bytes, bytes, bytes]:
    version, ephemeral, boxes, ciphertext = cbor.record(
        cbor.decode(sealed, MAXIMUM_SEALED_BYTES),
        "sealed value",
        cbor.uint(255),
        cbor.octets(KEY_BYTES),
        cbor.octets_to(MAXIMUM_SEALED_BYTES),
        cbor.octets_to(MAXIMUM_SECRET_BYTES + crypto.SEAL_BYTES),
    )
    if version != _VERSION:
        raise MalformedError(f"a sealed value of version {version}: a newer Covey?")
    if not boxes or len(boxes) % _BOX_BYTES:
        raise MalformedError("a sealed value must have boxes of 48 bytes, at least one")
    if len(boxes) > MAXIMUM_MEMBERS * _BOX_BYTES:
        raise LimitError(f"a value sealed for more than {MAXIMUM_MEMBERS} devices")
    if len(ciphertext) - crypto.SEAL_BYTES not in _BUCKETS_BYTES:
        raise MalformedError("the sealed value has an unknown size")
    return ephemeral, boxes, ciphertext


def _unpadded(content: bytes) -> bytes:
    plain = content.rstrip(b"\0")
    if not plain.endswith(_END):
        raise MalformedError("the sealed value has no end")
    return plain[: -len(_END)]


FILE_SECRET_BYTES = 32


def seal_file_secret(
    secret: bytes,
    readers: Collection[NoisePublic],
    group_id: GroupId,
    author: DeviceKey,
    file_id: bytes,
    rng: Callable[[int], bytes],
) -> bytes:
    """Return an offer's sealed secret, which only these readers can open."""
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
        raise MalformedError("the file's secret has another length")
    return secret


def _binding(group_id: GroupId, author: DeviceKey, file_id: bytes) -> bytes:
    return cbor.encode(["covey/1 file", group_id, author, file_id])
