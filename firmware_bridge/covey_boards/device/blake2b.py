"""BLAKE2b-256 with a personalisation (RFC 7693), which names operations of a history. Loaded when orders arrive.

Nothing here is secret, so time may depend on the data: some 25 ms for each 128 bytes on a Cortex-M0.
"""

_INITIAL = (
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
)  # fmt: skip
_ORDER = (
    b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
    b"\x0e\x0a\x04\x08\x09\x0f\x0d\x06\x01\x0c\x00\x02\x0b\x07\x05\x03",
    b"\x0b\x08\x0c\x00\x05\x02\x0f\x0d\x0a\x0e\x03\x06\x07\x01\x09\x04",
    b"\x07\x09\x03\x01\x0d\x0c\x0b\x0e\x02\x06\x05\x0a\x04\x00\x0f\x08",
    b"\x09\x00\x05\x07\x02\x04\x0a\x0f\x0e\x01\x0b\x0c\x06\x08\x03\x0d",
    b"\x02\x0c\x06\x0a\x00\x0b\x08\x03\x04\x0d\x07\x05\x0f\x0e\x01\x09",
    b"\x0c\x05\x01\x0f\x0e\x0d\x04\x0a\x00\x07\x06\x03\x09\x02\x08\x0b",
    b"\x0d\x0b\x07\x0e\x0c\x01\x03\x09\x05\x00\x0f\x04\x08\x06\x02\x0a",
    b"\x06\x0f\x0e\x09\x0b\x03\x00\x08\x0c\x02\x0d\x07\x01\x04\x0a\x05",
    b"\x0a\x02\x08\x04\x07\x06\x01\x05\x0f\x0b\x09\x0e\x03\x0c\x0d\x00",
)
# The four words that each of the eight steps of a round mixes: columns, then diagonals.
_MIXED = (b"\x00\x04\x08\x0c", b"\x01\x05\x09\x0d", b"\x02\x06\x0a\x0e", b"\x03\x07\x0b\x0f",
          b"\x00\x05\x0a\x0f", b"\x01\x06\x0b\x0c", b"\x02\x07\x08\x0d", b"\x03\x04\x09\x0e")  # fmt: skip
_WORD = (1 << 64) - 1


def _compress(state, block, count, last):
    words = [int.from_bytes(block[start : start + 8], "little") for start in range(0, 128, 8)]
    v = state + list(_INITIAL)
    v[12] ^= count
    if last:
        v[14] ^= _WORD
    for number in range(12):
        order = _ORDER[number % 10]
        for step in range(8):
            a, b, c, d = _MIXED[step]
            v[a] = (v[a] + v[b] + words[order[2 * step]]) & _WORD
            turned = v[d] ^ v[a]
            v[d] = (turned >> 32 | turned << 32) & _WORD
            v[c] = (v[c] + v[d]) & _WORD
            turned = v[b] ^ v[c]
            v[b] = (turned >> 24 | turned << 40) & _WORD
            v[a] = (v[a] + v[b] + words[order[2 * step + 1]]) & _WORD
            turned = v[d] ^ v[a]
            v[d] = (turned >> 16 | turned << 48) & _WORD
            v[c] = (v[c] + v[d]) & _WORD
            turned = v[b] ^ v[c]
            v[b] = (turned >> 63 | turned << 1) & _WORD
    for place in range(8):
        state[place] ^= v[place] ^ v[place + 8]


def blake2b_256(data, person):
    """Return the 32 bytes of BLAKE2b of some bytes, personalised by at most 16."""
    state = list(_INITIAL)
    state[0] ^= 0x01010020
    person = person + bytes(16 - len(person))
    state[6] ^= int.from_bytes(person[:8], "little")
    state[7] ^= int.from_bytes(person[8:], "little")
    start = 0
    while len(data) - start > 128:
        _compress(state, data[start : start + 128], start + 128, False)
        start += 128
    rest = bytes(data[start:])
    _compress(state, rest + bytes(128 - len(rest)), len(data), True)
    return b"".join([word.to_bytes(8, "little") for word in state[:4]])
