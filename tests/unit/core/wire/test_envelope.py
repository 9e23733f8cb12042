"""`covey.core.wire.envelope`: sealing, opening, padding."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, NoisePublic
from covey.core.wire import cbor, envelope
from covey.errors import DecryptionError, LimitError, MalformedError, RemoteError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES, MAXIMUM_MESSAGE_BYTES
from tests.vectors import load, vectors

_KEYS = load("envelopes")["keys"]
_SECRET = bytes.fromhex(_KEYS["bob"]["noise_secret"])
_PUBLIC = NoisePublic(bytes.fromhex(_KEYS["bob"]["noise_public"]))


def _opened(raw: bytes, secret: bytes) -> bytes:
    """Open an envelope as who has no link keys, and so takes sealed ones alone."""
    read = envelope.read_envelope(raw)
    if not isinstance(read, envelope.SealedEnvelope):
        raise MalformedError("not a sealed envelope")
    return read.open(secret)


@pytest.mark.parametrize("vector", vectors("envelopes"))
def test_vectors(vector: dict[str, Any]) -> None:  # accepts: 000.06, 002.01
    recipient = _KEYS[vector["recipient"]]
    raw, secret = bytes.fromhex(vector["bytes"]), bytes.fromhex(recipient["noise_secret"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            _opened(raw, secret)
        assert caught.value.code == vector["code"]
        return
    message = bytes.fromhex(vector["message"])
    keys = NoisePublic(bytes.fromhex(recipient["noise_public"])), bytes.fromhex(vector["ephemeral_secret"])
    assert envelope.seal(message, *keys, bytes.fromhex(vector["nonce"])) == raw
    assert _opened(raw, secret) == message


@pytest.mark.parametrize("vector", load("envelopes")["for_signing_keys"])
def test_an_envelope_for_a_signing_key(vector: dict[str, Any]) -> None:
    seed = bytes.fromhex(_KEYS[vector["recipient"]]["signing_seed"])
    bob = Identity.from_seeds(seed, bytes(31) + b"\1")
    message, ephemeral, nonce = (bytes.fromhex(vector[each]) for each in ("message", "ephemeral_secret", "nonce"))
    sealed = envelope.seal(message, crypto.sealing_key(bob.signing_public), ephemeral, nonce)
    assert sealed.hex() == vector["bytes"]
    assert _opened(sealed, bob.sealing_secret) == message


@pytest.mark.parametrize("unusable", [bytes(32), b"\1" + bytes(31), b"\xff" * 32, b"short"])
def test_nothing_is_sealed_for_a_key_that_signs_nothing(unusable: bytes) -> None:
    with pytest.raises(MalformedError):
        crypto.sealing_key(DeviceKey(unusable))


@pytest.mark.parametrize(("length", "padded"), load("envelopes")["padded"])
def test_padded_lengths(length: int, padded: int) -> None:  # accepts: 000.10
    assert envelope.padded_length(length) == padded


def test_every_failure_to_open_looks_alike() -> None:
    good = envelope.seal(b"hello", _PUBLIC, b"\x01" * 32, bytes(24))
    ephemeral, nonce, ciphertext = good[2:], bytes(24), good[-80:]
    attempts = [
        good[:-1] + bytes([good[-1] ^ 1]),
        cbor.encode([1, crypto.scalar_base(b"\x02" * 32), nonce, ciphertext]),
        cbor.encode([1, bytes(32), nonce, ciphertext]),
        cbor.encode([1, crypto.scalar_base(b"\x01" * 32), nonce, ciphertext[:10]]),
    ]
    assert ephemeral
    said = set()
    for raw in attempts:
        with pytest.raises(DecryptionError) as caught:
            _opened(raw, _SECRET)
        said.add(str(caught.value))
    assert len(said) == 1


def test_a_relay_sees_unrelated_bytes() -> None:  # accepts: 001.04, 000.25, 002.02
    message = bytes.fromhex(_KEYS["alice"]["signing_public"]) * 3
    envelopes = [envelope.seal(message, _PUBLIC, bytes([n]) * 32, bytes([n]) * 24) for n in range(1, 9)]
    assert len({raw[6:38] for raw in envelopes}) == 8, "a fresh key each"
    for raw in envelopes:
        assert message[:16] not in raw
        assert _PUBLIC[:16] not in raw


def test_the_largest_message_passes_and_one_byte_more_does_not() -> None:  # accepts: 002.37
    raw = envelope.seal(bytes(MAXIMUM_MESSAGE_BYTES), _PUBLIC, b"\x01" * 32, bytes(24))
    assert len(raw) <= MAXIMUM_ENVELOPE_BYTES
    assert _opened(raw, _SECRET) == bytes(MAXIMUM_MESSAGE_BYTES)
    with pytest.raises(LimitError):
        envelope.seal(bytes(MAXIMUM_MESSAGE_BYTES + 1), _PUBLIC, b"\x01" * 32, bytes(24))


def test_an_oversize_envelope_is_refused_unparsed() -> None:  # accepts: 002.37
    with pytest.raises(LimitError):
        envelope.read_envelope(b"\xff" * (MAXIMUM_ENVELOPE_BYTES + 1))


def test_nothing_is_sealed_for_a_key_of_small_order() -> None:
    with pytest.raises(DecryptionError):
        envelope.seal(b"hello", NoisePublic(bytes(32)), b"\x01" * 32, bytes(24))
