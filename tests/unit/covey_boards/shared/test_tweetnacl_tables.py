"""Every byte of the constant tables, derived again from its definition."""

from __future__ import annotations

import re
from math import isqrt
from pathlib import Path

from covey_boards.shared import tweetnacl_tables as tables
from covey_boards.shared.tweetnacl_plain import _D, P

NATIVE = Path(__file__).parents[4] / "firmware_bridge" / "native" / "tweetnacl"

# RFC 8032, section 5.1: the base point.
BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    """Add two points by the affine formulas of RFC 8032, section 5.1.4."""
    (x1, y1), (x2, y2) = a, b
    k = _D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def times_two_to_the_64(point: Point) -> Point:
    for _ in range(64):
        point = add(point, point)
    return point


def test_the_comb_is_what_it_says() -> None:
    teeth = [BASE]
    while len(teeth) < 4:
        teeth.append(times_two_to_the_64(teeth[-1]))
    expected = b""
    for entry in range(1, 16):
        point = (0, 1)
        for tooth in range(4):
            if entry >> tooth & 1:
                point = add(point, teeth[tooth])
        x, y = point
        expected += b"".join(n.to_bytes(32, "little") for n in ((y + x) % P, (y - x) % P, 2 * _D * x * y % P))
    assert expected == tables.COMB


def test_the_native_module_has_the_same_comb() -> None:
    written = re.findall(r"\b0x[0-9a-f]{2}\b", (NATIVE / "comb.h").read_text())
    assert bytes(int(byte, 16) for byte in written) == tables.COMB


def cube_root(n: int) -> int:
    low, high = 0, 1 << 100
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**3 > n else (middle, high)
    return low


def test_sha512_constants_are_fractions_of_roots_of_primes() -> None:
    primes = [n for n in range(2, 410) if all(n % q for q in range(2, n))]
    mask = (1 << 64) - 1
    roots = b"".join((cube_root(n << 192) & mask).to_bytes(8, "big") for n in primes[:80])
    squares = b"".join((isqrt(n << 128) & mask).to_bytes(8, "big") for n in primes[:8])
    assert (roots, squares) == (tables.SHA512_CONSTANTS, tables.SHA512_INITIAL)
