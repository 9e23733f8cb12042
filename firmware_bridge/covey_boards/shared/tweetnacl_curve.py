"""X25519 and Ed25519 as programs for the field machine: constant in time for secret scalars.

Sources: RFC 7748 (ladder), RFC 8032 and "Twisted Edwards Curves Revisited" (Hisil and others, 2008) for the formulas,
which hold for all points, so nothing is special about the identity; M. Hamburg's signed combs gave the idea of one
comb that serves both curves. Inversion by Bernstein's chain of 254 squarings and 11 multiplications.

`verification_point` deals with public data only, and takes its time accordingly.
"""

try:
    from . import tweetnacl_field as field
    from . import tweetnacl_limbs as limbs
    from .tweetnacl_tables import COMB
except ImportError:
    import tweetnacl_field as field
    import tweetnacl_limbs as limbs
    from tweetnacl_tables import COMB
try:
    from micropython import const
except ImportError:
    const = int

_COMB = limbs.aligned(COMB)  # where it has to be copied, once, at import: a used heap may have no piece of its size

# Registers for Edwards curves: A to G scratch; H I J K the point X, Y, Z, T; L M N what is added to it: y + x, y - x,
# 2 d x y of a point with Z = 1; O one, P zero. Verification: Q R S hold -A in the form of L M N.
_DOUBLE = b"=FHI^AH\x01^BI\x01^CJ\x01^FF\x01=DAB+CCC-FDF+CCE*HFC*IED*JCE*KFD"
_ADD_POINT = b"=AIH*AAL*BBM*CKN+DJJ=EAB=ADC*HFB*IAE*JBA*KFE"

# Registers for the ladder (RFC 7748, section 5): H I = x2, z2; J K = x3, z3; L = x1; P zero. A B C D as there, then AA
# and BB in A and B; F is E there, G is AA + 121665 E. All squarings stand together, as going to them and back costs.
_LADDER_STEP = b"=AHI=CJK*DDA*CCB=JDC^JJ\x01^KK\x01^AA\x01^BB\x01*KKL*HAB=EAB#GAF*IFG"

# From A: B = A^(2^250 - 1), C = A^11.
_POWER_250 = b"^CA\x01^BC\x02*BAB*CCB^DC\x01*BBD^DB\x05*BDB^DB\x0a*DDB^ED\x14*DED^DD\x0a*BDB^DB\x32*DDB^ED\x64*DED^DD\x32*BDB"
_FINISH_INVERSE = b"^BB\x05*BBC"  # B = A^(p - 2)
_FINISH_ROOT = b"^BB\x02*BBA"  # B = A^((p - 5) / 8)

# Registers by their letters; constants, as each name would be kept on a board's heap.
_A = const(65)
_B = const(66)
_C = const(67)
_H = const(72)
_I = const(73)
_J = const(74)
_K = const(75)
_L = const(76)
_N = const(78)
_O = const(79)

_ONE = b"\x01" + bytes(31)
_D = b"\xa3\x78\x59\x13\xca\x4d\xeb\x75\xab\xd8\x41\x41\x4d\x0a\x70\x00\x98\xe8\x79\x77\x79\x40\xc7\x8c\x73\xfe\x6f\x2b\xee\x6c\x03\x52"
_SQRT_M1 = b"\xb0\xa0\x0e\x4a\x27\x1b\xee\xc4\x78\xe4\x2f\xad\x06\x18\x43\x2f\xa7\xd7\xfb\x3d\x99\x00\x4d\x2b\x0b\xdf\xc1\x4f\x80\x24\x83\x2b"


def _run(mem, *programs):
    for program in programs:
        field.run(mem, program)


def scalarmult(n, p):
    """Return n (clamped here) times the point with coordinate p, as 32 bytes; all zeros for a point of small order."""
    mem = field.memory()
    for register, value in ((_H, _ONE), (_J, p), (_K, _ONE), (_L, p)):
        field.load(mem, register, value)
    first, second = field.window(mem, _H, 2), field.window(mem, _J, 2)
    swapped = 0
    run, swap = field.run, limbs.swap
    for i in range(254, -1, -1):
        # Clamping (RFC 7748, section 5): bit 254 is set, bits 0 to 2 are not. These conditions are public.
        bit = 1 if i == 254 else 0 if i < 3 else (n[i >> 3] >> (i & 7)) & 1
        swap(first, second, swapped ^ bit)
        swapped = bit
        run(mem, _LADDER_STEP)
    swap(first, second, swapped)
    return _quotient(mem, b"+AIP", b"*AHB")


def _quotient(mem, denominator, product):
    """Return A = product / denominator as 32 bytes, for programs that set A and multiply by B; x / 0 gives zero."""
    _run(mem, denominator, _POWER_250, _FINISH_INVERSE, product)
    return field.store(mem, _A)


def _start_point(mem):
    """Set the point to the identity (0, 1)."""
    for register, value in ((_H, bytes(32)), (_I, _ONE), (_J, _ONE), (_K, bytes(32)), (_O, _ONE)):
        field.load(mem, register, value)


def _add_comb_column(mem, table, scalar, column):
    """Add the table's entry for the four bits of a 32-byte scalar that stand 64 apart (Lim and Lee, 1994)."""
    byte, shift = column >> 3, column & 7
    bits = 0
    for tooth in range(4):
        bits |= ((scalar[byte + 8 * tooth] >> shift) & 1) << tooth
    entry = bytearray(_ONE + _ONE + bytes(33))
    limbs.pick(entry, table, bits)
    view, registers = memoryview(entry), field.window(mem, _L, 3)
    for i in range(3):
        limbs.to_limbs(registers[80 * i :], view[32 * i :], 20, 255)
    field.run(mem, _ADD_POINT)


def _base_point_times(scalar):
    mem, table = field.memory(), _COMB
    _start_point(mem)
    for column in range(63, -1, -1):
        field.run(mem, _DOUBLE)
        _add_comb_column(mem, table, scalar, column)
    return mem


def _encode(mem):
    """Return the point's 32 bytes (RFC 8032, section 5.1.2)."""
    x = _quotient(mem, b"+AJP", b"*AHB")
    field.run(mem, b"*AIB")  # B still is 1 / Z
    y = bytearray(field.store(mem, _A))
    y[31] |= (x[0] & 1) << 7
    return bytes(y)


def base_edwards(scalar):
    """Return the encoding of scalar times Ed25519's base point; `scalar` is any 32 bytes."""
    return _encode(_base_point_times(scalar))


def base_montgomery(scalar):
    """Return scalar times X25519's base point, by the map u = (1 + y) / (1 - y) (RFC 7748, section 4.1)."""
    return _quotient(_base_point_times(scalar), b"-AJI", b"+GJI*AGB")


# Verification: public data.


def _is_zero(mem, register):
    return field.store(mem, register) == bytes(32)


def _decode(mem, public):
    """Set the point to the one that 32 bytes encode, and say whether there is one (RFC 8032, section 5.1.3)."""
    _start_point(mem)
    field.load(mem, _I, public)
    if field.store(mem, _I) != bytes(public[:31]) + bytes([public[31] & 127]):
        return False
    field.load(mem, _N, _D)
    # F = u = y^2 - 1, G = v = d y^2 + 1, x = u v^3 (u v^7)^((p - 5) / 8).
    _run(mem, b"^FI\x01*GFN+GGO-FFO^HG\x01*HHG^AH\x01*AAG*AAF", _POWER_250, _FINISH_ROOT, b"*HHF*HHB^AH\x01*AAG+BAF-AAF")
    if _is_zero(mem, _B):
        field.load(mem, _C, _SQRT_M1)
        field.run(mem, b"*HHC")
    elif not _is_zero(mem, _A):
        return False
    if field.store(mem, _H)[0] & 1 != public[31] >> 7:
        field.run(mem, b"-HPH")
    field.run(mem, b"*KHI+IIP")  # Y carried, as doubling sums it
    return True


def _small_order(mem):
    """Eight times a point of small order is the identity, the only multiple of 8 with x = 0."""
    _run(mem, _DOUBLE, _DOUBLE, _DOUBLE)
    return _is_zero(mem, _H)


def verification_point(public, s, h):
    """Return the encoding of s B - h A, or None where A or the result is not a point, or of small order."""
    mem, table = field.memory(), _COMB
    if not _decode(mem, public):
        return None
    field.run(mem, b"+RIH-QIH*SKN+SSS-SPS")
    if _small_order(mem):
        return None
    _start_point(mem)
    for i in range(252, -1, -1):
        field.run(mem, _DOUBLE)
        if (h[i >> 3] >> (i & 7)) & 1:
            _run(mem, b"+LQP+MRP+NSP", _ADD_POINT)
        if i < 64:
            _add_comb_column(mem, table, s, i)
    encoded = _encode(mem)
    return None if _small_order(mem) else encoded
