"""Parts of tweetnacl.h for builders of other constructions: its constants, and the cores below the boxes.

Reach them as `tweetnacl.crypto_core_salsa20`. Names and values are those of tweetnacl.h; its `crypto_*_REF` names and
versions are left out, and results are returned, where C writes into a buffer.
"""

try:
    from . import tweetnacl_soft as _soft
except ImportError:
    import tweetnacl_soft as _soft

nacl = None
"""The module `tweetnacl`, which sets it when it loads this one."""

_symmetric = _soft._symmetric
_SIGMA = b"expand 32-byte k"

crypto_box_PRIMITIVE = "curve25519xsalsa20poly1305"
crypto_box_PUBLICKEYBYTES = 32
crypto_box_SECRETKEYBYTES = 32
crypto_box_BEFORENMBYTES = 32
crypto_box_NONCEBYTES = 24
crypto_box_ZEROBYTES = 32  # C's padding; no function here takes or gives it, a box is their difference longer
crypto_box_BOXZEROBYTES = 16
crypto_core_salsa20_OUTPUTBYTES = 64
crypto_core_salsa20_INPUTBYTES = 16
crypto_core_salsa20_KEYBYTES = 32
crypto_core_salsa20_CONSTBYTES = 16
crypto_core_hsalsa20_OUTPUTBYTES = 32
crypto_core_hsalsa20_INPUTBYTES = 16
crypto_core_hsalsa20_KEYBYTES = 32
crypto_core_hsalsa20_CONSTBYTES = 16
crypto_hash_PRIMITIVE = "sha512"
crypto_hash_BYTES = 64
crypto_hashblocks_PRIMITIVE = "sha512"
crypto_hashblocks_STATEBYTES = 64
crypto_hashblocks_BLOCKBYTES = 128
crypto_onetimeauth_PRIMITIVE = "poly1305"
crypto_onetimeauth_BYTES = 16
crypto_onetimeauth_KEYBYTES = 32
crypto_scalarmult_PRIMITIVE = "curve25519"
crypto_scalarmult_BYTES = 32
crypto_scalarmult_SCALARBYTES = 32
crypto_secretbox_PRIMITIVE = "xsalsa20poly1305"
crypto_secretbox_KEYBYTES = 32
crypto_secretbox_NONCEBYTES = 24
crypto_secretbox_ZEROBYTES = 32
crypto_secretbox_BOXZEROBYTES = 16
crypto_sign_PRIMITIVE = "ed25519"
crypto_sign_BYTES = 64
crypto_sign_PUBLICKEYBYTES = 32
crypto_sign_SECRETKEYBYTES = 64
crypto_stream_PRIMITIVE = "xsalsa20"
crypto_stream_KEYBYTES = 32
crypto_stream_NONCEBYTES = 24
crypto_stream_salsa20_KEYBYTES = 32
crypto_stream_salsa20_NONCEBYTES = 8
crypto_verify_16_BYTES = 16
crypto_verify_32_BYTES = 32


def _salsa20(block, key, constant):
    """Return the 64 bytes that go into Salsa20's rounds, and what comes out of them."""
    nacl._check_all((block, 16), (key, 32), (constant, 16))
    c, k = bytes(constant), bytes(key)
    start = c[:4] + k[:16] + c[4:8] + bytes(block) + c[8:12] + k[16:] + c[12:]
    if _soft.IMPLEMENTATION == "viper":
        x = bytearray(start)
        _symmetric._salsa20_rounds(0, 0, x, _symmetric._QUARTERS)
        return start, x
    words = _symmetric._words(start)
    _symmetric._salsa20_rounds(words)
    return start, b"".join([word.to_bytes(4, "little") for word in words])


def crypto_core_salsa20(block, key, constant=_SIGMA):
    """Return 64 bytes of 16 bytes, a 32-byte key and 16 bytes that are NaCl's own unless said otherwise."""
    start, x = _salsa20(block, key, constant)
    if _soft.IMPLEMENTATION == "viper":
        out = bytearray(64)
        _symmetric._add_and_xor(out, 64, x, bytearray(start))
        return bytes(out)
    pairs = zip(_symmetric._words(start), _symmetric._words(x))
    return b"".join([((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in pairs])


def crypto_core_hsalsa20(block, key, constant=_SIGMA):
    """Return 32 bytes of 16 bytes, a 32-byte key and 16 bytes that are NaCl's own unless said otherwise."""
    x = _salsa20(block, key, constant)[1]
    return bytes(x[:4] + x[20:24] + x[40:44] + x[60:64] + x[24:40])


def crypto_stream_salsa20(length, nonce, key):
    """Return `length` bytes of the Salsa20 stream; nonce 8 bytes, key 32 bytes."""
    return crypto_stream_salsa20_xor(bytes(length), nonce, key)


def crypto_stream_salsa20_xor(message, nonce, key):
    """Return the message under the Salsa20 stream; nobody notices if it is changed on the way."""
    nacl._check_all((nonce, 8), (key, 32))
    data = bytearray(nacl._checked(message))
    _symmetric.salsa20_xor(data, bytes(nonce), bytes(key))
    return bytes(data)


def crypto_hashblocks(state, message):
    """Return the 64-byte state after the whole 128-byte blocks of the message; what is left over is not hashed."""
    nacl._check(state, 64)
    return _symmetric.sha512_blocks(state, nacl._checked(message))
