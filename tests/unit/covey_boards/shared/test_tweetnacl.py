"""TweetNaCl's functions on CPython: PyNaCl's bytes, from PyNaCl and from the plain Python that boards fall back to."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl import bindings

from covey_boards.shared import tweetnacl as nacl
from covey_boards.shared import tweetnacl_plain as plain
from covey_boards.shared import tweetnacl_soft as soft
from hil import vector_runner, vectors

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


@settings(max_examples=30, deadline=None)
@given(KEYS, KEYS)
def test_plain_x25519(scalar: bytes, point: bytes) -> None:
    assert plain.scalarmult(scalar, bindings.crypto_scalarmult_base(point)) == bindings.crypto_scalarmult(
        scalar, bindings.crypto_scalarmult_base(point)
    )
    assert soft.scalarmult_base(scalar) == bindings.crypto_scalarmult_base(scalar)


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=50, deadline=None)
@given(MESSAGES, NONCES, KEYS)
def test_plain_secretbox(message: bytes, nonce: bytes, key: bytes) -> None:
    box = soft.secretbox(message, nonce, key)
    assert box == bindings.crypto_secretbox(message, nonce, key)
    assert soft.secretbox_open(box, nonce, key) == message
    assert soft.secretbox_open(b"\0" + box, nonce, key) is None


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_plain_hash_of_parts(parts: list[bytes]) -> None:
    assert soft._sha512_parts(*parts) == bindings.crypto_hash(b"".join(parts))


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
    ],
)
def test_wrong_lengths_are_the_callers_mistake(call: object) -> None:
    with pytest.raises(ValueError, match="bytes expected") as caught:
        call()  # type: ignore[operator]
    assert not isinstance(caught.value, nacl.CryptoError)


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
