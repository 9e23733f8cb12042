"""Envelopes: all that a relay ever sees (docs/protocol.md, "Envelopes").

A sealed envelope is the array `[1, ephemeral_pub, nonce24, ciphertext]`: NaCl `crypto_box` from a fresh key pair to
the recipient's noise key. The plaintext is padded, so that its length says little (000.10).

Padding (PADMÉ, Nikitin et al., PETS 2019): 0x80, then zeros, up to a length whose low bits are zero. Overhead is at
most 12 %, and a length leaks O(log log n) bits.
"""

from __future__ import annotations

from agent.core import crypto, wire
from agent.core.ids import KEY_BYTES
from agent.core.limits import MAXIMUM_ENVELOPE_BYTES, MAXIMUM_MESSAGE_BYTES
from agent.errors import DecryptionError, LimitError, MalformedError

SEALED = 1
_SMALLEST = 64
"""Everything shorter looks alike."""


def padded_length(length: int) -> int:
    """Return the PADMÉ length of a plaintext of `length` bytes (at least 64)."""
    if length <= _SMALLEST:
        return _SMALLEST
    exponent = length.bit_length() - 1
    zero_bits = exponent - exponent.bit_length()
    mask = (1 << zero_bits) - 1
    return (length + mask) & ~mask


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


def seal(message: bytes, recipient_noise_public: bytes, ephemeral_secret: bytes, nonce: bytes) -> bytes:
    """Return a sealed envelope. `ephemeral_secret` and `nonce` must be fresh random bytes.

    Raises:
        LimitError: the message is longer than a relay will carry.
        DecryptionError: the recipient's key is unusable.
    """
    if len(message) > MAXIMUM_MESSAGE_BYTES:
        raise LimitError(f"message longer than {MAXIMUM_MESSAGE_BYTES} bytes")
    ciphertext = crypto.box_seal(pad(message), nonce, recipient_noise_public, ephemeral_secret)
    return wire.encode([SEALED, crypto.scalar_base(ephemeral_secret), nonce, ciphertext])


def open_sealed(raw: bytes, *noise_secrets: bytes) -> bytes:
    """Open an envelope with the first secret that fits, and return the message bytes.

    Raises:
        LimitError: larger than any envelope; nothing was parsed.
        MalformedError: not an envelope of a known version, or badly padded.
        DecryptionError: sealed for none of these keys, or tampered with.
    """
    version, ephemeral_public, nonce, ciphertext = wire.record(
        wire.decode(raw, MAXIMUM_ENVELOPE_BYTES),
        "envelope",
        wire.uint(255),
        wire.octets(KEY_BYTES),
        wire.octets(crypto.NONCE_BYTES),
        wire.octets_to(MAXIMUM_ENVELOPE_BYTES),
    )
    if version != SEALED:
        raise MalformedError(f"envelope version {version}: a newer Covey?")
    if len(ciphertext) < crypto.SEAL_BYTES or not crypto.is_reduced(ephemeral_public):
        raise DecryptionError("envelope does not open")
    for secret in noise_secrets:
        try:
            padded = crypto.box_open(ciphertext, nonce, ephemeral_public, secret)
        except DecryptionError:
            continue
        return unpad(padded)
    raise DecryptionError("envelope does not open")
