"""Functions of `tweetnacl` that Covey's firmware does not call. Reach them as `tweetnacl.crypto_sign`."""

nacl = None
"""The module `tweetnacl`, which sets it when it loads this one."""


def crypto_box_afternm(message, nonce, key):
    """Return the box of a message under a key that `crypto_box_beforenm` has returned."""
    return nacl.crypto_secretbox(message, nonce, key)


def crypto_box_open_afternm(box, nonce, key):
    """Return the message of a box under a key that `crypto_box_beforenm` has returned.

    Raises:
        CryptoError: it is not such a box.
    """
    return nacl.crypto_secretbox_open(box, nonce, key)


def crypto_scalarmult(n, p):
    """Return the 32 bytes that scalar n (32 bytes) and point p (32 bytes) share.

    Raises:
        CryptoError: p has small order, so that the result would not depend on n.
    """
    nacl._check_all((n, 32), (p, 32))
    shared = nacl._backend.scalarmult(n, p)
    if nacl._backend.verify_32(shared, bytes(32)):
        raise nacl.CryptoError("refused")
    return shared


def crypto_box(message, nonce, public, secret):
    """Return the box of a message for the holder of `public`; nonce 24 bytes.

    Raises:
        CryptoError: the public key has small order.
    """
    return nacl.crypto_secretbox(message, nonce, nacl.crypto_box_beforenm(public, secret))


def crypto_box_keypair():
    """Return a fresh public key and its secret key, 32 bytes each."""
    secret = nacl.randombytes(32)
    return nacl._backend.scalarmult_base(secret), secret


def crypto_sign_keypair():
    """Return a fresh public key (32 bytes) and its secret key (64 bytes)."""
    return nacl._backend.sign_seed_keypair(nacl.randombytes(32))


def crypto_sign(message, secret):
    """Return the signature followed by the message."""
    return nacl.crypto_sign_detached(message, secret) + message


def crypto_sign_open(signed, public):
    """Return the message behind a signature.

    Raises:
        CryptoError: the signature does not hold.
    """
    signed = bytes(nacl._checked(signed))
    message = signed[64:]
    nacl.crypto_sign_verify_detached(signed[:64], message, public)
    return message


def crypto_onetimeauth(message, key):
    """Return the 16-byte Poly1305 tag; a key (32 bytes) must never serve two messages."""
    nacl._check(key, 32)
    return nacl._backend.onetimeauth(nacl._checked(message), key)


def crypto_onetimeauth_verify(tag, message, key):
    """Return None if the tag holds.

    Raises:
        CryptoError: it does not.
    """
    if len(nacl._checked(tag)) != 16 or not nacl._backend.verify_16(crypto_onetimeauth(message, key), tag):
        raise nacl.CryptoError("refused")


def crypto_stream(length, nonce, key):
    """Return `length` bytes of the XSalsa20 stream; nonce 24 bytes, key 32 bytes."""
    return crypto_stream_xor(bytes(length), nonce, key)


def crypto_stream_xor(message, nonce, key):
    """Return the message under the XSalsa20 stream; nobody notices if it is changed on the way."""
    nacl._check_all((nonce, 24), (key, 32))
    return nacl._backend.stream_xor(nacl._checked(message), nonce, key)


def crypto_verify_16(x, y):
    """Say whether 16 bytes are equal (C says 0 or -1), in time that does not depend on where they differ."""
    nacl._check_all((x, 16), (y, 16))
    return nacl._backend.verify_16(x, y)


def crypto_verify_32(x, y):
    """Say whether 32 bytes are equal, in time that does not depend on where they differ."""
    nacl._check_all((x, 32), (y, 32))
    return nacl._backend.verify_32(x, y)
