"""`covey.core.blake3_plain` says what the package says, whatever the length and however it comes in pieces."""

from __future__ import annotations

from random import Random

import pytest
from blake3 import blake3

from covey.core.blake3_plain import PlainBlake3

_CHUNK, _GROUP = 1024, 128 * 1024
_LENGTHS = [
    *(0, 1, 3, 63, 64, 65, 127, 128, _CHUNK - 1, _CHUNK, _CHUNK + 1, 2 * _CHUNK, 2 * _CHUNK + 1, 3 * _CHUNK),
    *(5 * _CHUNK + 7, 31 * _CHUNK, 64 * _CHUNK, 64 * _CHUNK + 16, 127 * _CHUNK + 1, _GROUP - 1, _GROUP, _GROUP + 1),
    *(_GROUP + _CHUNK, 2 * _GROUP, 2 * _GROUP + 1, 3 * _GROUP + 5, 4 * _GROUP, 7 * _GROUP + 2 * _CHUNK + 3),
]


@pytest.mark.parametrize("length", _LENGTHS)
def test_it_says_what_the_package_says(length: int) -> None:
    content = Random(length).randbytes(length)
    plain = PlainBlake3()
    plain.update(content)
    assert plain.digest() == blake3(content).digest()


@pytest.mark.parametrize("seed", range(4))
def test_pieces_of_any_size_and_an_early_digest_change_nothing(seed: int) -> None:
    random = Random(seed)
    content = random.randbytes(3 * _GROUP + random.randrange(_GROUP))
    plain, at = PlainBlake3(), 0
    while at < len(content):
        size = random.choice([0, 1, 64, 1000, _CHUNK, 65_536, _GROUP, _GROUP + 1])
        plain.update(memoryview(content)[at : at + size])
        at += size
        if random.random() < 0.2:
            assert plain.digest() == blake3(content[:at]).digest()
    assert plain.digest() == blake3(content).digest()


def test_the_published_vector() -> None:
    """The one of an empty input in BLAKE3's test_vectors.json, and of 1,025 bytes: neither asks the package."""
    assert PlainBlake3().digest().hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    plain = PlainBlake3()
    plain.update(bytes(place % 251 for place in range(1025)))
    assert plain.digest().hex() == "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"
