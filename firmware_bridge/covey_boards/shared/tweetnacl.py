"""TweetNaCl's functions under TweetNaCl's names, with the same bytes on CPython and on MicroPython.

    box = crypto_box(message, nonce, their_public_key, my_secret_key)
    message = crypto_box_open(box, nonce, my_public_key, their_secret_key)

Lengths follow PyNaCl, not C: no leading zeros, a box is 16 bytes longer than its message. What C answers with -1
raises `CryptoError` here, one and the same for every reason; arguments of a wrong length raise `ValueError`.
Bytes are `bytes`, `bytearray` or a `memoryview` of them, on CPython and on boards; all else raises `TypeError`.

Who computes:

1. `_tweetnacl`, a native module of the port (C, or `natmod`), if there is one. It offers `IMPLEMENTATION` and the
   functions without underscore of `tweetnacl_soft`, with their arguments, results and refusals: the vectors in `hil/`
   judge it like the others.
2. PyNaCl, on CPython.
3. Viper, on MicroPython ports that compile or load it and have 32-bit words: constant in time for secret scalars.
4. Plain Python.

Not protected: plain Python takes time that depends on secrets (see `tweetnacl_plain`). Nothing here wipes secrets from
memory, and nothing resists a probe on the power line. Without a random source, `set_randombytes` has to be called
before a key pair is asked for.

Sources: "TweetNaCl: a crypto library in 100 tweets" (Bernstein and others, 2014), the NaCl documentation, libsodium for
what is refused: points of small order, signatures with S >= L, with a small-order A or R, or a non-canonical A.
"""

import gc
import sys


class CryptoError(ValueError):
    """A box, a tag, a signature or a point was refused. The reason is nobody's business."""


try:
    import _tweetnacl as _backend
except ImportError:
    if sys.implementation.name == "cpython":
        from . import tweetnacl_sodium as _backend
    else:
        import tweetnacl_soft as _backend

implementation = _backend.IMPLEMENTATION


# Random bytes

try:
    from os import urandom as _urandom
except ImportError:
    _urandom = None


def set_randombytes(source):
    """Make `source(n)` give all random bytes from here on: a port's `os.urandom`, or a board's noise."""
    global _urandom
    _urandom = source


def randombytes(n):
    """Return n random bytes.

    Raises:
        CryptoError: the port has no random source and none was set.
    """
    if _urandom is None:
        raise CryptoError("no random source")
    return _urandom(n)


def _checked(data):
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("bytes expected")
    return data


def _check(data, length):
    if len(_checked(data)) != length:
        raise ValueError("%d bytes expected, not %d" % (length, len(data)))


def _check_all(*pairs):
    for data, length in pairs:
        _check(data, length)


# crypto_scalarmult: X25519 (RFC 7748)


def crypto_scalarmult_base(n):
    """Return the public key (32 bytes) of scalar n (32 bytes)."""
    _check(n, 32)
    return _backend.scalarmult_base(n)


# crypto_secretbox: XSalsa20-Poly1305


def crypto_secretbox(message, nonce, key):
    """Return the box, 16 bytes longer than the message; nonce 24 bytes, key 32 bytes."""
    _check_all((nonce, 24), (key, 32))
    return _backend.secretbox(_checked(message), nonce, key)


def crypto_secretbox_open(box, nonce, key):
    """Return the message.

    Raises:
        CryptoError: it did not open.
    """
    _check_all((nonce, 24), (key, 32))
    message = _backend.secretbox_open(box, nonce, key) if len(_checked(box)) >= 16 else None
    if message is None:
        raise CryptoError("refused")
    return message


# crypto_box: X25519, then crypto_secretbox


def crypto_box_beforenm(public, secret):
    """Return the 32-byte key that a public and a secret key share: compute once, use for many messages.

    Raises:
        CryptoError: the public key has small order.
    """
    _check_all((public, 32), (secret, 32))
    key = _backend.box_beforenm(public, secret)
    if key is None:
        raise CryptoError("refused")
    return key


def crypto_box_open(box, nonce, public, secret):
    """Return the message that the holder of `public` sealed for us.

    Raises:
        CryptoError: it did not open, or the public key has small order.
    """
    return crypto_secretbox_open(box, nonce, crypto_box_beforenm(public, secret))


# crypto_sign: Ed25519 (RFC 8032)


def crypto_sign_seed_keypair(seed):
    """Return public key and secret key of a 32-byte seed."""
    _check(seed, 32)
    return _backend.sign_seed_keypair(seed)


def crypto_sign_detached(message, secret):
    """Return the 64-byte signature alone; secret key 64 bytes."""
    _check(secret, 64)
    return _backend.sign_detached(_checked(message), secret)


def crypto_sign_verify_detached(signature, message, public):
    """Return None if the signature holds.

    Raises:
        CryptoError: it does not.
    """
    _check(public, 32)
    _checked(message)
    if len(_checked(signature)) != 64 or not _backend.sign_verify_detached(signature, message, public):
        raise CryptoError("refused")


# crypto_hash: SHA-512


def crypto_hash(message):
    """Return the SHA-512 hash, 64 bytes."""
    return _backend.sha512(_checked(message))


def __getattr__(name):
    """Give what `tweetnacl_rest` and `tweetnacl_core` have, which boards seldom need, and so load late."""
    if name.startswith("crypto_"):
        for late in ("tweetnacl_rest", "tweetnacl_core"):
            gc.collect()  # or loading would scatter the heap
            if "." in __name__:
                module = __import__(__name__.rsplit(".", 1)[0] + "." + late, None, None, ("*",))
            else:
                module = __import__(late)
            module.nacl = sys.modules[__name__]
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(name)
