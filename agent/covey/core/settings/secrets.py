"""Values of settings that only some devices can read (docs/protocol.md, "Settings", *Secret values*).

1. A value is sealed for the noise keys that the author's manifest lists for those whom it is for, and for nobody else:
   who joins later, or has wiped that key before it opened the value, cannot read it.
2. Each sealing draws an ephemeral key and a content key, which are used for nothing else.
3. It opens as what it was given as only: in that group, of that author, for that setting and selector.
4. How long a value is shows as a bucket only; who its recipients are, by their number only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from covey.core import crypto
from covey.core.crypto import NoiseKeys
from covey.core.history.orders import Scalar, read_scalar
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.errors import DecryptionError, LimitError, MalformedError, SettingError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.orders import MAXIMUM_SEALED_BYTES, MAXIMUM_SECRET_BYTES

_VERSION = 1
_CONTENT_KEY_BYTES = 32
_BOX_BYTES = _CONTENT_KEY_BYTES + crypto.SEAL_BYTES
_END = b"\x80"
_BUCKETS_BYTES = (64, 256, 1_024, 4_096, MAXIMUM_SECRET_BYTES)
"""What a value is padded to: a password, a token, a key, some keys, a chain of certificates."""


@dataclass(frozen=True, slots=True)
class SealedValue:
    """What an order has in place of a value, and what that is bound to: group, author, key and selector."""

    content: bytes = field(repr=False)
    binding: bytes = field(repr=False)

    @classmethod
    def of(cls, content: bytes, group_id: GroupId, author: DeviceKey, key: str, selector: Selector) -> SealedValue:
        """Return it as it stands in an order."""
        return cls(content, _binding(group_id, author, key, selector))

    def open(self, keys: NoiseKeys) -> Scalar:
        """Return the value.

        Raises:
            DecryptionError: it is not for these keys, or was given as something else.
            RemoteError: malformed, or beyond a bound.
        """
        ephemeral, boxes, ciphertext = _read(self.content)
        nonce = _nonce(ephemeral, self.binding)
        for key in keys.keys:
            shared = crypto.box_shared(ephemeral, key.secret.reveal())
            for start in range(0, len(boxes), _BOX_BYTES):
                try:
                    content_key = crypto.secretbox_open(boxes[start : start + _BOX_BYTES], nonce, shared)
                except DecryptionError:
                    continue
                return _unpadded(crypto.aead_open(ciphertext, self.binding, nonce, content_key))
        raise DecryptionError("sealed, and not for this device")


def seal_value(
    value: Scalar,
    recipients: Collection[NoisePublic],
    group_id: GroupId,
    author: DeviceKey,
    key: str,
    selector: Selector,
    rng: Callable[[int], bytes],
) -> bytes:
    """Return what stands in an order in place of a value that only these recipients can read.

    Raises:
        SettingError: the value is longer than the largest bucket, or there is nobody to read it.
    """
    if not recipients:
        raise SettingError("there is nobody who could read it", "setting_value")
    plain = cbor.encode(value) + _END
    bucket = next((each for each in _BUCKETS_BYTES if len(plain) <= each), None)
    if bucket is None:
        raise SettingError(f"a secret has at most {MAXIMUM_SECRET_BYTES - 4:,} bytes", "setting_value")
    binding = _binding(group_id, author, key, selector)
    ephemeral_secret, content_key = rng(KEY_BYTES), rng(_CONTENT_KEY_BYTES)
    ephemeral = crypto.scalar_base(ephemeral_secret)
    nonce = _nonce(ephemeral, binding)
    boxes = [crypto.box_seal(content_key, nonce, each, ephemeral_secret) for each in sorted(set(recipients))]
    ciphertext = crypto.aead_seal(plain.ljust(bucket, b"\0"), binding, nonce, content_key)
    return cbor.encode([_VERSION, ephemeral, b"".join(boxes), ciphertext])


def _binding(group_id: GroupId, author: DeviceKey, key: str, selector: Selector) -> bytes:
    return cbor.encode(["covey/1 secret", group_id, author, key, selector.to_wire()])


def _nonce(ephemeral: bytes, binding: bytes) -> bytes:
    """Return the nonce of every box, each under a key of its own, and of the value under the content key."""
    return crypto.digest(b"covey/1 secret", ephemeral + binding)[: crypto.NONCE_BYTES]


def _read(content: bytes) -> tuple[bytes, bytes, bytes]:
    version, ephemeral, boxes, ciphertext = cbor.record(
        cbor.decode(content, MAXIMUM_SEALED_BYTES),
        "sealed value",
        cbor.uint(255),
        cbor.octets(KEY_BYTES),
        cbor.octets_to(MAXIMUM_SEALED_BYTES),
        cbor.octets_to(MAXIMUM_SECRET_BYTES + crypto.SEAL_BYTES),
    )
    if version != _VERSION:
        raise MalformedError(f"a sealed value of version {version}: a newer Covey?")
    if not boxes or len(boxes) % _BOX_BYTES:
        raise MalformedError("the boxes of a sealed value are 48 bytes each, one at least")
    if len(boxes) > MAXIMUM_MEMBERS * _BOX_BYTES:
        raise LimitError(f"a value sealed for more than {MAXIMUM_MEMBERS} devices")
    if len(ciphertext) - crypto.SEAL_BYTES not in _BUCKETS_BYTES:
        raise MalformedError("a sealed value of no known size")
    return ephemeral, boxes, ciphertext


def _unpadded(plain: bytes) -> Scalar:
    content = plain.rstrip(b"\0")
    if not content.endswith(_END):
        raise MalformedError("a sealed value without an end")
    return read_scalar(cbor.decode(content[:-1], MAXIMUM_SECRET_BYTES))
