"""Numbers as limbs of 13 bits in 32-bit words, in viper: to bytes and back, exchanged and picked in constant time.

No branch and no address depends on the limbs' values.
"""


@micropython.viper
def to_limbs(limbs: ptr32, data: ptr8, count: int, last_mask: int):
    """Cut `count` limbs of 13 bits out of little-endian bytes; reads one byte beyond the last limb and masks it off."""
    for i in range(count):
        bit = 13 * i
        j = bit >> 3
        limbs[i] = ((data[j] | (data[j + 1] << 8) | (data[j + 2] << 16)) >> (bit & 7)) & 8191
    limbs[count - 1] &= last_mask


@micropython.viper
def to_bytes(out: ptr8, limbs: ptr32, size: int):
    """Write limbs of 13 bits, none negative, as `size` little-endian bytes; limbs beyond them must be zero."""
    for i in range(size):
        limb = (8 * i) // 13
        shift = 8 * i - 13 * limb
        out[i] = (limbs[limb] >> shift) | (limbs[limb + 1] << (13 - shift))


@micropython.viper
def _carry(w: ptr32, x: int, count: int) -> int:
    """Add `x` to limbs, leave them between 0 and 8191, and return what leaves the top."""
    for i in range(count):
        x += w[i]
        w[i] = x & 8191
        x >>= 13
    return x


@micropython.viper
def reduce(w: ptr32):
    """Leave the one representative below 2^255 - 19 in 20 limbs, which may be signed at first."""
    x = 0
    for _ in range(3):
        # A borrow out of the top comes back as -608, which the third pass has certainly settled.
        x = int(_carry(w, 608 * x, 20))
    for _ in range(2):
        # Below 2^260 now; bits from 255 on are worth 19 each.
        x = w[19] >> 8
        w[19] &= 255
        _carry(w, 19 * x, 20)
    # At p or above exactly where 19 more reach bit 255; then dropping that bit subtracts p.
    x = 19
    for i in range(19):
        x = (x + w[i]) >> 13
    x = (x + w[19]) >> 8
    _carry(w, 19 * x, 20)
    w[19] &= 255
    w[20] = 0


@micropython.viper
def _swap(a: ptr32, x: int, b: ptr32, mask: int):
    """Exchange two registers of one window with two of another, or none: all or no bits of `mask` are set."""
    for _ in range(4):
        x = (a[0] ^ b[0]) & mask
        a[0] = a[0] ^ x
        b[0] = b[0] ^ x
        x = (a[1] ^ b[1]) & mask
        a[1] = a[1] ^ x
        b[1] = b[1] ^ x
        x = (a[2] ^ b[2]) & mask
        a[2] = a[2] ^ x
        b[2] = b[2] ^ x
        x = (a[3] ^ b[3]) & mask
        a[3] = a[3] ^ x
        b[3] = b[3] ^ x
        x = (a[4] ^ b[4]) & mask
        a[4] = a[4] ^ x
        b[4] = b[4] ^ x
        x = (a[5] ^ b[5]) & mask
        a[5] = a[5] ^ x
        b[5] = b[5] ^ x
        x = (a[6] ^ b[6]) & mask
        a[6] = a[6] ^ x
        b[6] = b[6] ^ x
        x = (a[7] ^ b[7]) & mask
        a[7] = a[7] ^ x
        b[7] = b[7] ^ x
        x = (a[8] ^ b[8]) & mask
        a[8] = a[8] ^ x
        b[8] = b[8] ^ x
        x = (a[9] ^ b[9]) & mask
        a[9] = a[9] ^ x
        b[9] = b[9] ^ x
        a = ptr32(int(a) + 40)
        b = ptr32(int(b) + 40)


def swap(first, second, bit):
    """Exchange the contents of two windows of two registers if `bit` is 1, with the same steps if it is 0."""
    _swap(first, 0, second, -bit)


@micropython.viper
def _pick(out: ptr32, x: int, table: ptr32, wanted: int):
    """Set 24 words; the second argument is only there to get a register."""
    x = (wanted - 1) >> 31
    for i in range(24):
        out[i] &= x
    for i in range(1, 16):
        x = ((i ^ wanted) - 1) >> 31
        out[0] = table[0] & x | out[0]
        out[1] = table[1] & x | out[1]
        out[2] = table[2] & x | out[2]
        out[3] = table[3] & x | out[3]
        out[4] = table[4] & x | out[4]
        out[5] = table[5] & x | out[5]
        out[6] = table[6] & x | out[6]
        out[7] = table[7] & x | out[7]
        out[8] = table[8] & x | out[8]
        out[9] = table[9] & x | out[9]
        out[10] = table[10] & x | out[10]
        out[11] = table[11] & x | out[11]
        out[12] = table[12] & x | out[12]
        out[13] = table[13] & x | out[13]
        out[14] = table[14] & x | out[14]
        out[15] = table[15] & x | out[15]
        out[16] = table[16] & x | out[16]
        out[17] = table[17] & x | out[17]
        out[18] = table[18] & x | out[18]
        out[19] = table[19] & x | out[19]
        out[20] = table[20] & x | out[20]
        out[21] = table[21] & x | out[21]
        out[22] = table[22] & x | out[22]
        out[23] = table[23] & x | out[23]
        table = ptr32(int(table) + 96)


@micropython.viper
def _is_aligned(data: ptr8) -> bool:
    return int(data) & 3 == 0


def aligned(data):
    """Return bytes that start on a word: frozen ones may not, and then a copy is needed."""
    return data if _is_aligned(data) else bytearray(data)


def pick(out, table, wanted):
    """Copy one of 15 aligned entries of 96 bytes over the bytearray `out`, or none for 0, reading all of them."""
    _pick(out, 0, table, wanted)
