"""What the core needs and a browser has not: PyNaCl's bindings, cbor2, and the counts of written bytes.

1. `nacl` calls libsodium, compiled to WebAssembly, through JavaScript.
2. `cbor2` reads and writes what `core/wire/cbor.py` allows, which checks everything else by encoding it again.
3. `install` puts them in place before the core is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _SIMPLE = 0, 1, 2, 3, 4, 5, 7
_CONSTANTS = {20: False, 21: True, 22: None}


class CryptoError(Exception):
    """What PyNaCl raises where something does not open or verify."""


def install(sodium: Any, to_js: Callable[[bytes], Any]) -> None:
    """Offer libsodium (libsodium-wrappers, ready) to the core; `to_js` makes a Uint8Array of bytes."""

    def call(name: str, *arguments: Any) -> bytes:
        given = [to_js(bytes(each)) if isinstance(each, bytes | bytearray | memoryview) else each for each in arguments]
        try:
            result = getattr(sodium, name)(*given)
        except Exception as error:  # whatever JavaScript throws: wrong keys and wrong sizes alike
            raise CryptoError(name) from error
        return bytes(result.to_py())

    def pair(seed: bytes) -> tuple[bytes, bytes]:
        keys = sodium.crypto_sign_seed_keypair(to_js(bytes(seed)))
        return bytes(keys.publicKey.to_py()), bytes(keys.privateKey.to_py())

    bindings: Any = ModuleType("nacl.bindings")
    bindings.crypto_box = lambda message, nonce, public, secret: call("crypto_box_easy", message, nonce, public, secret)
    bindings.crypto_box_open = lambda sealed, nonce, public, secret: call(
        "crypto_box_open_easy", sealed, nonce, public, secret
    )
    bindings.crypto_box_beforenm = lambda public, secret: call("crypto_box_beforenm", public, secret)
    bindings.crypto_scalarmult_base = lambda secret: call("crypto_scalarmult_base", secret)
    bindings.crypto_secretbox = lambda message, nonce, key: call("crypto_secretbox_easy", message, nonce, key)
    bindings.crypto_secretbox_open = lambda sealed, nonce, key: call("crypto_secretbox_open_easy", sealed, nonce, key)
    bindings.crypto_sign = lambda message, secret: call("crypto_sign", message, secret)
    bindings.crypto_sign_open = lambda signed, public: call("crypto_sign_open", signed, public)
    bindings.crypto_sign_seed_keypair = pair
    bindings.crypto_sign_ed25519_pk_to_curve25519 = lambda key: call("crypto_sign_ed25519_pk_to_curve25519", key)
    bindings.crypto_sign_ed25519_sk_to_curve25519 = lambda key: call("crypto_sign_ed25519_sk_to_curve25519", key)
    bindings.crypto_aead_xchacha20poly1305_ietf_encrypt = lambda message, extra, nonce, key: call(
        "crypto_aead_xchacha20poly1305_ietf_encrypt", message, extra, None, nonce, key
    )
    bindings.crypto_aead_xchacha20poly1305_ietf_decrypt = lambda sealed, extra, nonce, key: call(
        "crypto_aead_xchacha20poly1305_ietf_decrypt", None, sealed, extra, nonce, key
    )
    exceptions: Any = ModuleType("nacl.exceptions")
    exceptions.CryptoError = CryptoError
    package: Any = ModuleType("nacl")
    package.bindings, package.exceptions = bindings, exceptions
    cbor2: Any = ModuleType("cbor2")
    cbor2.CBORError, cbor2.dumps, cbor2.loads = CBORError, lambda value, canonical: _encoded(value), _loads  # noqa: ARG005 - cbor2's own name
    resource: Any = ModuleType("resource")
    resource.RUSAGE_THREAD, resource.getrusage = 1, lambda _who: SimpleNamespace(ru_oublock=0)
    sys.modules |= {"cbor2": cbor2, "resource": resource}
    sys.modules |= {"nacl": package, "nacl.bindings": bindings, "nacl.exceptions": exceptions}


class CBORError(ValueError):
    """What does not parse."""


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    for place, size in enumerate((1, 2, 4, 8)):
        if argument < 1 << 8 * size:
            return bytes([major << 5 | 24 + place]) + argument.to_bytes(size, "big")
    raise OverflowError(argument)


def _encoded(value: Any) -> bytes:
    """Return the deterministic encoding, keys of maps shortest first."""
    if value is None or isinstance(value, bool):
        return bytes([_SIMPLE << 5 | next(code for code, each in _CONSTANTS.items() if each is value)])
    if isinstance(value, int):
        return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _head(_BYTES, len(value)) + bytes(value)
    if isinstance(value, str):
        text = value.encode()
        return _head(_TEXT, len(text)) + text
    if isinstance(value, list | tuple):
        return _head(_ARRAY, len(value)) + b"".join(map(_encoded, value))
    if isinstance(value, dict):
        pairs = sorted(((_encoded(key), each) for key, each in value.items()), key=lambda pair: (len(pair[0]), pair[0]))
        return _head(_MAP, len(value)) + b"".join(key + _encoded(each) for key, each in pairs)
    raise TypeError(f"no CBOR for {type(value).__name__}")


def _loads(raw: bytes) -> Any:
    value, end = _item(bytes(raw), 0)
    if end != len(raw):
        raise CBORError("more than one item")
    return value


def _item(raw: bytes, at: int) -> tuple[Any, int]:
    if at >= len(raw):
        raise CBORError("the end is missing")
    major, argument = raw[at] >> 5, raw[at] & 31
    at += 1
    if major == _SIMPLE:
        if argument not in _CONSTANTS:
            raise CBORError("no constant")
        return _CONSTANTS[argument], at
    if argument >= 24:
        size = 1 << argument - 24
        if size > 8 or at + size > len(raw):
            raise CBORError("no length")
        argument, at = int.from_bytes(raw[at : at + size], "big"), at + size
    if major in {_UNSIGNED, _NEGATIVE}:
        return (argument if major == _UNSIGNED else -1 - argument), at
    if major in {_BYTES, _TEXT}:
        if at + argument > len(raw):
            raise CBORError("the end is missing")
        content = raw[at : at + argument]
        return (content if major == _BYTES else content.decode()), at + argument
    return _items(raw, at, major, argument)


def _items(raw: bytes, at: int, major: int, count: int) -> tuple[Any, int]:
    """Read what an array or a map of so many items holds."""
    if major not in {_ARRAY, _MAP}:
        raise CBORError("a tag")
    items = []
    for _ in range(count * (1 + (major == _MAP))):
        each, at = _item(raw, at)
        items.append(each)
    return (items if major == _ARRAY else dict(zip(items[::2], items[1::2], strict=True))), at
