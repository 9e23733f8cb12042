"""Salsa20, Poly1305, SHA-512 and scalars modulo L in viper: for MicroPython ports with 32-bit words.

No branch and no address depends on a secret. Viper's `uint` shifts in zeros, its `int` keeps the sign; a literal
stays below 2^30; a store goes through a pointer.

Sources: Salsa20 and Poly1305 papers (D. J. Bernstein), FIPS 180-4; scalars after TweetNaCl's `modL`.
"""

try:
    from .tweetnacl_limbs import to_bytes, to_limbs
    from .tweetnacl_tables import SHA512_CONSTANTS
except ImportError:
    from tweetnacl_limbs import to_bytes, to_limbs
    from tweetnacl_tables import SHA512_CONSTANTS

_SIGMA = b"expand 32-byte k"
_L = b"\xed\xd3\xf5\x5c\x1a\x63\x12\x58\xd6\x9c\xf7\xa2\xde\xf9\xde\x14" + bytes(15) + b"\x10"
_R = b"\x1d\x95\x98\x8d\x74\x31\xec\xd6\x70\xcf\x7d\x73\xf4\x5b\xef\xc6\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x0f"  # 2^256 modulo L


# Salsa20


# Where a quarter-round's four words stand: four columns, then four rows (Salsa20 specification, sections 4 to 6).
_QUARTERS = b"\x00\x04\x08\x0c\x05\x09\x0d\x01\x0a\x0e\x02\x06\x0f\x03\x07\x0b\x00\x01\x02\x03\x05\x06\x07\x04\x0a\x0b\x08\x09\x0f\x0c\x0d\x0e"


@micropython.viper
def _salsa20_rounds(a: uint, b: uint, x: ptr32, quarters: ptr8):
    """Run ten double rounds over the 16 words `x`; the first two arguments are only there to get registers."""
    for _ in range(10):
        q = int(quarters)
        end = q + 32
        while q < end:
            a = uint(x[ptr8(q)[0]])
            b = uint(x[ptr8(q)[1]])
            c = uint(x[ptr8(q)[2]])
            d = uint(x[ptr8(q)[3]])
            t = a + d
            b ^= (t << 7) | (t >> 25)
            t = b + a
            c ^= (t << 9) | (t >> 23)
            t = c + b
            d ^= (t << 13) | (t >> 19)
            t = d + c
            a ^= (t << 18) | (t >> 14)
            x[ptr8(q)[0]] = int(a)
            x[ptr8(q)[1]] = int(b)
            x[ptr8(q)[2]] = int(c)
            x[ptr8(q)[3]] = int(d)
            q += 4


@micropython.viper
def _add_and_xor(data: ptr8, n: int, x: ptr32, y: ptr32):
    """Add 16 words of `y` to `x`, and the resulting stream to `n` bytes of data."""
    for i in range(16):
        x[i] += y[i]
    stream = ptr8(x)
    for i in range(n):
        data[i] ^= stream[i]


def _salsa20_input(key, block):
    return bytearray(_SIGMA[:4] + key[:16] + _SIGMA[4:8] + block + _SIGMA[8:12] + key[16:] + _SIGMA[12:])


def hsalsa20(key, block):
    """Derive 32 bytes from a 32-byte key and 16 bytes ("Extending the Salsa20 nonce", section 2)."""
    x = _salsa20_input(bytes(key), bytes(block))
    _salsa20_rounds(0, 0, x, _QUARTERS)
    return bytes(x[:4] + x[20:24] + x[40:44] + x[60:64] + x[24:40])


def salsa20_xor(data, nonce, key):
    """Add the Salsa20 stream of an 8-byte nonce and a 32-byte key to the bytearray `data`, in place."""
    start = _salsa20_input(bytes(key), bytes(nonce) + bytes(8))
    stream, view = bytearray(64), memoryview(data)
    for i in range(0, len(data), 64):
        start[32:36] = (i >> 6).to_bytes(4, "little")
        stream[:] = start
        _salsa20_rounds(0, 0, stream, _QUARTERS)
        _add_and_xor(view[i:], min(64, len(data) - i), stream, start)


# Poly1305 with ten limbs of 13 bits: r in words 0 to 9, h in 10 to 19, products in 20 to 39, the bit above a
# whole block in 40.


@micropython.viper
def _poly1305_blocks(p: ptr32, q: ptr32, x: int, data: ptr8):
    """Absorb `x` blocks into the state p = q. The first three names are arguments to get registers."""
    state = int(p)
    for block in range(x):
        base = int(data) + 16 * block
        m = ptr8(base)
        p = ptr32(state)
        for i in range(9):
            bit = 13 * i
            j = bit >> 3
            p[10 + i] += ((m[j] | (m[j + 1] << 8) | (m[j + 2] << 16)) >> (bit & 7)) & 8191
        p[19] += ((m[14] | (m[15] << 8)) >> 5) | p[40]
        q = ptr32(state)
        for i in range(20):
            p[20 + i] = 0
        for i in range(10):
            p = ptr32(state + 4 * i)
            x = p[10]
            p[20] = x * q[0] + p[20]
            p[21] = x * q[1] + p[21]
            p[22] = x * q[2] + p[22]
            p[23] = x * q[3] + p[23]
            p[24] = x * q[4] + p[24]
            p[25] = x * q[5] + p[25]
            p[26] = x * q[6] + p[26]
            p[27] = x * q[7] + p[27]
            p[28] = x * q[8] + p[28]
            p[29] = x * q[9] + p[29]
        p = ptr32(state)
        x = 0
        for i in range(20, 40):
            x += p[i]
            p[i] = x & 8191
            x >>= 13
        # 2^130 is 5 in this field: column 10 + i counts five times in limb i.
        for i in range(10):
            x += p[20 + i] + 5 * p[30 + i]
            p[10 + i] = x & 8191
            x >>= 13
        p[10] += 5 * x


@micropython.viper
def _poly1305_finish(state: ptr32, out: ptr8):
    """Write h modulo 2^130 - 5, cut to 128 bits."""
    h = ptr32(int(state) + 40)
    carry = 0
    for _ in range(3):
        for i in range(10):
            carry += h[i]
            h[i] = carry & 8191
            carry >>= 13
        carry *= 5
    # h >= 2^130 - 5 exactly where h + 5 carries out of the last limb; adding 5 then is subtracting the modulus.
    carry = 5
    for i in range(10):
        carry = (carry + h[i]) >> 13
    carry *= 5
    for i in range(10):
        carry += h[i]
        h[i] = carry & 8191
        carry >>= 13
    h[9] &= 2047
    h[10] = 0
    to_bytes(out, h, 16)


@micropython.viper
def _add_bytes(x: ptr8, y: ptr8):
    """Add 16 bytes to 16 bytes, little-endian."""
    carry = 0
    for i in range(16):
        carry += x[i] + y[i]
        x[i] = carry
        carry >>= 8


def onetimeauth(message, key):
    """Return the 16-byte Poly1305 tag of `message` under a 32-byte one-time key (RFC 8439, section 2.5)."""
    state, block = bytearray(41 * 4), bytearray(16)
    block[:] = key[:16]
    for i in (3, 7, 11, 15):
        block[i] &= 15
    for i in (4, 8, 12):
        block[i] &= 252
    to_limbs(state, bytes(block) + b"\x00", 10, 2047)
    whole = len(message) >> 4
    state[161] = 8  # bit 11 of limb 9 is bit 128
    _poly1305_blocks(state, state, whole, message)
    if len(message) & 15:
        block[:] = bytes(message[whole << 4 :]) + b"\x01" + bytes(15 - (len(message) & 15))
        state[161] = 0
        _poly1305_blocks(state, state, 1, block)
    _poly1305_finish(state, block)
    _add_bytes(block, bytes(key[16:]))
    return bytes(block)


# SHA-512 with each 64-bit word as a high and a low half


@micropython.viper
def _sha512_load(out: ptr32, data: ptr8, n: int):
    """Read `n` big-endian halves."""
    for i in range(n):
        j = 4 * i
        out[i] = (data[j] << 24) | (data[j + 1] << 16) | (data[j + 2] << 8) | data[j + 3]


@micropython.viper
def _sha512_store(out: ptr8, words: ptr32, n: int):
    for i in range(n):
        x = uint(words[i])
        j = 4 * i
        out[j] = int(x >> 24)
        out[j + 1] = int(x >> 16)
        out[j + 2] = int(x >> 8)
        out[j + 3] = int(x)


@micropython.viper
def _sha512_expand(w: ptr32):
    """Replace the 16 words of a circular schedule by the next 16."""
    for i in range(16):
        p = ptr32(int(w) + 8 * ((i + 1) & 15))
        h = uint(p[0])
        l = uint(p[1])
        high = ((h >> 1) | (l << 31)) ^ ((h >> 8) | (l << 24)) ^ (h >> 7)
        low = ((l >> 1) | (h << 31)) ^ ((l >> 8) | (h << 24)) ^ ((l >> 7) | (h << 25))
        p = ptr32(int(w) + 8 * ((i + 14) & 15))
        h = uint(p[0])
        l = uint(p[1])
        high2 = ((h >> 19) | (l << 13)) ^ ((l >> 29) | (h << 3)) ^ (h >> 6)
        low2 = ((l >> 19) | (h << 13)) ^ ((h >> 29) | (l << 3)) ^ ((l >> 6) | (h << 26))
        p = ptr32(int(w) + 8 * ((i + 9) & 15))
        q = ptr32(int(w) + 8 * i)
        h = uint(p[1])
        l = uint(q[1])
        # Sums of 16-bit quarters cannot overflow a word, so no carry has to be guessed.
        t = (low & 65535) + (low2 & 65535) + (h & 65535) + (l & 65535)
        u = (low >> 16) + (low2 >> 16) + (h >> 16) + (l >> 16) + (t >> 16)
        q[1] = int((u << 16) | (t & 65535))
        q[0] = int(high + high2 + uint(p[0]) + uint(q[0]) + (u >> 16))


@micropython.viper
def _sha512_rounds(s: ptr32, w: ptr32, k: ptr8):
    """Run 16 rounds over a to h in the 8 words `s`; `k` points at 16 constants."""
    for i in range(16):
        h = uint(s[8])
        l = uint(s[9])
        high = ((h >> 14) | (l << 18)) ^ ((h >> 18) | (l << 14)) ^ ((l >> 9) | (h << 23))
        low = ((l >> 14) | (h << 18)) ^ ((l >> 18) | (h << 14)) ^ ((h >> 9) | (l << 23))
        high += uint(s[12]) ^ (h & uint(s[10] ^ s[12]))
        low2 = uint(s[13]) ^ (l & uint(s[11] ^ s[13]))
        j = 8 * i
        high += uint((k[j] << 24) | (k[j + 1] << 16) | (k[j + 2] << 8) | k[j + 3])
        j += 4
        l = uint(w[2 * i + 1])
        t = (low & 65535) + (low2 & 65535) + (l & 65535) + uint((k[j + 2] << 8) | k[j + 3])
        u = (low >> 16) + (low2 >> 16) + (l >> 16) + uint((k[j] << 8) | k[j + 1])
        l = uint(s[15])
        t += l & 65535
        u += (l >> 16) + (t >> 16)
        low = (u << 16) | (t & 65535)
        high += uint(w[2 * i]) + uint(s[14]) + (u >> 16)
        for j in range(15, 9, -1):
            s[j] = s[j - 2]
        l = uint(s[7])
        t = (low & 65535) + (l & 65535)
        u = (low >> 16) + (l >> 16) + (t >> 16)
        s[9] = int((u << 16) | (t & 65535))
        s[8] = int(high + uint(s[6]) + (u >> 16))
        h = uint(s[0])
        l = uint(s[1])
        high += ((h >> 28) | (l << 4)) ^ ((l >> 2) | (h << 30)) ^ ((l >> 7) | (h << 25))
        low2 = ((l >> 28) | (h << 4)) ^ ((h >> 2) | (l << 30)) ^ ((h >> 7) | (l << 25))
        high += (h & uint(s[2])) | (uint(s[4]) & (h | uint(s[2])))
        l = (l & uint(s[3])) | (uint(s[5]) & (l | uint(s[3])))
        t = (low & 65535) + (low2 & 65535) + (l & 65535)
        u = (low >> 16) + (low2 >> 16) + (l >> 16) + (t >> 16)
        for j in range(7, 1, -1):
            s[j] = s[j - 2]
        s[1] = int((u << 16) | (t & 65535))
        s[0] = int(high + (u >> 16))


@micropython.viper
def _sha512_add(x: ptr32, y: ptr32):
    """Add eight 64-bit words to eight."""
    for i in range(0, 16, 2):
        l = uint(x[i + 1])
        h = uint(y[i + 1])
        t = (l & 65535) + (h & 65535)
        u = (l >> 16) + (h >> 16) + (t >> 16)
        x[i + 1] = int((u << 16) | (t & 65535))
        x[i] += y[i] + int(u >> 16)


def sha512_blocks(state, data):
    """Return the 64-byte state after the whole 128-byte blocks of `data` (FIPS 180-4, section 6.4.2)."""
    total, work, w = bytearray(64), bytearray(64), bytearray(128)
    constants, data = memoryview(SHA512_CONSTANTS), memoryview(data)
    _sha512_load(total, state, 16)
    for i in range(0, len(data) - 127, 128):
        _sha512_load(w, data[i:], 32)
        work[:] = total
        for j in range(5):
            _sha512_rounds(work, w, constants[128 * j :])
            _sha512_expand(w)
        _sha512_add(total, work)
    out = bytearray(64)
    _sha512_store(out, total, 16)
    return bytes(out)


# Scalars modulo L = 2^252 + 27742317777372353535851937790883648493, as bytes in 64 words


@micropython.viper
def _multiply_add(x: ptr32, a: ptr8, b: ptr8, c: ptr8):
    """Write a b + c, 64 bytes in words not yet carried."""
    for i in range(64):
        x[i] = 0
    for i in range(32):
        x[i] += c[i]
        for j in range(32):
            x[i + j] = a[i] * b[j] + x[i + j]


@micropython.viper
def _modulo_l(out: ptr8, x: ptr32, order: ptr8):
    """Reduce 64 words, which stay below 2^22, to 32 bytes (TweetNaCl, `modL`; its 64-bit words are not needed then)."""
    carry = 0
    for i in range(63):
        carry += x[i]
        x[i] = carry & 255
        carry >>= 8
    x[63] += carry
    for i in range(63, 31, -1):
        carry = 0
        for j in range(i - 32, i - 12):
            t = x[j] + carry - 16 * x[i] * order[j - (i - 32)]
            carry = (t + 128) >> 8
            x[j] = t - (carry << 8)
        x[i - 12] += carry
        x[i] = 0
    carry = 0
    top = x[31] >> 4
    for j in range(32):
        carry = x[j] + carry - top * order[j]
        x[j] = carry & 255
        carry >>= 8
    for j in range(32):
        x[j] -= carry * order[j]
    for i in range(31):
        x[i + 1] += x[i] >> 8
        out[i] = x[i]
    out[31] = x[31]


def multiply_add_scalar(a, b, c):
    """Return a b + c modulo L, as 32 bytes."""
    x, out = bytearray(256), bytearray(32)
    _multiply_add(x, a, b, c)
    _modulo_l(out, x, _L)
    return bytes(out)


def reduce_scalar(data):
    """Return 64 bytes modulo L, as 32 bytes."""
    return multiply_add_scalar(data[32:], _R, data[:32])
