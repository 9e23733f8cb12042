"""TweetNaCl's functions on CPython: PyNaCl's bytes, from PyNaCl and from the plain Python that boards fall back to."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from covey_boards.shared import tweetnacl as nacl
from covey_boards.shared import tweetnacl_core as core
from covey_boards.shared import tweetnacl_plain as plain
from covey_boards.shared import tweetnacl_soft as soft
from covey_boards.shared import tweetnacl_tables as tables
from hil import vectors
from hil.on_board import vector_runner
from tests.examples import examples

KEYS = st.binary(min_size=32, max_size=32)
NONCES = st.binary(min_size=24, max_size=24)
MESSAGES = st.binary(max_size=300)


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it loads what is seldom used, a board collects its heap of some kilobytes; here it would be all tests'."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.mark.parametrize("source", vectors.SOURCES)
def test_vectors(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(vectors.lines(source)) + "\n")
    vector_runner.run(path)
    count = sum(1 for line in vectors.lines(source) if not line.startswith("#"))
    assert capsys.readouterr().out == f"libsodium {count}/{count}\n"


@examples(30)
@given(KEYS, KEYS)
def test_plain_x25519(scalar: bytes, point: bytes) -> None:
    assert plain.scalarmult(scalar, bindings.crypto_scalarmult_base(point)) == bindings.crypto_scalarmult(
        scalar, bindings.crypto_scalarmult_base(point)
    )
    assert soft.scalarmult_base(scalar) == bindings.crypto_scalarmult_base(scalar)


@pytest.mark.slow
@examples(30)
@given(KEYS, MESSAGES, st.integers(0, 511))
def test_plain_signatures(seed: bytes, message: bytes, bit: int) -> None:
    public, secret = soft.sign_seed_keypair(seed)
    assert (public, secret) == bindings.crypto_sign_seed_keypair(seed)
    signature = soft.sign_detached(message, secret)
    assert signature + message == bindings.crypto_sign(message, secret)
    assert soft.sign_verify_detached(signature, message, public)
    damaged = bytearray(signature)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    assert not soft.sign_verify_detached(bytes(damaged), message, public)


@examples(50)
@given(MESSAGES, NONCES, KEYS)
def test_plain_secretbox(message: bytes, nonce: bytes, key: bytes) -> None:
    box = soft.secretbox(message, nonce, key)
    assert box == bindings.crypto_secretbox(message, nonce, key)
    assert soft.secretbox_open(box, nonce, key) == message
    assert soft.secretbox_open(b"\0" + box, nonce, key) is None


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_plain_hash_of_parts(parts: list[bytes]) -> None:
    assert soft.sha512(*parts) == bindings.crypto_hash(b"".join(parts))


def test_box_round_trip_and_its_two_steps() -> None:
    public, secret = nacl.crypto_box_keypair()
    their_public, their_secret = nacl.crypto_box_keypair()
    nonce = bytes(24)
    box = nacl.crypto_box(b"reading", nonce, their_public, secret)
    assert nacl.crypto_box_open(box, nonce, public, their_secret) == b"reading"
    key = nacl.crypto_box_beforenm(their_public, secret)
    assert nacl.crypto_box_afternm(b"reading", nonce, key) == box
    assert nacl.crypto_box_open_afternm(box, nonce, key) == b"reading"


def test_stream_and_tag() -> None:
    key, nonce = bytes(range(32)), bytes(24)
    stream = nacl.crypto_stream(80, nonce, key)
    assert nacl.crypto_stream_xor(stream, nonce, key) == bytes(80)
    box = nacl.crypto_secretbox(bytes(48), nonce, key)
    assert box == nacl.crypto_onetimeauth(stream[32:80], stream[:32]) + stream[32:80]
    nacl.crypto_onetimeauth_verify(box[:16], stream[32:80], stream[:32])
    with pytest.raises(nacl.CryptoError):
        nacl.crypto_onetimeauth_verify(bytes(16), stream[32:80], stream[:32])


def test_verify_says_true_or_false() -> None:
    assert nacl.crypto_verify_16(bytes(16), bytes(16)) is True
    assert nacl.crypto_verify_32(bytes(32), bytes(31) + b"\1") is False


@pytest.mark.parametrize(
    "call",
    [
        lambda: nacl.crypto_secretbox(b"", bytes(23), bytes(32)),
        lambda: nacl.crypto_secretbox(b"", bytes(24), bytes(31)),
        lambda: nacl.crypto_scalarmult(bytes(31), bytes(32)),
        lambda: nacl.crypto_sign(b"", bytes(32)),
        lambda: nacl.crypto_sign_open(bytes(64), bytes(33)),
        lambda: nacl.crypto_verify_16(bytes(16), bytes(15)),
        lambda: nacl.crypto_core_salsa20(bytes(15), bytes(32)),
        lambda: nacl.crypto_stream_salsa20(5, bytes(24), bytes(32)),
        lambda: nacl.crypto_hashblocks(bytes(63), b""),
    ],
)
def test_wrong_lengths_are_the_callers_mistake(call: object) -> None:
    with pytest.raises(ValueError, match="bytes expected") as caught:
        call()  # type: ignore[operator]
    assert not isinstance(caught.value, nacl.CryptoError)


BUFFERS = {
    "secretbox": lambda of: nacl.crypto_secretbox(of(bytes(40)), of(bytes(24)), of(bytes(32))),
    "secretbox_open": lambda of: nacl.crypto_secretbox_open(
        of(nacl.crypto_secretbox(bytes(40), bytes(24), bytes(32))), of(bytes(24)), of(bytes(32))
    ),
    "beforenm": lambda of: nacl.crypto_box_beforenm(of(b"\x09" + bytes(31)), of(bytes(32))),
    "scalarmult": lambda of: nacl.crypto_scalarmult(of(bytes(32)), of(b"\x09" + bytes(31))),
    "scalarmult_base": lambda of: nacl.crypto_scalarmult_base(of(bytes(32))),
    "sign": lambda of: nacl.crypto_sign(of(b"message"), of(bytes(64))),
    "sign_open": lambda of: nacl.crypto_sign_open(
        of(nacl.crypto_sign(b"message", nacl.crypto_sign_seed_keypair(bytes(32))[1])),
        of(nacl.crypto_sign_seed_keypair(bytes(32))[0]),
    ),
    "hash": lambda of: nacl.crypto_hash(of(b"message")),
    "onetimeauth": lambda of: nacl.crypto_onetimeauth(of(b"message"), of(bytes(32))),
    "stream_xor": lambda of: nacl.crypto_stream_xor(of(b"message"), of(bytes(24)), of(bytes(32))),
    "verify_16": lambda of: nacl.crypto_verify_16(of(bytes(16)), of(bytes(16))),
    "core_salsa20": lambda of: nacl.crypto_core_salsa20(of(bytes(16)), of(bytes(32)), of(bytes(16))),
    "stream_salsa20_xor": lambda of: nacl.crypto_stream_salsa20_xor(of(b"message"), of(bytes(8)), of(bytes(32))),
    "hashblocks": lambda of: nacl.crypto_hashblocks(of(bytes(64)), of(bytes(128))),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_any_buffer_is_taken_and_nothing_else(name: str) -> None:
    call = BUFFERS[name]
    for kind in (bytearray, memoryview):
        assert call(kind) == call(bytes)
        assert type(call(kind)) is type(call(bytes))
    for wrong in (lambda data: data.decode("latin-1"), list, len):
        with pytest.raises(TypeError):
            call(wrong)


def test_the_cores_below_the_boxes() -> None:
    # "Cryptography in NaCl", section 8: the key of a box out of the secret that Alice and Bob share, and what follows.
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    first = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    assert nacl.crypto_core_hsalsa20(bytes(16), shared) == first
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    second = nacl.crypto_core_hsalsa20(nonce[:16], first)
    assert second.hex() == "dc908dda0b9344a953629b733820778880f3ceb421bb61b91cbd4c3e66256ce4"
    stream = nacl.crypto_stream_salsa20(130, nonce[16:], second)
    assert stream == nacl.crypto_stream(130, nonce, first)
    blocks = [nacl.crypto_core_salsa20(nonce[16:] + n.to_bytes(8, "little"), second) for n in range(3)]
    assert b"".join(blocks)[:130] == stream
    assert nacl.crypto_stream_salsa20_xor(stream, nonce[16:], second) == bytes(130)
    # Salsa20 specification, section 9: a key of 16 bytes is a key of 32 under another constant.
    key, block = bytes(range(1, 17)), bytes(range(101, 117))
    out = nacl.crypto_core_salsa20(block, key + key, b"expand 16-byte k")
    assert out[:8] == bytes([39, 173, 46, 248, 30, 200, 82, 17])


@given(st.binary(max_size=300))
def test_blocks_make_the_hash(message: bytes) -> None:
    padded = message + b"\x80" + bytes((111 - len(message)) % 128) + (len(message) * 8).to_bytes(16, "big")
    whole = len(message) & ~127
    state = nacl.crypto_hashblocks(tables.SHA512_INITIAL, message)
    assert state == nacl.crypto_hashblocks(tables.SHA512_INITIAL, message[:whole])
    assert nacl.crypto_hashblocks(state, padded[whole:]) == nacl.crypto_hash(message)


def test_sizes_are_those_of_nacl() -> None:
    for name in dir(core):
        if name.startswith("crypto_") and name.endswith("BYTES") and hasattr(bindings, name):
            assert getattr(nacl, name) == getattr(bindings, name), name
    assert nacl.crypto_sign_BYTES == len(nacl.crypto_sign_detached(b"", bytes(64))) == 64
    assert nacl.crypto_box_ZEROBYTES - nacl.crypto_box_BOXZEROBYTES == nacl.crypto_onetimeauth_BYTES
    assert nacl.crypto_box_PRIMITIVE == "curve25519xsalsa20poly1305"
    assert not hasattr(nacl, "crypto_sign_COLOUR")


def test_random_bytes_are_injected() -> None:
    try:
        nacl.set_randombytes(lambda n: b"\x07" * n)
        assert nacl.crypto_sign_keypair() == bindings.crypto_sign_seed_keypair(b"\x07" * 32)
        nacl.set_randombytes(None)
        with pytest.raises(nacl.CryptoError):
            nacl.crypto_box_keypair()
    finally:
        nacl.set_randombytes(os.urandom)


def test_the_mip_package_lists_every_module_that_a_board_needs() -> None:
    import json

    folder = Path(plain.__file__).parent
    listed = {name for name, _ in json.loads((folder / "package.json").read_text())["urls"]}
    assert listed == {path.name for path in folder.glob("tweetnacl*.py")} - {"tweetnacl_sodium.py"}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["published", "wycheproof-ed25519"])
def test_plain_verification_refuses_what_libsodium_refuses(source: str) -> None:
    for line in vectors.lines(source):
        if line.startswith("verify"):
            signature, message, public = (vector_runner._bytes(field) for field in line.split()[1:4])
            if len(signature) == 64:
                holds = soft.sign_verify_detached(signature, message, public)
                assert holds == (line.split()[4] != "refused"), line


def test_plain_x25519_gives_zeros_for_points_of_small_order() -> None:
    refused = [line.split() for line in vectors.lines("published") if line.startswith("scalarmult ")]
    for _, scalar, point, answer in refused:
        got = soft.scalarmult(bytes.fromhex(scalar), bytes.fromhex(point))
        assert got.hex() == ("00" * 32 if answer == "refused" else answer)


def test_a_key_that_is_not_canonical_is_no_point() -> None:
    # Nobody can sign for such a key, so no signature can show that it is refused for its encoding alone.
    s = h = (1).to_bytes(32, "little")
    accepted = [k for k in range(2, 19) if plain.verification_point(k.to_bytes(32, "little"), s, h)]
    assert accepted
    for k in accepted:
        assert plain.verification_point((plain.P + k).to_bytes(32, "little"), s, h) is None
