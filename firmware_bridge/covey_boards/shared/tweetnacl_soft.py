"""NaCl's constructions from the port's best primitives, which `tweetnacl` uses without PyNaCl.

Viper if the port compiles or loads it and a word has 32 bits, plain Python elsewhere; `IMPLEMENTATION` says which. Both
give the same bytes.
"""

import gc
import sys


def _load(name):
    """Import a sibling, by package on CPython, flat on a board: there loading's leftovers would scatter the heap."""
    if "." in __name__:
        return __import__(__name__.rsplit(".", 1)[0] + "." + name, None, None, ("*",))
    gc.collect()
    return __import__(name)


SHA512_INITIAL = _load("tweetnacl_tables").SHA512_INITIAL
# The viper modules hold 32-bit values in machine words and rely on shifts that drop what lies above.
_HAS_32_BIT_WORDS = sys.maxsize < (1 << 32)
IMPLEMENTATION = "plain"
if _HAS_32_BIT_WORDS:
    try:
        _load("tweetnacl_limbs")
        _load("tweetnacl_field")
        _symmetric = _load("tweetnacl_viper")
        _curve = _load("tweetnacl_curve")
        IMPLEMENTATION = "viper"
    except (ImportError, SyntaxError, ValueError):  # no such module, no such decorator, or another machine's code
        pass
if IMPLEMENTATION == "plain":
    _symmetric = _curve = _load("tweetnacl_plain")

onetimeauth = _symmetric.onetimeauth
hsalsa20 = _symmetric.hsalsa20  # crypto_core_hsalsa20: 32 bytes derived from a key and 16 bytes
scalarmult = _curve.scalarmult
_L_BYTES = b"\xed\xd3\xf5\x5c\x1a\x63\x12\x58\xd6\x9c\xf7\xa2\xde\xf9\xde\x14" + bytes(15) + b"\x10"


def box_beforenm(public, secret):
    """Return the key of a box ("Cryptography in NaCl", section 8), or None for a point of small order."""
    shared = scalarmult(secret, public)
    return None if verify_32(shared, bytes(32)) else hsalsa20(shared, bytes(16))


def _xor_in_place(data, nonce, key):
    _symmetric.salsa20_xor(data, nonce[16:], hsalsa20(key, nonce[:16]))


def stream_xor(message, nonce, key):
    """Return `message` under the XSalsa20 stream ("Extending the Salsa20 nonce", section 3)."""
    data = bytearray(message)
    _xor_in_place(data, nonce, key)
    return bytes(data)


def _after_one_time_key(data, nonce, key):
    """Return a buffer of 32 zeros and `data` under the stream: its first 32 bytes are the one-time key."""
    buffer = bytearray(32 + len(data))
    buffer[32:] = data
    _xor_in_place(buffer, nonce, key)
    return buffer


def secretbox(message, nonce, key):
    """Return tag and ciphertext of "Cryptography in NaCl", section 10."""
    buffer = _after_one_time_key(message, nonce, key)
    tag = onetimeauth(memoryview(buffer)[32:], bytes(buffer[:32]))
    buffer[16:32] = tag
    return bytes(memoryview(buffer)[16:])


def secretbox_open(box, nonce, key):
    """Return the message, or None where the tag does not fit."""
    first = bytearray(32)
    _xor_in_place(first, nonce, key)
    if not verify_16(onetimeauth(memoryview(box)[16:], bytes(first)), box[:16]):
        return None
    buffer = _after_one_time_key(memoryview(box)[16:], nonce, key)
    return bytes(memoryview(buffer)[32:])


def verify_32(x, y):
    """Say whether 32 bytes are equal, in time that does not depend on where they differ."""
    difference = 0
    for a, b in zip(x, y):
        difference |= a ^ b
    return difference == 0


verify_16 = verify_32


def sha512(*parts):
    """Return the 64-byte SHA-512 hash (FIPS 180-4) of parts as one message, unjoined: a board has no room for a copy."""
    state, rest, length = SHA512_INITIAL, b"", 0
    for part in parts:
        length += len(part)
        part = memoryview(part)
        if rest:
            take = min(128 - len(rest), len(part))
            rest += bytes(part[:take])
            part = part[take:]
            if len(rest) < 128:
                continue
            state, rest = _symmetric.sha512_blocks(state, rest), b""
        whole = len(part) & ~127
        state = _symmetric.sha512_blocks(state, part[:whole])
        rest = bytes(part[whole:])
    padding = bytes((111 - length) % 128 + 8)
    return _symmetric.sha512_blocks(state, rest + b"\x80" + padding + (length * 8).to_bytes(8, "big"))


def scalarmult_base(n):
    """Return n times X25519's base point, by the comb: constant in time with viper, and cheaper than the ladder."""
    return _curve.base_montgomery(_clamp(n))


def _clamp(n):
    return bytes([n[0] & 248]) + bytes(n[1:31]) + bytes([(n[31] & 127) | 64])


def sign_seed_keypair(seed):
    """Return public key and 64-byte secret key of a 32-byte seed (RFC 8032, section 5.1.5)."""
    public = _curve.base_edwards(_clamp(sha512(seed)[:32]))
    return public, bytes(seed) + public


def sign_detached(message, secret):
    """Return the 64-byte signature of RFC 8032, section 5.1.6."""
    expanded = sha512(secret[:32])
    r = _symmetric.reduce_scalar(sha512(expanded[32:], message))
    point = _curve.base_edwards(r)
    h = _symmetric.reduce_scalar(sha512(point, secret[32:], message))
    return point + _symmetric.multiply_add_scalar(h, _clamp(expanded[:32]), r)


def sign_verify_detached(signature, message, public):
    """Say whether a signature holds, by libsodium's rules.

    * S is below L, so nobody can make a second signature out of a first;
    * A is a canonical encoding of a point that is not of small order;
    * R is not of small order;
    * R is, byte for byte, the encoding of S B - h A (no cofactor).
    """
    point, s = signature[:32], signature[32:]
    if int.from_bytes(s, "little") >= int.from_bytes(_L_BYTES, "little"):
        return False
    h = _symmetric.reduce_scalar(sha512(point, public, message))
    expected = _curve.verification_point(public, s, h)
    return expected is not None and verify_32(expected, point)
