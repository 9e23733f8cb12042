"""Padding and sealing of any message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.wire import envelope
from covey.errors import DecryptionError, MalformedError, RemoteError
from covey.limits.message import MAXIMUM_MESSAGE_BYTES
from tests.vectors.makers.cast import ALICE, BOB

messages = st.binary(max_size=400) | st.binary(max_size=40).map(lambda raw: raw + b"\x80" + bytes(len(raw)))


@given(messages)
def test_padding_comes_off(message: bytes) -> None:
    padded = envelope.pad(message)
    assert len(padded) == envelope.padded_length(len(message) + 1)
    assert envelope.unpad(padded) == message


@given(st.binary(max_size=300))
def test_only_the_one_padding_comes_off(padded: bytes) -> None:
    try:
        message = envelope.unpad(padded)
    except MalformedError:
        return
    assert envelope.pad(message) == padded


@given(st.integers(0, 2 * MAXIMUM_MESSAGE_BYTES))
def test_padding_costs_at_most_12_percent_and_never_shrinks(length: int) -> None:  # accepts: 000.10
    padded = envelope.padded_length(length)
    assert max(length, 40) <= padded <= max(40, length * 1.12)
    assert envelope.padded_length(padded) == padded
    assert envelope.padded_length(length + 1) >= padded


def test_few_lengths_are_left_to_see() -> None:  # accepts: 000.10
    seen = {envelope.padded_length(length) for length in range(1, MAXIMUM_MESSAGE_BYTES, 7)}
    assert len(seen) < 300


@given(messages, st.binary(min_size=32, max_size=32), st.binary(min_size=24, max_size=24))
def test_only_the_recipient_opens_an_envelope(message: bytes, ephemeral: bytes, nonce: bytes) -> None:
    raw = envelope.seal(message, BOB.noise_public, ephemeral, nonce)
    assert envelope.read_envelope(raw).open(BOB.noise_secret) == message
    with pytest.raises(DecryptionError):
        envelope.read_envelope(raw).open(ALICE.noise_secret)


@given(messages, st.data())
def test_no_bit_can_be_changed(message: bytes, data: st.DataObject) -> None:
    raw = bytearray(envelope.seal(message, BOB.noise_public, b"\x07" * 32, bytes(24)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RemoteError):
        envelope.read_envelope(bytes(raw)).open(BOB.noise_secret)


_TAG, _KEY = bytes(range(8)), bytes(range(32))
counters = st.integers(0, 2**63 - 1)


@given(messages, st.binary(min_size=32, max_size=32), counters)
def test_a_link_envelope_opens_by_its_key_alone(message: bytes, key: bytes, counter: int) -> None:
    read = envelope.read_envelope(envelope.seal_by_link(message, key, _TAG, counter))
    assert isinstance(read, envelope.LinkEnvelope)
    assert (read.tag, read.counter, read.open(key)) == (_TAG, counter, message)
    with pytest.raises(DecryptionError):
        read.open(bytes([key[0] ^ 1]) + key[1:])


@given(messages, counters, st.data())
def test_no_bit_of_a_link_envelope_can_be_changed(message: bytes, counter: int, data: st.DataObject) -> None:
    raw = bytearray(envelope.seal_by_link(message, _KEY, _TAG, counter))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RemoteError):
        envelope.read_envelope(bytes(raw)).open(_KEY)


@given(messages, st.integers(0, 200))
def test_no_part_of_a_link_envelope_opens(message: bytes, length: int) -> None:
    raw = envelope.seal_by_link(message, _KEY, _TAG, 7)
    with pytest.raises(RemoteError):
        envelope.read_envelope(raw[: min(length, len(raw) - 1)]).open(_KEY)
