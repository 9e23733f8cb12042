"""NaCl's primitives in plain Python: for ports without viper, and the reference that tests compare with.

Not protected: integers longer than a machine word take time that depends on their values (0.17 % over an X25519 on a
Cortex-M0), and signing indexes a table by secret bits. An attacker that can time or probe the board learns something.
`tweetnacl_field` has neither weakness, on ports with viper.

Sources: Salsa20 and Poly1305 papers (D. J. Bernstein), FIPS 180-4, RFC 7748, RFC 8032.
"""

try:
    from .tweetnacl_tables import COMB, SHA512_CONSTANTS, SHA512_INITIAL
except ImportError:  # flat on a board
    from tweetnacl_tables import COMB, SHA512_CONSTANTS, SHA512_INITIAL

P = (1 << 255) - 19
L = (1 << 252) + 27742317777372353535851937790883648493
_D = 0x52036CEE2B6FFE738CC740797779E89800700A4D4141D8AB75EB4DCA135978A3
_SQRT_M1 = 0x2B8324804FC1DF0B2B4D00993DFBD7A72F431806AD2FE478C4EE1B274A0EA0B0
_MASK256 = (1 << 256) - 1
_MASK64 = (1 << 64) - 1
_SIGMA = b"expand 32-byte k"
# Where a quarter-round's four words stand: four columns, then four rows (Salsa20 specification, sections 4 to 6).
_ROUNDS = b"\x00\x04\x08\x0c\x05\x09\x0d\x01\x0a\x0e\x02\x06\x0f\x03\x07\x0b\x00\x01\x02\x03\x05\x06\x07\x04\x0a\x0b\x08\x09\x0f\x0c\x0d\x0e"


def _int(data):
    return int.from_bytes(data, "little")


# Salsa20


def _words(data):
    return [_int(data[i : i + 4]) for i in range(0, len(data), 4)]


def _salsa20_input(key, block):
    k, n, s = _words(key), _words(block), _words(_SIGMA)
    return [s[0]] + k[:4] + [s[1]] + n + [s[2]] + k[4:] + [s[3]]


def _salsa20_rounds(x):
    for _ in range(10):
        for i in range(0, 32, 4):
            a, b, c, d = _ROUNDS[i], _ROUNDS[i + 1], _ROUNDS[i + 2], _ROUNDS[i + 3]
            for target, left, right, shift in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
                t = (x[left] + x[right]) & 0xFFFFFFFF
                x[target] ^= ((t << shift) | (t >> (32 - shift))) & 0xFFFFFFFF


def hsalsa20(key, block):
    """Derive 32 bytes from a 32-byte key and 16 bytes ("Extending the Salsa20 nonce", section 2)."""
    x = _salsa20_input(key, block)
    _salsa20_rounds(x)
    return b"".join([x[i].to_bytes(4, "little") for i in (0, 5, 10, 15, 6, 7, 8, 9)])


def salsa20_xor(data, nonce, key):
    """Add the Salsa20 stream of an 8-byte nonce and a 32-byte key to the bytearray `data`, in place."""
    for start in range(0, len(data), 64):
        x = _salsa20_input(key, bytes(nonce) + (start >> 6).to_bytes(8, "little"))
        y = x[:]
        _salsa20_rounds(y)
        stream = b"".join([((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(x, y)])
        for i in range(min(64, len(data) - start)):
            data[start + i] ^= stream[i]


# Poly1305


def onetimeauth(message, key):
    """Return the 16-byte Poly1305 tag of `message` under a 32-byte one-time key (RFC 8439, section 2.5)."""
    r = _int(key[:16]) & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    h = 0
    for i in range(0, len(message), 16):
        h = (h + _int(bytes(message[i : i + 16]) + b"\x01")) * r % ((1 << 130) - 5)
    return ((h + _int(key[16:])) & ((1 << 128) - 1)).to_bytes(16, "little")


# SHA-512 (FIPS 180-4, section 6.4)


def _rotate(x, n):
    return (x >> n) | (x << (64 - n))


def _big_words(data):
    return [int.from_bytes(data[i : i + 8], "big") for i in range(0, len(data), 8)]


def _sha512_schedule(block):
    w = _big_words(block)
    for i in range(16, 80):
        a, b = w[i - 15], w[i - 2]
        s0 = _rotate(a, 1) ^ _rotate(a, 8) ^ (a >> 7)
        s1 = _rotate(b, 19) ^ _rotate(b, 61) ^ (b >> 6)
        w.append((w[i - 16] + s0 + w[i - 7] + s1) & _MASK64)
    return w


def _sha512_block(state, block):
    a, b, c, d, e, f, g, h = state
    for i, w in enumerate(_sha512_schedule(block)):
        k = int.from_bytes(SHA512_CONSTANTS[8 * i : 8 * i + 8], "big")
        s1 = _rotate(e, 14) ^ _rotate(e, 18) ^ _rotate(e, 41)
        t = h + (s1 & _MASK64) + ((e & f) ^ (~e & g)) + k + w
        s0 = _rotate(a, 28) ^ _rotate(a, 34) ^ _rotate(a, 39)
        h, g, f, e = g, f, e, (d + t) & _MASK64
        d, c, b, a = c, b, a, (t + (s0 & _MASK64) + ((a & b) ^ (a & c) ^ (b & c))) & _MASK64
    return [(x + y) & _MASK64 for x, y in zip(state, (a, b, c, d, e, f, g, h))]


def sha512_blocks(state, data):
    """Return the 64-byte state after the whole 128-byte blocks of `data` (FIPS 180-4, section 6.4.2)."""
    words = _big_words(state)
    for i in range(0, len(data) - 127, 128):
        words = _sha512_block(words, data[i : i + 128])
    return b"".join([x.to_bytes(8, "big") for x in words])


# The field of 2^255 - 19


def _multiply(a, b):
    """Return a product below 2^256 + 2^15, not reduced: 2^256 is 38 in this field, so two folds replace a division."""
    x = a * b
    x = (x & _MASK256) + 38 * (x >> 256)
    return (x & _MASK256) + 38 * (x >> 256)


def _power(x, exponent):
    result = 1
    for i in range(254, -1, -1):
        result = _multiply(result, result)
        if (exponent >> i) & 1:
            result = _multiply(result, x)
    return result


def _invert(x):
    return _power(x, P - 2)


# X25519 (RFC 7748, section 5)


def clamp(n):
    """Return the scalar's bytes as RFC 7748 decodes them: a multiple of 8 with bit 254 as its highest."""
    return bytes([n[0] & 248]) + bytes(n[1:31]) + bytes([(n[31] & 127) | 64])


def scalarmult(n, p):
    """Return n times the point with coordinate p, as 32 bytes; all zeros for a point of small order."""
    n, x1 = _int(clamp(n)), _int(p) & (_MASK256 >> 1)
    x2, z2, x3, z3 = 1, 0, x1, 1
    for i in range(254, -1, -1):
        swap = (n >> i) & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 + 4 * P - z2, x3 + z3, x3 + 4 * P - z3
        da, cb, aa, bb = _multiply(d, a), _multiply(c, b), _multiply(a, a), _multiply(b, b)
        e = aa + 4 * P - bb
        x3, z3 = da + cb, da + 4 * P - cb
        x3, z3 = _multiply(x3, x3), _multiply(x1, _multiply(z3, z3))
        x2, z2 = _multiply(aa, bb), _multiply(e, aa + _multiply(121665, e))
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (_multiply(x2, _invert(z2)) % P).to_bytes(32, "little")


# Ed25519 in extended coordinates (X, Y, Z, T) (RFC 8032, section 5.1.4)


def _double(point):
    x, y, z, _ = point
    a, b, c = _multiply(x, x), _multiply(y, y), 2 * _multiply(z, z)
    h, g = a + b, a + 4 * P - b
    e, f = h + 4 * P - _multiply(x + y, x + y), c + g
    return _multiply(e, f), _multiply(g, h), _multiply(f, g), _multiply(e, h)


def _add(point, other):
    """Add `other`, given as y + x, y - x, 2 d x y and Z."""
    x, y, z, t = point
    plus, minus, product, other_z = other
    a, b = _multiply(y + 4 * P - x, minus), _multiply(y + x, plus)
    c, d = _multiply(t, product), 2 * _multiply(z, other_z)
    e, f, g, h = b + 4 * P - a, d + 4 * P - c, d + c, b + a
    return _multiply(e, f), _multiply(g, h), _multiply(f, g), _multiply(e, h)


def _comb_entry(bits):
    """Return the table's entry for the four teeth `bits`, as `_add` takes it."""
    if bits == 0:
        return 1, 1, 0, 1
    base = 96 * (bits - 1)
    return tuple([_int(COMB[base + i : base + i + 32]) for i in (0, 32, 64)]) + (1,)


def _comb_bits(scalar, column):
    return sum([((scalar >> (column + 64 * tooth)) & 1) << tooth for tooth in range(4)])


def _encode(point):
    x, y, z, _ = point
    z = _invert(z)
    x, y = _multiply(x, z) % P, _multiply(y, z) % P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


def _base_point_times(scalar):
    point, scalar = (0, 1, 1, 0), _int(scalar)
    for column in range(63, -1, -1):
        point = _add(_double(point), _comb_entry(_comb_bits(scalar, column)))
    return point


def base_edwards(scalar):
    """Return the encoding of scalar times Ed25519's base point; `scalar` is any 32 bytes."""
    return _encode(_base_point_times(scalar))


def base_montgomery(scalar):
    """Return scalar times X25519's base point, by the map u = (1 + y) / (1 - y) (RFC 7748, section 4.1)."""
    _, y, z, _ = _base_point_times(scalar)
    return (_multiply(z + y, _invert(z + 4 * P - y)) % P).to_bytes(32, "little")


def _decode(public):
    """Return the point that 32 bytes encode, or None (RFC 8032, section 5.1.3)."""
    y = _int(public) & (_MASK256 >> 1)
    if y >= P:
        return None
    u, v = _multiply(y, y) - 1, _multiply(_D, _multiply(y, y)) + 1
    v3 = _multiply(v, _multiply(v, v))
    x = _multiply(_multiply(u, v3), _power(_multiply(u, _multiply(v3, _multiply(v3, v))), (P - 5) // 8))
    check = _multiply(v, _multiply(x, x))
    if (check + u) % P == 0:
        x = _multiply(x, _SQRT_M1)
    elif (check - u) % P:
        return None
    x %= P
    if (x & 1) != public[31] >> 7:
        x = P - x
    return x, y, 1, _multiply(x, y)


def _small_order(point):
    """Eight times a point of small order is the identity, the only multiple of 8 with x = 0."""
    return _double(_double(_double(point)))[0] % P == 0


def verification_point(public, s, h):
    """Return the encoding of s B - h A, or None where A or the result is not a point, or of small order."""
    point = _decode(public)
    if point is None or _small_order(point):
        return None
    x, y, _, t = point
    minus_a = (y + P - x, y + x, 4 * P - _multiply(2 * _D, t), 1)
    s, h, total = _int(s), _int(h), (0, 1, 1, 0)
    for i in range(252, -1, -1):
        total = _double(total)
        if (h >> i) & 1:
            total = _add(total, minus_a)
        if i < 64:
            total = _add(total, _comb_entry(_comb_bits(s, i)))
    return None if _small_order(total) else _encode(total)


# Scalars modulo L


def reduce_scalar(data):
    """Return 64 bytes modulo L, as 32 bytes."""
    return (_int(data) % L).to_bytes(32, "little")


def multiply_add_scalar(a, b, c):
    """Return a b + c modulo L, as 32 bytes."""
    return ((_int(a) * _int(b) + _int(c)) % L).to_bytes(32, "little")
