"""`covey.core.crypto`: Wycheproof's vectors through our own functions, and what ours add."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from nacl.bindings import crypto_secretbox

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, NoisePublic
from covey.errors import DecryptionError, LimitError, MalformedError, SignatureError
from tests.vectors import HERE, load

_MASK = 0xFFFFFFFF


def _wycheproof(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (group, test) of a Wycheproof file."""
    parsed = json.loads((HERE / "wycheproof" / f"{name}.json").read_text(encoding="utf-8"))
    count = 0
    for group in parsed["testGroups"]:
        for test in group["tests"]:
            count += 1
            yield group, test
    assert count == parsed["numberOfTests"]


def _octets(test: dict[str, Any], key: str) -> bytes:
    return bytes.fromhex(test[key])


def test_wycheproof_ed25519() -> None:  # accepts: 000.07
    for group, test in _wycheproof("ed25519_test"):
        arguments = _octets(test, "msg"), _octets(test, "sig"), DeviceKey(_octets(group["publicKey"], "pk"))
        if test["result"] == "valid":
            crypto.verify_exactly(*arguments)
        else:
            with pytest.raises(SignatureError):
                crypto.verify_exactly(*arguments)


def test_wycheproof_hkdf() -> None:  # accepts: 002.20
    for _, test in _wycheproof("hkdf_sha256_test"):
        arguments = _octets(test, "ikm"), _octets(test, "salt"), _octets(test, "info"), test["size"]
        if test["result"] == "valid":
            assert crypto.hkdf_sha256(*arguments).hex() == test["okm"], test["tcId"]
        else:
            with pytest.raises(LimitError):
                crypto.hkdf_sha256(*arguments)


def test_wycheproof_xchacha20_poly1305() -> None:  # accepts: 002.20
    for _, test in _wycheproof("xchacha20_poly1305_test"):
        key, nonce, associated = _octets(test, "key"), _octets(test, "iv"), _octets(test, "aad")
        plaintext, sealed = _octets(test, "msg"), _octets(test, "ct") + _octets(test, "tag")
        if test["result"] == "valid":
            assert crypto.aead_seal(plaintext, associated, nonce, key) == sealed, test["tcId"]
            assert crypto.aead_open(sealed, associated, nonce, key) == plaintext, test["tcId"]
        else:
            with pytest.raises(DecryptionError):
                crypto.aead_open(sealed, associated, nonce, key)


def _hsalsa20(key: bytes) -> bytes:
    """HSalsa20 of a zero nonce: what NaCl's box makes of X25519's result (Bernstein, "Cryptography in NaCl")."""
    constants = struct.unpack("<4I", b"expand 32-byte k")
    words = struct.unpack("<8I", key)
    state = [constants[0], *words[:4], constants[1], 0, 0, 0, 0, constants[2], *words[4:], constants[3]]
    columns = [(0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11)]
    rows = [(0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)]
    for _ in range(10):
        for a, b, c, d in columns + rows:
            for target, one, other, shift in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
                total = (state[one] + state[other]) & _MASK
                state[target] ^= ((total << shift) | (total >> (32 - shift))) & _MASK
    return struct.pack("<8I", *(state[index] for index in (0, 5, 10, 15, 6, 7, 8, 9)))


def test_wycheproof_x25519_through_the_box() -> None:  # accepts: 000.06
    nonce = bytes(range(24))
    for _, test in _wycheproof("x25519_test"):
        public, secret, shared = _octets(test, "public"), _octets(test, "private"), _octets(test, "shared")
        if shared == bytes(32):
            with pytest.raises(DecryptionError):
                crypto.box_seal(b"covey", nonce, public, secret)
            continue
        box = crypto.box_seal(b"covey", nonce, public, secret)
        assert box == crypto_secretbox(b"covey", nonce, _hsalsa20(shared)), test["tcId"]
        assert crypto.box_open(box, nonce, public, secret) == b"covey"


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_an_identity_follows_from_its_secrets(name: str) -> None:  # accepts: 000.03
    expected = load("messages")["keys"][name]
    identity = Identity.from_seeds(_octets(expected, "signing_seed"), _octets(expected, "noise_secret"))
    assert identity.signing_public.hex() == expected["signing_public"]
    assert identity.noise_public.hex() == expected["noise_public"]
    assert identity.signing_seed.hex() == expected["signing_seed"]
    assert crypto.scalar_base(identity.noise_secret) == identity.keys.noise_public


@pytest.mark.parametrize("lengths", [(31, 32), (32, 31), (0, 0), (64, 32)])
def test_secrets_have_32_bytes(lengths: tuple[int, int]) -> None:
    with pytest.raises(MalformedError):
        Identity.from_seeds(bytes(lengths[0]), bytes(lengths[1]))


def test_secrets_are_not_shown() -> None:  # accepts: 002.32
    identity = Identity.from_seeds(b"\xa5" * 32, b"\x5a" * 32)
    shown = repr(identity) + str(identity)
    assert repr(identity.signing_secret) not in shown
    assert repr(identity.noise_secret) not in shown
    assert repr(identity.signing_seed)[2:-1] not in shown
    assert repr(identity.signing_public) in shown


def test_a_signature_is_of_one_domain() -> None:
    identity = Identity.from_seeds(b"\x01" * 32, b"\x02" * 32)
    signature = crypto.sign(b"covey/1 a", b"content", identity)
    crypto.verify(b"covey/1 a", b"content", signature, identity.signing_public)
    crypto.verify_exactly(b"covey/1 a\0content", signature, identity.signing_public)
    for domain, content in [(b"covey/1 b", b"content"), (b"covey/1 a\0", b"content"), (b"", b"covey/1 a\0content")]:
        with pytest.raises(SignatureError):
            crypto.verify(domain, content, signature, identity.signing_public)
    for cut in (signature[:-1], signature + b"\0", b""):
        with pytest.raises(SignatureError):
            crypto.verify(b"covey/1 a", b"content", cut, identity.signing_public)


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), bytes(31), b"", b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_a_key_that_nothing_can_be_sealed_for_is_refused(public: NoisePublic) -> None:
    with pytest.raises(MalformedError):
        crypto.check_noise_key(public)
    with pytest.raises(DecryptionError):
        crypto.box_seal(b"x", bytes(24), public, b"\x07" * 32)


def test_a_key_that_something_can_be_sealed_for_is_not() -> None:
    crypto.check_noise_key(NoisePublic(crypto.scalar_base(b"\x07" * 32)))


def test_a_key_has_one_spelling() -> None:
    public = crypto.scalar_base(b"\x07" * 32)
    assert crypto.is_reduced(public)
    assert not crypto.is_reduced(public[:31] + bytes([public[31] | 0x80]))
    assert not crypto.is_reduced((2**255 - 19 + 9).to_bytes(32, "little"))
    with pytest.raises(MalformedError):
        crypto.check_noise_key(NoisePublic((2**255 - 19 + 9).to_bytes(32, "little")))


def test_digests_are_of_one_domain() -> None:
    assert len(crypto.digest(b"covey/1 a", b"x")) == 32
    assert crypto.digest(b"covey/1 a", b"x") != crypto.digest(b"covey/1 b", b"x")


def test_secrets_are_compared() -> None:
    assert crypto.same(b"abc", b"abc")
    assert not crypto.same(b"abc", b"abd")
    assert not crypto.same(b"abc", b"ab")
