"""The key under which a device's other secrets lie on its disk (ADR 136; docs/protocol/vault.md, section 14).

1. It follows from the signing seed. So what keeps the seed keeps everything: a seal, a passphrase, or nothing. Another
   way of keeping the seed changes no stored secret.
2. A stored secret is `nonce || sealed` and bound to its place, the table and the row's key or the file's name: moved
   elsewhere it does not open.
3. What does not open is damaged, and is treated as every other damage of its table or file.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.crypto import Secret
from covey.core.wire import cbor

if TYPE_CHECKING:
    from covey.core.crypto import Identity

_DOMAIN = b"covey/1 at rest"

WRAPPING_BYTES = crypto.NONCE_BYTES + crypto.SEAL_BYTES
"""What wrapping adds to a secret."""


class StorageKey:
    """Wraps secrets for the disk. It is never shown, and can be wiped."""

    __slots__ = ("_key",)

    def __init__(self, seed: bytes) -> None:
        """Derive it from a device's signing seed."""
        self._key = Secret(crypto.hkdf_sha256(seed, b"", _DOMAIN, 32))

    @classmethod
    def of(cls, identity: Identity) -> StorageKey:
        """Return a device's own."""
        return cls(identity.signing_seed)

    def wrap(self, content: bytes, *bound_to: str | bytes) -> bytes:
        """Return a secret as it is stored at the place that it is bound to."""
        nonce = secrets.token_bytes(crypto.NONCE_BYTES)
        return nonce + crypto.aead_seal(content, _associated(bound_to), nonce, self._key.reveal())

    def unwrap(self, stored: bytes, *bound_to: str | bytes) -> bytes:
        """Return what `wrap` stored there.

        Raises:
            DecryptionError: it is damaged, another device's or another place's.
        """
        nonce, sealed = stored[: crypto.NONCE_BYTES], stored[crypto.NONCE_BYTES :]
        return crypto.aead_open(sealed, _associated(bound_to), nonce, self._key.reveal())

    def wipe(self) -> None:
        """Overwrite it with zeros."""
        self._key.wipe()


def _associated(bound_to: tuple[str | bytes, ...]) -> bytes:
    return _DOMAIN + cbor.encode(list(bound_to))
