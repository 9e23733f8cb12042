"""Cryptography and reading that remember: what this process has signed verifies, and what it has sealed opens.

A world is every device at once, so nearly all that it verifies or opens was made a moment before beside it. Only what
is exactly the same bytes under the same keys is remembered; whatever was forged, flipped or cut goes to libsodium.
Operations are read again and again, too, by each look of each device: the same bytes say the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import ModuleType
from unittest.mock import patch

from covey.app.device import pins
from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import DeviceKey

_SIGNING_PUBLIC = slice(32, 64)
"""Of libsodium's secret key: what a signature really verifies under, whatever an identity claims."""


class Memory:
    """What the devices of one world have signed, verified and sealed."""

    def __init__(self) -> None:
        self._signed: set[tuple[bytes, bytes, bytes]] = set()
        self._sealed: dict[tuple[bytes, bytes, bytes, bytes], bytes] = {}
        self._public = lru_cache(maxsize=1_024)(_scalar_base)
        self._operations: dict[bytes, Operation] = {}
        self._bodies: dict[tuple[int, bytes], OperationBody] = {}

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Remember for a while."""
        with ExitStack() as stack:
            for name in ("sign", "verify_exactly", "box_seal", "box_open"):
                stack.enter_context(patch.object(crypto, name, getattr(self, name)))
            stack.enter_context(patch.object(crypto, "scalar_base", self._public))
            yield

    @contextmanager
    def reading_applied(self) -> Iterator[None]:
        """Remember for a while what operations say, wherever a loaded module reads them."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(pins, "operator_keys", lru_cache(pins.operator_keys)))
            for function, remembering in ((read_operation, self.read_operation), (read_body, self.read_body)):
                for module in _importers(function):
                    stack.enter_context(patch.object(module, function.__name__, remembering))
            yield

    def read_operation(self, raw: bytes, *, verify: bool = True) -> Operation:
        """Read an operation, unless its bytes were read before and are not to be verified."""
        found = None if verify else self._operations.get(raw)
        if found is None:
            found = self._operations[raw] = read_operation(raw, verify=verify)
        return found

    def read_body(self, operation: Operation) -> OperationBody:
        """Read what an operation says, unless another one said the same."""
        key = operation.kind, operation.body
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = read_body(operation)
        return found

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


def _importers(function: Callable[..., object]) -> list[ModuleType]:
    """Return the loaded modules of the product that have a function of another one by its name."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("covey.") and name != function.__module__ and vars(module).get(function.__name__) is function
    ]
