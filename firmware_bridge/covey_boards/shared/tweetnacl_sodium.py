"""NaCl's primitives through PyNaCl, which `tweetnacl` uses on CPython.

PyNaCl binds neither XSalsa20's bare stream nor Poly1305's bare tag; `tweetnacl_soft` computes those.
"""

from nacl import bindings, exceptions

from .tweetnacl_soft import onetimeauth, stream_xor  # noqa: F401

IMPLEMENTATION = "libsodium"


def _of_bytes(function):
    """PyNaCl takes `bytes` alone, a board every buffer."""
    return lambda *arguments: function(*[bytes(argument) for argument in arguments])


scalarmult_base = _of_bytes(bindings.crypto_scalarmult_base)
secretbox = _of_bytes(bindings.crypto_secretbox)
sha512 = _of_bytes(bindings.crypto_hash)
sign_seed_keypair = _of_bytes(bindings.crypto_sign_seed_keypair)


@_of_bytes
def scalarmult(n, p):
    """Return n times p, or zeros for a point of small order, as TweetNaCl would."""
    try:
        return bindings.crypto_scalarmult(n, p)
    except exceptions.CryptoError:
        return bytes(32)


@_of_bytes
def box_beforenm(public, secret):
    """Return the key of a box, or None for a point of small order."""
    try:
        return bindings.crypto_box_beforenm(public, secret)
    except exceptions.CryptoError:
        return None


@_of_bytes
def secretbox_open(box, nonce, key):
    """Return the message, or None where the tag does not fit."""
    try:
        return bindings.crypto_secretbox_open(box, nonce, key)
    except exceptions.CryptoError:
        return None


@_of_bytes
def sign_detached(message, secret):
    """Return the 64-byte signature."""
    return bindings.crypto_sign(message, secret)[:64]


@_of_bytes
def sign_verify_detached(signature, message, public):
    """Say whether a signature holds."""
    try:
        bindings.crypto_sign_open(signature + message, public)
    except exceptions.CryptoError:
        return False
    return True


@_of_bytes
def verify_16(x, y):
    """Say whether 16 bytes are equal, in time that does not depend on where they differ."""
    return bindings.sodium_memcmp(x, y)


verify_32 = verify_16
