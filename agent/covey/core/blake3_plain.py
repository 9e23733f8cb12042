"""BLAKE3 in pure Python, for machines without the package `blake3` (Debian has none): tens of MB/s instead of GB/s.

A file's chunks of 1,024 bytes are hashed independently, and so are the nodes of each level of the tree above them. So
one Python integer holds the same 32-bit word of many chunks, each in a lane of 64 bits, and one addition or rotation of
that integer serves all of them: 128 chunks share the interpreter's cost of each operation.

1. Lanes are little-endian, as message words are: bytes are copied into them, never interpreted.
2. The upper half of a lane is zero between operations. A lane has room for a sum of three words, and for a word shifted
   left by at most 25 bits. A mask removes bits that a right shift moves into the lane below.
3. The last chunk waits in the buffer until `digest`, because only then is it known which node is the root.

Source: the BLAKE3 paper (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020), sections 2.1 to 2.6. Only its hash mode.
"""

from __future__ import annotations

import struct
from functools import cache

_INITIAL = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTED = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXED = (
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),  # columns
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),  # diagonals
)
_ROUNDS = 7

_BLOCK_BYTES = 64
_CHUNK_BYTES = 1024
_GROUP_BYTES = 128 * _CHUNK_BYTES
"""A whole subtree, hashed at once; more lanes are hardly faster, and no longer fit a small processor's cache."""

_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8

_Words = list[int]
"""Words of as many nodes as there are lanes."""


class PlainBlake3:
    """A hash of what `update` is given; the part of the package's class that Covey uses."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = bytearray()
        self._groups = 0
        self._subtrees: list[_Words] = []  # from left to right, each with fewer groups than the one before

    def update(self, content: bytes | bytearray | memoryview) -> None:
        """Append to what is hashed."""
        with memoryview(content) as given, given.cast("B") as view:
            at = 0
            while len(self._rest) + len(view) - at > _GROUP_BYTES:
                taken = _GROUP_BYTES - len(self._rest)
                self._rest += view[at : at + taken]
                at += taken
                self._take_group()
            self._rest += view[at:]

    def _take_group(self) -> None:
        words, lanes = _chunks(self._rest, self._groups * _GROUP_BYTES // _CHUNK_BYTES), _GROUP_BYTES // _CHUNK_BYTES
        self._rest = bytearray()
        self._groups += 1
        node = _joined(words, lanes, 0)
        larger = self._groups
        while larger % 2 == 0:
            node = _parent(self._subtrees.pop(), node, 0)
            larger //= 2
        self._subtrees.append(node)

    def digest(self) -> bytes:
        """Return the 32 bytes of the hash of what was given so far."""
        root = 0 if self._subtrees else _ROOT
        first = self._groups * _GROUP_BYTES // _CHUNK_BYTES
        whole, part = divmod(len(self._rest), _CHUNK_BYTES)
        if whole + bool(part) <= 1:
            node = _chunk(self._rest, first, root)
        else:
            words = _chunks(self._rest[: whole * _CHUNK_BYTES], first)
            if part:
                words = _appended(words, whole, _chunk(self._rest[whole * _CHUNK_BYTES :], first + whole, 0))
            node = _joined(words, whole + bool(part), root)
        for place, left in reversed(list(enumerate(self._subtrees))):
            node = _parent(left, node, 0 if place else _ROOT)
        return struct.pack("<8I", *node)


@cache
def _ones(lanes: int) -> int:
    return int.from_bytes(b"\1\0\0\0\0\0\0\0" * lanes, "little")


@cache
def _numbers(lanes: int) -> int:
    return int.from_bytes(struct.pack(f"<{lanes}Q", *range(lanes)), "little")


def _orders() -> list[tuple[int, ...]]:
    orders = [tuple(range(16))]
    for _ in range(_ROUNDS - 1):
        orders.append(tuple(orders[-1][place] for place in _PERMUTED))
    return orders


_ORDERS = _orders()


def _compressed(chained: _Words, message: _Words, counter: int, size: int, flags: int, lanes: int) -> _Words:
    """Compress a block of each lane: the paper's function, section 2.2, to its first eight words."""
    one = _ones(lanes)
    mask = one * 0xFFFFFFFF
    v = [
        *chained,
        *(one * word for word in _INITIAL[:4]),
        counter & mask,
        counter >> 32 & mask,
        one * size,
        one * flags,
    ]
    for order in _ORDERS:
        for place, (i, j, k, m) in enumerate(_MIXED):
            a, b, c, d = v[i], v[j], v[k], v[m]
            a = (a + b + message[order[2 * place]]) & mask
            d ^= a
            d = (d >> 16 | d << 16) & mask
            c = (c + d) & mask
            b ^= c
            b = (b >> 12 | b << 20) & mask
            a = (a + b + message[order[2 * place + 1]]) & mask
            d ^= a
            d = (d >> 8 | d << 24) & mask
            c = (c + d) & mask
            b ^= c
            v[i], v[j], v[k], v[m] = a, (b >> 7 | b << 25) & mask, c, d
    return [v[place] ^ v[place + 8] for place in range(8)]


def _chunks(content: bytearray, first: int) -> _Words:
    """Hash whole chunks, side by side; `first` is the first one's number."""
    lanes = len(content) // _CHUNK_BYTES
    chained = [_ones(lanes) * word for word in _INITIAL]
    counter = _numbers(lanes) + _ones(lanes) * first
    blocks = _CHUNK_BYTES // _BLOCK_BYTES
    lane_bytes = bytearray(8 * lanes)
    with memoryview(content) as view, view.cast("I") as words, memoryview(lane_bytes).cast("I") as lane_words:
        for block in range(blocks):
            message = []
            for word in range(16):
                lane_words[::2] = words[block * 16 + word :: _CHUNK_BYTES // 4]
                message.append(int.from_bytes(lane_bytes, "little"))
            flags = (0 if block else _CHUNK_START) | (_CHUNK_END if block == blocks - 1 else 0)
            chained = _compressed(chained, message, counter, _BLOCK_BYTES, flags, lanes)
    return chained


def _chunk(content: bytearray, number: int, root: int) -> _Words:
    chained = [*_INITIAL]
    last = max(0, len(content) - 1) // _BLOCK_BYTES
    for block in range(last + 1):
        part = content[block * _BLOCK_BYTES : (block + 1) * _BLOCK_BYTES]
        message = [*struct.unpack("<16I", part.ljust(_BLOCK_BYTES, b"\0"))]
        flags = (0 if block else _CHUNK_START) | (_CHUNK_END | root if block == last else 0)
        chained = _compressed(chained, message, number, len(part), flags, 1)
    return chained


def _parent(left: _Words, right: _Words, root: int, lanes: int = 1) -> _Words:
    return _compressed([_ones(lanes) * word for word in _INITIAL], left + right, 0, _BLOCK_BYTES, _PARENT | root, lanes)


def _joined(nodes: _Words, lanes: int, root: int) -> _Words:
    while lanes > 1:
        pairs = lanes // 2
        lefts, rights = (_every_second(nodes, lanes, start, pairs) for start in (0, 1))
        above = _parent(lefts, rights, root if lanes == 2 else 0, pairs)
        if lanes % 2:
            above = _appended(above, pairs, [word >> 64 * (lanes - 1) for word in nodes])
        nodes, lanes = above, pairs + lanes % 2
    return nodes


def _every_second(nodes: _Words, lanes: int, start: int, pairs: int) -> _Words:
    found = []
    for word in nodes:
        with memoryview(word.to_bytes(8 * lanes, "little")) as view, view.cast("Q") as each:
            found.append(int.from_bytes(each[start : 2 * pairs : 2].tobytes(), "little"))
    return found


def _appended(nodes: _Words, lanes: int, last: _Words) -> _Words:
    return [word | more << 64 * lanes for word, more in zip(nodes, last, strict=True)]
