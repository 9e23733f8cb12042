"""A small machine for the field of 2^255 - 19, in viper: registers, and programs of multiplications and additions.

An element is 20 limbs of 13 bits in 32-bit words, signed and balanced around zero. Every instruction carries its
result, so a limb stays within 2^12 + 2; one just loaded is below 2^13. Twenty products of two loaded limbs sum to less
than 2^31: nothing overflows, and no instruction has an order to respect. 20 x 13 = 260 bits, and 2^260 is 608.

A program is readable bytes, four to an instruction: operation, result, operands. Registers are the letters A to S:
b"*CAB" multiplies A and B into C, b"+CAB" adds, b"-CAB" subtracts, and b"^CA\x05" squares A five times into C.
Any other operation n adds 44 - n times B to A, as + and - do: at most 211 times, so that no carry outgrows its limbs.

No branch and no address depends on the value of an element. The multiplier of a Cortex-M0, M3 or M4 takes the same
time for all 32-bit factors; check that of another core before you trust it with secrets.

Running a whole program in one viper call, instead of one call for each operation, saves some 700 instructions for each
of the 4,000 operations of an X25519. Loops are unrolled as far as it pays: twenty products, five limbs of a carry.
"""

try:
    from micropython import const
except ImportError:
    const = int

_REGISTER_BYTES = const(80)
# 40 words of scratch, then registers A to S. Taken once, at import, because a used heap may have no piece of this size
# left; so one computation at a time, and none in an interrupt handler.
_memory = bytearray(21 * _REGISTER_BYTES)


def memory():
    """Return the machine's memory, zeroed."""
    for i in range(0, len(_memory), _REGISTER_BYTES):
        _memory[i : i + _REGISTER_BYTES] = bytes(_REGISTER_BYTES)
    return _memory


def window(mem, register, count=1):
    """Return a view of `count` registers, the first of which is named by the code of its letter."""
    start = (register - 63) * _REGISTER_BYTES
    return memoryview(mem)[start : start + count * _REGISTER_BYTES]


def run(mem, program):
    """Run a program over `mem`."""
    _run(mem, mem, len(program), program)


@micropython.viper
def _run(p: ptr32, q: ptr32, x: int, program: ptr8):
    """Run `x` bytes of a program over the memory p = q; the first three names are arguments to get registers."""
    mem = int(p)
    letters = mem - 63 * 80
    pc = int(program)
    end = pc + x
    while pc < end:
        code = ptr8(pc)
        pc += 4
        operation = code[0]
        out = letters + 80 * code[1]
        a = letters + 80 * code[2]
        b = letters + 80 * code[3]
        count = 1
        if operation == 94:  # ^
            count = code[3]
            b = a
        while count:
            if operation == 94 or operation == 42:  # ^ *
                # Row by row: row i is the first to reach column i + 19.
                q = ptr32(b)
                p = ptr32(mem)
                for i in range(19):
                    p[i] = 0
                p[39] = 0
                for i in range(0, 80, 4):
                    x = ptr32(a + i)[0]
                    p = ptr32(mem + i)
                    p[0] = x * q[0] + p[0]
                    p[1] = x * q[1] + p[1]
                    p[2] = x * q[2] + p[2]
                    p[3] = x * q[3] + p[3]
                    p[4] = x * q[4] + p[4]
                    p[5] = x * q[5] + p[5]
                    p[6] = x * q[6] + p[6]
                    p[7] = x * q[7] + p[7]
                    p[8] = x * q[8] + p[8]
                    p[9] = x * q[9] + p[9]
                    p[10] = x * q[10] + p[10]
                    p[11] = x * q[11] + p[11]
                    p[12] = x * q[12] + p[12]
                    p[13] = x * q[13] + p[13]
                    p[14] = x * q[14] + p[14]
                    p[15] = x * q[15] + p[15]
                    p[16] = x * q[16] + p[16]
                    p[17] = x * q[17] + p[17]
                    p[18] = x * q[18] + p[18]
                    p[19] = x * q[19]
                x = 0
                p = ptr32(mem)
                for i in range(4):
                    x += p[20] + 4096
                    p[20] = (x & 8191) - 4096
                    x >>= 13
                    x += p[21] + 4096
                    p[21] = (x & 8191) - 4096
                    x >>= 13
                    x += p[22] + 4096
                    p[22] = (x & 8191) - 4096
                    x >>= 13
                    x += p[23] + 4096
                    p[23] = (x & 8191) - 4096
                    x >>= 13
                    x += p[24] + 4096
                    p[24] = (x & 8191) - 4096
                    x >>= 13
                    p = ptr32(int(p) + 20)
                fold = 608
            else:
                p = ptr32(mem)
                q = ptr32(a)
                r = ptr32(b)
                x = 44 - operation  # + is 43, - is 45
                fold = 0
                for i in range(4):
                    p[0] = x * r[0] + q[0]
                    p[1] = x * r[1] + q[1]
                    p[2] = x * r[2] + q[2]
                    p[3] = x * r[3] + q[3]
                    p[4] = x * r[4] + q[4]
                    p = ptr32(int(p) + 20)
                    q = ptr32(int(q) + 20)
                    r = ptr32(int(r) + 20)
            p = ptr32(mem)
            q = ptr32(out)
            x = 0
            for i in range(4):
                x += fold * p[20] + p[0] + 4096
                q[0] = (x & 8191) - 4096
                x >>= 13
                x += fold * p[21] + p[1] + 4096
                q[1] = (x & 8191) - 4096
                x >>= 13
                x += fold * p[22] + p[2] + 4096
                q[2] = (x & 8191) - 4096
                x >>= 13
                x += fold * p[23] + p[3] + 4096
                q[3] = (x & 8191) - 4096
                x >>= 13
                x += fold * p[24] + p[4] + 4096
                q[4] = (x & 8191) - 4096
                x >>= 13
                p = ptr32(int(p) + 20)
                q = ptr32(int(q) + 20)
            # What left the top comes back as 608 times as much at the bottom, and may ripple through two limbs.
            q = ptr32(out)
            x = x * 608 + q[0]
            x += 4096
            q[0] = (x & 8191) - 4096
            x = (x >> 13) + q[1] + 4096
            q[1] = (x & 8191) - 4096
            q[2] += x >> 13
            a = out
            b = out
            count -= 1


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


def load(mem, register, data):
    """Set a register to 32 little-endian bytes, of which the highest bit is ignored."""
    to_limbs(window(mem, register), bytes(data) + b"\x00", 20, 255)


@micropython.viper
def _carry(w: ptr32, x: int, count: int) -> int:
    """Add `x` to limbs, leave them between 0 and 8191, and return what leaves the top."""
    for i in range(count):
        x += w[i]
        w[i] = x & 8191
        x >>= 13
    return x


@micropython.viper
def _reduce(w: ptr32):
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


def store(mem, register):
    """Return a register's canonical 32 bytes."""
    out = bytearray(32)
    memoryview(mem)[:80] = window(mem, register)
    _reduce(mem)
    to_bytes(out, mem, 32)
    return bytes(out)


@micropython.viper
def _swap(a: ptr32, b: ptr32, words: int, bit: int):
    mask = 0 - bit
    for _ in range(words):
        difference = (a[0] ^ b[0]) & mask
        a[0] ^= difference
        b[0] ^= difference
        a = ptr32(int(a) + 4)
        b = ptr32(int(b) + 4)


def swap(first, second, bit):
    """Exchange the contents of two windows if `bit` is 1, with the same steps if it is 0."""
    _swap(first, second, len(first) >> 2, bit)


@micropython.viper
def _pick(x: int, table: ptr32, out: ptr32, wanted: int):
    """Set 24 words; the first argument is only there to get a register."""
    for i in range(24):
        x = out[i] & ((wanted - 1) >> 31)
        j = 0
        while j < 15:
            x |= table[24 * j + i] & (((j + 1 ^ wanted) - 1) >> 31)
            j += 1
        out[i] = x


@micropython.viper
def _is_aligned(data: ptr8) -> bool:
    return int(data) & 3 == 0


def aligned(data):
    """Return bytes that start on a word: frozen ones may not, and then a copy is needed."""
    return data if _is_aligned(data) else bytearray(data)


def pick(out, table, wanted):
    """Copy one of 15 aligned entries of 96 bytes over the bytearray `out`, or none for 0, reading all of them."""
    _pick(0, table, out, wanted)
