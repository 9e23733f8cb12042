"""Envelopes: all that a relay ever sees (docs/protocol/core.md, "Envelopes").

A sealed envelope is the array `[1, ephemeral_pub, nonce24, ciphertext]`: NaCl `crypto_box` from a fresh key pair to
the recipient's noise key. A link envelope is `[2, tag8, counter, ciphertext]`: NaCl `crypto_secretbox` under a key
that a sealed message has set up (`link_keys.py`), with the nonce `tag || 0^8 || counter`; it costs no X25519. The
plaintext of both is padded, so that its length says little (000.10).

Padding (PADMÉ, Nikitin et al., PETS 2019): 0x80, then zeros, up to a length whose low bits are zero. Overhead is at
most 12 %, and a length leaks O(log log n) bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from covey.core import crypto
from covey.core.ids import KEY_BYTES, NoisePublic
from covey.core.wire import cbor, shapes
from covey.errors import DecryptionError, LimitError, MalformedError, UnsupportedError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES, MAXIMUM_MESSAGE_BYTES

SEALED = 1
LINKED = 2
"""The forms of envelopes: the first number says how it is built and by which suite it is sealed."""
_LAST_FORM = 255
TAG_BYTES = 8
_DOES_NOT_OPEN = "envelope does not open"
_FRAMING = 1 + 1 + (2 + KEY_BYTES) + (2 + crypto.NONCE_BYTES) + 5
"""The array, its number, the ephemeral key, the nonce and the head of the ciphertext."""
_SMALLEST = 40
"""Everything shorter looks alike."""


def padded_length(length: int) -> int:
    """Return the PADMÉ length of a plaintext of `length` bytes (at least 40)."""
    if length <= _SMALLEST:
        return _SMALLEST
    exponent = length.bit_length() - 1
    zero_bits = exponent - exponent.bit_length()
    mask = (1 << zero_bits) - 1
    return (length + mask) & ~mask


def sealed_length(message_bytes: int) -> int:
    """Return the length of the sealed envelope of a message of `message_bytes` bytes, to a few bytes at most."""
    return _FRAMING + crypto.SEAL_BYTES + padded_length(message_bytes + 1)


def pad(plaintext: bytes) -> bytes:
    """Append 0x80 and zeros (ISO/IEC 7816-4) up to the PADMÉ length."""
    length = padded_length(len(plaintext) + 1)
    return (plaintext + b"\x80").ljust(length, b"\0")


def unpad(padded: bytes) -> bytes:
    """Undo `pad`.

    Raises:
        MalformedError: no padding, or not the length that `pad` would have chosen.
    """
    plaintext = padded.rstrip(b"\0")
    if not plaintext.endswith(b"\x80") or padded_length(len(plaintext)) != len(padded):
        raise MalformedError("envelope padding")
    return plaintext[:-1]


def seal(message: bytes, recipient_noise_public: NoisePublic, ephemeral_secret: bytes, nonce: bytes) -> bytes:
    """Return a sealed envelope. `ephemeral_secret` and `nonce` must be fresh random bytes.

    Raises:
        LimitError: the message is longer than a relay will carry.
        DecryptionError: the recipient's key is unusable.
    """
    ciphertext = crypto.box_seal(_padded(message), nonce, recipient_noise_public, ephemeral_secret)
    return cbor.encode([SEALED, crypto.scalar_base(ephemeral_secret), nonce, ciphertext])


def seal_by_link(message: bytes, key: bytes, tag: bytes, counter: int) -> bytes:
    """Return a link envelope. No `counter` may be used twice with one key and tag.

    Raises:
        LimitError: the message is longer than a relay will carry.
    """
    return cbor.encode([LINKED, tag, counter, crypto.secretbox_seal(_padded(message), _link_nonce(tag, counter), key)])


def _padded(message: bytes) -> bytes:
    if len(message) > MAXIMUM_MESSAGE_BYTES:
        raise LimitError(f"message longer than {MAXIMUM_MESSAGE_BYTES} bytes")
    return pad(message)


def _link_nonce(tag: bytes, counter: int) -> bytes:
    """Return the 24 bytes that contain everything a relay could change outside the ciphertext."""
    return tag + counter.to_bytes(16)


@dataclass(frozen=True, slots=True)
class SealedEnvelope:
    """An envelope for the holder of a noise key's secret."""

    ephemeral_public: bytes
    nonce: bytes
    ciphertext: bytes = field(repr=False)

    def open(self, noise_secret: bytes) -> bytes:
        """Return the message.

        Raises:
            MalformedError: badly padded.
            DecryptionError: sealed for another key, or tampered with.
        """
        if len(self.ciphertext) < crypto.SEAL_BYTES or not crypto.is_reduced(self.ephemeral_public):
            raise DecryptionError(_DOES_NOT_OPEN)
        return unpad(crypto.box_open(self.ciphertext, self.nonce, self.ephemeral_public, noise_secret))


@dataclass(frozen=True, slots=True)
class LinkEnvelope:
    """An envelope for the holder of the link key with this tag."""

    tag: bytes
    counter: int
    ciphertext: bytes = field(repr=False)

    def open(self, key: bytes) -> bytes:
        """Return the message.

        Raises:
            MalformedError: badly padded.
            DecryptionError: another key's, or tampered with.
        """
        if len(self.ciphertext) < crypto.SEAL_BYTES:
            raise DecryptionError(_DOES_NOT_OPEN)
        return unpad(crypto.secretbox_open(self.ciphertext, _link_nonce(self.tag, self.counter), key))


def read_envelope(raw: bytes) -> SealedEnvelope | LinkEnvelope:
    """Parse an envelope.

    Raises:
        LimitError: larger than any envelope; nothing was parsed.
        MalformedError: no envelope.
        UnsupportedError: of a form that this build does not know, as one sealed by another suite is.
    """
    return _read_quickly(raw) or _read_strictly(raw)


def _read_strictly(raw: bytes) -> SealedEnvelope | LinkEnvelope:
    fields: Any = cbor.decode(raw, MAXIMUM_ENVELOPE_BYTES)
    ciphertext = cbor.octets_to(MAXIMUM_ENVELOPE_BYTES)
    if isinstance(fields, list) and fields[:1] == [LINKED]:
        return LinkEnvelope(
            *cbor.record(fields, "link envelope", cbor.uint(255), cbor.octets(TAG_BYTES), cbor.uint(), ciphertext)[1:]
        )
    if isinstance(fields, list) and fields and type(fields[0]) is int and LINKED < fields[0] <= _LAST_FORM:
        raise UnsupportedError(f"an envelope of form {fields[0]}, which this Covey does not know: a newer one does")
    form, *sealed = cbor.record(
        fields, "envelope", cbor.uint(SEALED), cbor.octets(KEY_BYTES), cbor.octets(crypto.NONCE_BYTES), ciphertext
    )
    if form != SEALED:
        raise MalformedError("no form of envelopes has the number 0")
    return SealedEnvelope(*sealed)


_SHAPES = {
    SEALED: shapes.shape(rb"\x84\x01\x58\x20(.{32})\x58\x18(.{24})(%(octets)b)" % {b"octets": shapes.OCTETS}),
    LINKED: shapes.shape(
        rb"\x84\x02\x48(.{8})(%(uint)b)(%(octets)b)" % {b"uint": shapes.UINT, b"octets": shapes.OCTETS}
    ),
}
"""By an envelope's number, which is its second byte."""


def _read_quickly(raw: bytes) -> SealedEnvelope | LinkEnvelope | None:
    """Return what `_read_strictly` does, or None where it has to judge."""
    if len(raw) > MAXIMUM_ENVELOPE_BYTES or raw[1:2] not in (b"\x01", b"\x02"):
        return None
    found = _SHAPES[raw[1]].match(raw)
    if found is None:
        return None
    first, second, head = found.groups()
    ciphertext = raw[found.end() :]
    if shapes.length(head) != len(ciphertext):
        return None
    if raw[1] == SEALED:
        return SealedEnvelope(first, second, ciphertext)
    return LinkEnvelope(first, shapes.uint(second), ciphertext)
