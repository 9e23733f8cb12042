"""The cryptographic suite, as functions of bytes: NaCl box and secretbox, Ed25519, XChaCha20-Poly1305, HKDF.

Only this module touches PyNaCl, by its bindings with explicit keys and nonces, so that vectors can test
sealing as well as opening. Every failure to open is the same `DecryptionError`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from nacl import bindings
from nacl.exceptions import CryptoError

from agent.errors import DecryptionError, LimitError, MalformedError, SignatureError

NONCE_BYTES = 24
SIGNATURE_BYTES = 64
SEAL_BYTES = 16
"""What Poly1305 adds to a plaintext."""


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """What others know of a device: where to address it (X25519) and how to verify it (Ed25519)."""

    signing_public: bytes
    noise_public: bytes


@dataclass(frozen=True, slots=True)
class Identity:
    """A device's secrets. Never shown: `repr` holds public keys only (002.32)."""

    signing_public: bytes
    noise_public: bytes
    signing_secret: bytes = field(repr=False)
    noise_secret: bytes = field(repr=False)

    @classmethod
    def from_seeds(cls, signing_seed: bytes, noise_secret: bytes) -> Identity:
        """Derive the key pairs from two independent 32-byte secrets (RFC 8032 section 5.1.5, RFC 7748 section 5)."""
        if len(signing_seed) != 32 or len(noise_secret) != 32:
            raise MalformedError("identity secrets are 32 bytes each")
        signing_public, signing_secret = bindings.crypto_sign_seed_keypair(signing_seed)
        noise_public = bindings.crypto_scalarmult_base(noise_secret)
        return cls(signing_public, noise_public, signing_secret, noise_secret)

    @property
    def signing_seed(self) -> bytes:
        """The 32-byte seed of the signing key."""
        return self.signing_secret[:32]

    @property
    def keys(self) -> DeviceKeys:
        """The public half."""
        return DeviceKeys(self.signing_public, self.noise_public)


def sign(domain: bytes, content: bytes, identity: Identity) -> bytes:
    """Return the 64-byte Ed25519 signature over `domain || 0x00 || content` (RFC 8032)."""
    signed: bytes = bindings.crypto_sign(domain + b"\0" + content, identity.signing_secret)
    return signed[:SIGNATURE_BYTES]


def verify(domain: bytes, content: bytes, signature: bytes, signing_public: bytes) -> None:
    """Check a signature made by `sign` over the exact bytes received.

    Raises:
        SignatureError: it does not verify; small-order keys and malleable signatures are refused by libsodium.
    """
    verify_exactly(domain + b"\0" + content, signature, signing_public)


def verify_exactly(content: bytes, signature: bytes, signing_public: bytes) -> None:
    """Check a plain Ed25519 signature, without a domain: what `verify` and the published vectors share.

    Raises:
        SignatureError: as for `verify`.
    """
    if len(signature) != SIGNATURE_BYTES:  # libsodium would take the content's first bytes for the rest
        raise SignatureError("a signature has 64 bytes")
    try:
        bindings.crypto_sign_open(signature + content, signing_public)
    except (CryptoError, ValueError, TypeError) as error:
        raise SignatureError("signature does not verify") from error


def box_seal(plaintext: bytes, nonce: bytes, recipient_public: bytes, sender_secret: bytes) -> bytes:
    """Seal with NaCl `crypto_box` (X25519, XSalsa20-Poly1305).

    Raises:
        DecryptionError: the recipient's key is a point of small order, so nobody else's secret would be needed.
    """
    try:
        return bytes(bindings.crypto_box(plaintext, nonce, recipient_public, sender_secret))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("unusable public key") from error


def box_open(ciphertext: bytes, nonce: bytes, sender_public: bytes, recipient_secret: bytes) -> bytes:
    """Open what `box_seal` made.

    Raises:
        DecryptionError: it does not open.
    """
    try:
        return bytes(bindings.crypto_box_open(ciphertext, nonce, sender_public, recipient_secret))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("envelope does not open") from error


def check_noise_key(noise_public: bytes) -> None:
    """Refuse a key that nothing can be sealed for.

    Raises:
        MalformedError: not 32 bytes, a point of small order, or another spelling of a shorter number.
    """
    if len(noise_public) != 32 or not is_reduced(noise_public):
        raise MalformedError("an unusable X25519 key")
    try:
        box_seal(b"", bytes(NONCE_BYTES), noise_public, bytes([1]) * 32)
    except DecryptionError as error:
        raise MalformedError("an unusable X25519 key") from error


def is_reduced(public: bytes) -> bool:
    """Say whether an X25519 key is the one spelling of its point: X25519 itself ignores the top bit (RFC 7748)."""
    return int.from_bytes(public, "little") < 2**255 - 19


def scalar_base(secret: bytes) -> bytes:
    """Return the X25519 public key of a secret."""
    return bytes(bindings.crypto_scalarmult_base(secret))


def aead_seal(plaintext: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
    """Seal with XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03); `associated` is bound but not stored."""
    return bytes(bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, associated, nonce, key))


def aead_open(ciphertext: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
    """Open what `aead_seal` made.

    Raises:
        DecryptionError: wrong key, wrong associated data or tampering.
    """
    try:
        return bytes(bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(ciphertext, associated, nonce, key))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("object does not open") from error


def hkdf_sha256(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """Derive `length` bytes by HKDF-SHA-256 (RFC 5869).

    Raises:
        LimitError: more than 255 blocks of 32 bytes, which the RFC forbids.
    """
    if length > 255 * 32:
        raise LimitError("HKDF-SHA-256 gives at most 8,160 bytes")
    pseudorandom_key = hmac.digest(salt or bytes(32), secret, "sha256")
    output = block = b""
    counter = 1
    while len(output) < length:
        block = hmac.digest(pseudorandom_key, block + info + bytes([counter]), "sha256")
        output += block
        counter += 1
    return output[:length]


def argon2id(passphrase: bytes, salt: bytes, passes: int, memory_kib: int) -> bytes:
    """Derive a 32-byte key from a passphrase and a 16-byte salt by Argon2id, one lane (RFC 9106)."""
    return bytes(
        bindings.crypto_pwhash_alg(
            32, passphrase, salt, passes, memory_kib * 1024, bindings.crypto_pwhash_ALG_ARGON2ID13
        )
    )


def digest(domain: bytes, content: bytes) -> bytes:
    """Return the 32-byte BLAKE2b hash of `content`, personalised by a domain of at most 16 bytes."""
    return hashlib.blake2b(content, digest_size=32, person=domain).digest()


def same(one: bytes, other: bytes) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(one, other)
