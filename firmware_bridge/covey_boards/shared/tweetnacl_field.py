"""A small machine for the field of 2^255 - 19, in viper: registers, and programs of multiplications and additions.

An element is 20 limbs of 13 bits in 32-bit words, signed. 20 x 13 = 260 bits, and 2^260 is 608.

A program is readable bytes, four to an instruction: operation, result, operands. Registers are the letters A to S.

* b"*CAB" multiplies A and B into C, b"^CA\x05" squares A five times into C;
* b"+CAB" adds, b"-CAB" subtracts B from A, b"#CAB" adds 121665 B to A (RFC 7748's a24);
* b"=CAB" leaves A + B in C and A - B in the register behind it, without carrying: a third of the time.

The first two rows carry what they write, which leaves limbs within 2^12 + 2; what was loaded stays below 2^13. "=" of
two carried elements gives limbs within 2^13 + 4, and no element may have larger ones where it is multiplied: twenty
products of two of those sum to less than 1.26 * 2^30, a carry and 608 times a carried limb come on top, and nothing
overflows. `tests/unit/covey_boards/shared/test_tweetnacl_field.py` follows the bounds through each program.

No branch and no address depends on the value of an element. The multiplier of a Cortex-M0, M3 or M4 takes the same
time for all 32-bit factors; check that of another core before you trust it with secrets.

Running many instructions in one viper call saves some 700 instructions of the processor for each. Where a jump reaches
2 KiB and no further (ARMv6-M), that is what a function's loop may fill: hence two functions, and carries of five or
four limbs unrolled. What else counts is registers: a viper function on ARM has two, for its first two names.
"""

try:
    from .tweetnacl_limbs import reduce, to_bytes, to_limbs
except ImportError:
    from tweetnacl_limbs import reduce, to_bytes, to_limbs
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
    at, end = 0, len(program)
    while at < end:
        at = _run(mem, at, program, end)
        at = _square(mem, at, program, end)


@micropython.viper
def _run(p: ptr32, x: int, program: ptr8, end: int) -> int:
    """Run what is no squaring, from byte `x` of a program over the memory `p`, and return where that ends."""
    mem = int(p)
    letters = mem - 63 * 80
    mask = 8191
    half = 4096
    while x < end:
        code = ptr8(int(program) + x)
        operation = code[0]
        if operation == 94:  # ^
            break
        at = x + 4
        out = letters + 80 * code[1]
        a = letters + 80 * code[2]
        b = letters + 80 * code[3]
        if operation == 61:  # =
            # Sum and difference, not carried.
            q = ptr32(b)
            r = ptr32(out)
            p = ptr32(a)
            for i in range(4):
                x = q[0]
                r[0] = p[0] + x
                r[20] = p[0] - x
                x = q[1]
                r[1] = p[1] + x
                r[21] = p[1] - x
                x = q[2]
                r[2] = p[2] + x
                r[22] = p[2] - x
                x = q[3]
                r[3] = p[3] + x
                r[23] = p[3] - x
                x = q[4]
                r[4] = p[4] + x
                r[24] = p[4] - x
                p = ptr32(int(p) + 20)
                q = ptr32(int(q) + 20)
                r = ptr32(int(r) + 20)
        else:
            if operation == 42:  # *
                p = ptr32(b)
                b0 = p[0]
                b1 = p[1]
                b2 = p[2]
                b3 = p[3]
                b4 = p[4]
                b5 = p[5]
                b6 = p[6]
                b7 = p[7]
                b8 = p[8]
                b9 = p[9]
                b10 = p[10]
                b11 = p[11]
                b12 = p[12]
                b13 = p[13]
                b14 = p[14]
                b15 = p[15]
                b16 = p[16]
                b17 = p[17]
                b18 = p[18]
                b19 = p[19]
                p = ptr32(mem)
                p[0] = half
                p[1] = half
                p[2] = half
                p[3] = half
                p[4] = half
                p[5] = half
                p[6] = half
                p[7] = half
                p[8] = half
                p[9] = half
                p[10] = half
                p[11] = half
                p[12] = half
                p[13] = half
                p[14] = half
                p[15] = half
                p[16] = half
                p[17] = half
                p[18] = half
                # Row by row: row i is the first to reach column i + 19.
                b = a + 80
                while a < b:
                    x = ptr32(a)[0]
                    p[0] = b0 * x + p[0]
                    p[1] = b1 * x + p[1]
                    p[2] = b2 * x + p[2]
                    p[3] = b3 * x + p[3]
                    p[4] = b4 * x + p[4]
                    p[5] = b5 * x + p[5]
                    p[6] = b6 * x + p[6]
                    p[7] = b7 * x + p[7]
                    p[8] = b8 * x + p[8]
                    p[9] = b9 * x + p[9]
                    p[10] = b10 * x + p[10]
                    p[11] = b11 * x + p[11]
                    p[12] = b12 * x + p[12]
                    p[13] = b13 * x + p[13]
                    p[14] = b14 * x + p[14]
                    p[15] = b15 * x + p[15]
                    p[16] = b16 * x + p[16]
                    p[17] = b17 * x + p[17]
                    p[18] = b18 * x + p[18]
                    p[19] = b19 * x
                    p = ptr32(int(p) + 4)
                    a += 4
                fold = 608
                p = ptr32(mem + 76)
                x = 0
                for i in range(4):
                    x = p[0] + x
                    p[0] = mask & x
                    x = x >> 13
                    x = p[1] + x
                    p[1] = mask & x
                    x = x >> 13
                    x = p[2] + x
                    p[2] = mask & x
                    x = x >> 13
                    x = p[3] + x
                    p[3] = mask & x
                    x = x >> 13
                    x = p[4] + x
                    p[4] = mask & x
                    x = x >> 13
                    p = ptr32(int(p) + 20)
                p[0] = x
                p = ptr32(mem)
                p[19] += half
            else:
                p = ptr32(mem)
                q = ptr32(a)
                r = ptr32(b)
                x = 44 - operation  # + is 43, - is 45
                if operation == 35:  # #
                    x = 121665
                fold = 0
                for i in range(4):
                    p[0] = r[0] * x + q[0] + half
                    p[1] = r[1] * x + q[1] + half
                    p[2] = r[2] * x + q[2] + half
                    p[3] = r[3] * x + q[3] + half
                    p[4] = r[4] * x + q[4] + half
                    p = ptr32(int(p) + 20)
                    q = ptr32(int(q) + 20)
                    r = ptr32(int(r) + 20)
            p = ptr32(mem)
            q = ptr32(out)
            x = 0
            for i in range(4):
                x = fold * p[20] + p[0] + x
                q[0] = (mask & x) - half
                x = x >> 13
                x = fold * p[21] + p[1] + x
                q[1] = (mask & x) - half
                x = x >> 13
                x = fold * p[22] + p[2] + x
                q[2] = (mask & x) - half
                x = x >> 13
                x = fold * p[23] + p[3] + x
                q[3] = (mask & x) - half
                x = x >> 13
                x = fold * p[24] + p[4] + x
                q[4] = (mask & x) - half
                x = x >> 13
                p = ptr32(int(p) + 20)
                q = ptr32(int(q) + 20)
            # What left the top comes back as 608 times as much at the bottom, and may ripple through two limbs.
            p = ptr32(out)
            x = x * 608 + p[0] + half
            p[0] = (mask & x) - half
            x = (x >> 13) + p[1] + half
            p[1] = (mask & x) - half
            p[2] += x >> 13
        p = ptr32(mem)
        x = at
    return x


@micropython.viper
def _square(p: ptr32, x: int, program: ptr8, end: int) -> int:
    """Run squarings, from byte `x` of a program over the memory `p`, and return where they end."""
    mem = int(p)
    letters = mem - 63 * 80
    mask = 8191
    half = 4096
    while x < end:
        code = ptr8(int(program) + x)
        if code[0] != 94:  # ^
            break
        at = x + 4
        out = letters + 80 * code[1]
        a = letters + 80 * code[2]
        count = code[3]
        while count:
            p = ptr32(a)
            b0 = p[0]
            b1 = p[1]
            b2 = p[2]
            b3 = p[3]
            b4 = p[4]
            b5 = p[5]
            b6 = p[6]
            b7 = p[7]
            b8 = p[8]
            b9 = p[9]
            b10 = p[10]
            b11 = p[11]
            b12 = p[12]
            b13 = p[13]
            b14 = p[14]
            b15 = p[15]
            b16 = p[16]
            b17 = p[17]
            b18 = p[18]
            b19 = p[19]
            p = ptr32(mem)
            p[0] = half
            p[1] = half
            p[2] = half
            p[3] = half
            p[4] = half
            p[5] = half
            p[6] = half
            p[7] = half
            p[8] = half
            p[9] = half
            p[10] = half
            p[11] = half
            p[12] = half
            p[13] = half
            p[14] = half
            p[15] = half
            p[16] = half
            p[17] = half
            p[18] = half
            # Five rows with the same columns at a time; what stands twice in a square is doubled.
            row = a + 20
            while a < row:
                x = ptr32(a)[0]
                p[0] = b0 * x + p[0]
                p[1] = b1 * x + p[1]
                p[2] = b2 * x + p[2]
                p[3] = b3 * x + p[3]
                p[4] = b4 * x + p[4]
                x += x
                p[5] = b5 * x + p[5]
                p[6] = b6 * x + p[6]
                p[7] = b7 * x + p[7]
                p[8] = b8 * x + p[8]
                p[9] = b9 * x + p[9]
                p[10] = b10 * x + p[10]
                p[11] = b11 * x + p[11]
                p[12] = b12 * x + p[12]
                p[13] = b13 * x + p[13]
                p[14] = b14 * x + p[14]
                p[15] = b15 * x + p[15]
                p[16] = b16 * x + p[16]
                p[17] = b17 * x + p[17]
                p[18] = b18 * x + p[18]
                p[19] = b19 * x
                p = ptr32(int(p) + 4)
                a += 4
            row = a + 20
            while a < row:
                x = ptr32(a)[0]
                p[5] = b5 * x + p[5]
                p[6] = b6 * x + p[6]
                p[7] = b7 * x + p[7]
                p[8] = b8 * x + p[8]
                p[9] = b9 * x + p[9]
                x += x
                p[10] = b10 * x + p[10]
                p[11] = b11 * x + p[11]
                p[12] = b12 * x + p[12]
                p[13] = b13 * x + p[13]
                p[14] = b14 * x + p[14]
                p[15] = b15 * x + p[15]
                p[16] = b16 * x + p[16]
                p[17] = b17 * x + p[17]
                p[18] = b18 * x + p[18]
                p[19] = b19 * x
                p = ptr32(int(p) + 4)
                a += 4
            row = a + 20
            while a < row:
                x = ptr32(a)[0]
                p[10] = b10 * x + p[10]
                p[11] = b11 * x + p[11]
                p[12] = b12 * x + p[12]
                p[13] = b13 * x + p[13]
                p[14] = b14 * x + p[14]
                x += x
                p[15] = b15 * x + p[15]
                p[16] = b16 * x + p[16]
                p[17] = b17 * x + p[17]
                p[18] = b18 * x + p[18]
                p[19] = b19 * x
                p = ptr32(int(p) + 4)
                a += 4
            row = a + 20
            while a < row:
                x = ptr32(a)[0]
                p[15] = b15 * x + p[15]
                p[16] = b16 * x + p[16]
                p[17] = b17 * x + p[17]
                p[18] = b18 * x + p[18]
                p[19] = b19 * x
                p = ptr32(int(p) + 4)
                a += 4
            p = ptr32(mem + 76)
            x = 0
            for i in range(5):
                x = p[0] + x
                p[0] = mask & x
                x = x >> 13
                x = p[1] + x
                p[1] = mask & x
                x = x >> 13
                x = p[2] + x
                p[2] = mask & x
                x = x >> 13
                x = p[3] + x
                p[3] = mask & x
                x = x >> 13
                p = ptr32(int(p) + 16)
            p[0] = x
            p = ptr32(mem)
            p[19] += half
            p = ptr32(mem)
            q = ptr32(out)
            x = 0
            for i in range(5):
                x = p[20] * 608 + p[0] + x
                q[0] = (mask & x) - half
                x = x >> 13
                x = p[21] * 608 + p[1] + x
                q[1] = (mask & x) - half
                x = x >> 13
                x = p[22] * 608 + p[2] + x
                q[2] = (mask & x) - half
                x = x >> 13
                x = p[23] * 608 + p[3] + x
                q[3] = (mask & x) - half
                x = x >> 13
                p = ptr32(int(p) + 16)
                q = ptr32(int(q) + 16)
            # What left the top comes back as 608 times as much at the bottom, and may ripple through two limbs.
            p = ptr32(out)
            x = x * 608 + p[0] + half
            p[0] = (mask & x) - half
            x = (x >> 13) + p[1] + half
            p[1] = (mask & x) - half
            p[2] += x >> 13
            a = out
            count -= 1
        p = ptr32(mem)
        x = at
    return x


def load(mem, register, data):
    """Set a register to 32 little-endian bytes, of which the highest bit is ignored."""
    to_limbs(window(mem, register), bytes(data) + b"\x00", 20, 255)


def store(mem, register):
    """Return a register's canonical 32 bytes."""
    out = bytearray(32)
    memoryview(mem)[:80] = window(mem, register)
    reduce(mem)
    to_bytes(out, mem, 32)
    return bytes(out)
