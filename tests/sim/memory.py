"""Cryptography that remembers: what this process has signed verifies, and what it has sealed opens.

A world is every device at once, so nearly all that it verifies or opens was made a moment before beside it. Only what
is exactly the same bytes under the same keys is remembered; whatever was forged, flipped or cut goes to libsodium.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from unittest.mock import patch

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey

_SIGNING_PUBLIC = slice(32, 64)
"""Of libsodium's secret key: what a signature really verifies under, whatever an identity claims."""


class Memory:
    """What the devices of one world have signed, verified and sealed."""

    def __init__(self) -> None:
        self._signed: set[tuple[bytes, bytes, bytes]] = set()
        self._sealed: dict[tuple[bytes, bytes, bytes, bytes], bytes] = {}
        self._public = lru_cache(maxsize=1_024)(_scalar_base)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Remember for a while."""
        with ExitStack() as stack:
            for name in ("sign", "verify_exactly", "box_seal", "box_open"):
                stack.enter_context(patch.object(crypto, name, getattr(self, name)))
            stack.enter_context(patch.object(crypto, "scalar_base", self._public))
            yield

    def sign(self, domain: bytes, content: bytes, identity: Identity) -> bytes:
        """Sign, and remember that it verifies."""
        signature = _sign(domain, content, identity)
        self._signed.add((domain + b"\0" + content, signature, identity.signing_secret[_SIGNING_PUBLIC]))
        return signature

    def verify_exactly(self, content: bytes, signature: bytes, signing_public: DeviceKey) -> None:
        """Verify, unless it did before."""
        key = (content, signature, signing_public)
        if key not in self._signed:
            _verify_exactly(content, signature, signing_public)
            self._signed.add(key)

    def box_seal(self, plaintext: bytes, nonce: bytes, recipient_public: bytes, sender_secret: bytes) -> bytes:
        """Seal, and remember what opens it."""
        sealed = _box_seal(plaintext, nonce, recipient_public, sender_secret)
        self._sealed[sealed, nonce, self._public(sender_secret), recipient_public] = plaintext
        return sealed

    def box_open(self, ciphertext: bytes, nonce: bytes, sender_public: bytes, recipient_secret: bytes) -> bytes:
        """Open what was sealed here, or try."""
        plaintext = self._sealed.get((ciphertext, nonce, sender_public, self._public(recipient_secret)))
        return _box_open(ciphertext, nonce, sender_public, recipient_secret) if plaintext is None else plaintext


_sign, _verify_exactly, _scalar_base = crypto.sign, crypto.verify_exactly, crypto.scalar_base
_box_seal, _box_open = crypto.box_seal, crypto.box_open
